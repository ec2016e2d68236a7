import Primitives
import TransportAPI

/// The small parts of HTTP's grammar (RFC 9110, section 5.6).
package enum HTTPSyntax {
    /// Whether `bytes` is a token: a method, a header's name, a subprotocol.
    static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(isTokenByte)
    }

    /// Whether `byte` may be part of a token.
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
            true
        default: "!#$%&'*+.^_`|~".utf8.contains(byte)
        }
    }

    /// Whether `text` can be the value of a Host header: a host in ASCII, and a port if there is one.
    package static func isHost(_ text: String) -> Bool {
        !text.isEmpty && isVisible(text, except: "/?#@\\,\"")
    }

    /// Whether `text` is ASCII without spaces and control characters.
    static func isVisible(_ text: some StringProtocol, except excluded: String = "") -> Bool {
        text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !excluded.utf8.contains($0) }
    }

    /// A host and its port (RFC 3986, section 3.2): IPv6 addresses in brackets and without a zone, which means nothing
    /// elsewhere.
    package static func authority(host: String, port: UInt16?) -> String {
        let isIPv6 = host.utf8.contains(UInt8(ascii: ":"))
        let literal = isIPv6 ? "[\(host.prefix { $0 != "%" })]" : host
        return port.map { "\(literal):\($0)" } ?? literal
    }

    /// The version of HTTP that a message names (RFC 9112, section 2.3); `nil` if it is none.
    static func version(_ text: Substring.UTF8View) -> (major: UInt8, minor: UInt8)? {
        let bytes = Array(text)
        guard bytes.count == 8, bytes.starts(with: "HTTP/".utf8), bytes[6] == UInt8(ascii: "."),
            case let (major, minor) = (bytes[5] &- 0x30, bytes[7] &- 0x30), major <= 9, minor <= 9
        else { return nil }
        return (major, minor)
    }

    /// The status of a status line (RFC 9112, section 4); `nil` if it is malformed or of another major version. A higher minor
    /// version is read as the highest known, 1 (RFC 9110, section 2.5).
    ///
    /// - Parameter minor: the lowest minor version that is read.
    package static func status(_ line: String, atLeast minor: UInt8 = 1) -> Int? {
        let parts = line.utf8.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let version = version(parts[0]), version.major == 1, version.minor >= minor,
            parts[1].count == 3,
            parts[1].allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { return nil }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return status >= 100 ? status : nil
    }

    /// Without the spaces and tabs around it.
    package static func trim<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        var rest = bytes[...]
        while let first = rest.first, first == 0x20 || first == 0x09 { rest = rest.dropFirst() }
        while let last = rest.last, last == 0x20 || last == 0x09 { rest = rest.dropLast() }
        return rest
    }

    /// Whether two texts are the same but for the case of ASCII letters.
    package static func equalIgnoringCase(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        equalIgnoringCase(bytes: left.utf8, right.utf8)
    }

    /// The same of bytes.
    static func equalIgnoringCase(bytes left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        let isEqual: Bool?? = left.withContiguousStorageIfAvailable { left in
            right.withContiguousStorageIfAvailable { right in
                left.indices.allSatisfy { lowercase(left[$0]) == lowercase(right[$0]) }
            }
        }
        if case .some(.some(let isEqual)) = isEqual { return isEqual }
        // What lies elsewhere, as a string of Foundation's may.
        return zip(left, right).allSatisfy { lowercase($0) == lowercase($1) }
    }

    /// With ASCII letters in lower case.
    static func lowercased(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: bytes.map(lowercase), as: UTF8.self)
    }

    private static func lowercase(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte
    }

    /// The value of a header whose value is one number of seconds; not more than fits a few years.
    package static func seconds(_ text: String) -> Duration? {
        guard !text.isEmpty, text.utf8.count <= 8, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            return nil
        }
        return Int(text).map { .seconds($0) }
    }
}

extension [HTTPHeader] {
    /// The values of all headers of this name.
    package func values(_ name: String) -> [String] {
        var values: [String] = []
        for header in self where header.isNamed(name) { values.append(header.value) }
        return values
    }

    /// How often a header whose value is a comma-separated list, which may be spread over several headers, has this member,
    /// whatever its case.
    func list(_ name: String, count member: String) -> Int {
        var count = 0
        for header in self where header.isNamed(name) {
            for part in header.value.utf8.split(separator: UInt8(ascii: ","))
            where HTTPSyntax.equalIgnoringCase(bytes: HTTPSyntax.trim(part), member.utf8) {
                count += 1
            }
        }
        return count
    }

    /// Whether nothing says that a body follows; its bytes would be taken for those of another protocol.
    var announceNoBody: Bool {
        let lengths = values("Content-Length")
        return values("Transfer-Encoding").isEmpty && (lengths.isEmpty || lengths == ["0"])
    }
}

extension HTTPHeader {
    /// Whether this is its name, whatever its case.
    func isNamed(_ name: String) -> Bool { HTTPSyntax.equalIgnoringCase(self.name, name) }

    /// The value of an Authorization or Proxy-Authorization header (RFC 7617).
    ///
    /// - Throws: `.invalidConfiguration` for what the scheme can't express: a colon in `user`, control characters.
    package static func basic(user: String, password: String) throws(TransportError) -> String {
        guard !user.utf8.contains(UInt8(ascii: ":")) else { throw .configuration("user", "may not hold a colon") }
        guard (user + password).utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
            throw .configuration("user", "and password may not hold control characters")
        }
        return "Basic " + String(decoding: Base64.encode(Array("\(user):\(password)".utf8)), as: UTF8.self)
    }

    /// A header to send.
    ///
    /// - Throws: `.invalidConfiguration` if the name is not a token, or the value holds a control character (a line break
    ///   would smuggle in further headers) or begins or ends with white space.
    public init(_ name: String, _ value: String) throws(TransportError) {
        guard HTTPSyntax.isToken(name.utf8) else {
            throw .configuration("headers", "have a name, '\(name.debugDescription)', that is not an HTTP token")
        }
        guard value.utf8.allSatisfy({ ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7f }),
            HTTPSyntax.trim(value.utf8).count == value.utf8.count
        else {
            throw .configuration("headers", "give '\(name)' a control character or white space around its value")
        }
        self.init(parsed: name, value)
    }
}
