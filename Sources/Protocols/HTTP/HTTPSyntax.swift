import Primitives
import TransportAPI

/// The basic elements of the HTTP grammar (RFC 9110, section 5.6).
package enum HTTPSyntax {
    /// Returns whether `bytes` is a token: a method, the name of a header, a subprotocol.
    package static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(isTokenByte)
    }

    /// Returns whether `byte` may be part of a token.
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
            true
        default: "!#$%&'*+.^_`|~".utf8.contains(byte)
        }
    }

    /// Returns whether `text` can be the value of a Host header: an ASCII host, with a port or without.
    package static func isHost(_ text: String) -> Bool {
        !text.isEmpty && isVisible(text, except: "/?#@\\,\"")
    }

    /// Returns whether `text` is ASCII without spaces, control characters and the characters in `excluded`.
    static func isVisible(_ text: some StringProtocol, except excluded: String = "") -> Bool {
        text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !excluded.utf8.contains($0) }
    }

    /// Returns a host and its port as an authority (RFC 3986, section 3.2). IPv6 addresses are put in brackets, without
    /// their zone, because a zone has no meaning on another machine.
    package static func authority(host: String, port: UInt16?) -> String {
        let isIPv6 = host.utf8.contains(UInt8(ascii: ":"))
        let literal = isIPv6 ? "[\(host.prefix { $0 != "%" })]" : host
        return port.map { "\(literal):\($0)" } ?? literal
    }

    /// Parses the version of HTTP in a message (RFC 9112, section 2.3). Returns `nil` if it is malformed.
    static func version(_ text: Substring.UTF8View) -> (major: UInt8, minor: UInt8)? {
        let bytes = Array(text)
        guard bytes.count == 8, bytes.starts(with: "HTTP/".utf8), bytes[6] == UInt8(ascii: "."),
            case let (major, minor) = (bytes[5] &- 0x30, bytes[7] &- 0x30), major <= 9, minor <= 9
        else { return nil }
        return (major, minor)
    }

    /// Parses the status in a status line (RFC 9112, section 4). Returns `nil` if the line is malformed or has another
    /// major version. A higher minor version is treated as the highest known one, 1 (RFC 9110, section 6.2).
    ///
    /// - Parameter minor: the lowest minor version that is accepted.
    package static func status(_ line: String, atLeast minor: UInt8 = 1) -> Int? {
        let parts = line.utf8.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let version = version(parts[0]), version.major == 1, version.minor >= minor,
            parts[1].count == 3,
            parts[1].allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { return nil }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return status >= 100 ? status : nil
    }

    /// Returns `bytes` without the spaces and tabs around them.
    package static func trim<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        var rest = bytes[...]
        while let first = rest.first, first == 0x20 || first == 0x09 { rest = rest.dropFirst() }
        while let last = rest.last, last == 0x20 || last == 0x09 { rest = rest.dropLast() }
        return rest
    }

    /// Returns whether two texts are equal if the case of ASCII letters is ignored.
    package static func equalIgnoringCase(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        equalIgnoringCase(bytes: left.utf8, right.utf8)
    }

    /// Returns whether two sequences of bytes are equal if the case of ASCII letters is ignored.
    static func equalIgnoringCase(bytes left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        let isEqual: Bool?? = left.withContiguousStorageIfAvailable { left in
            right.withContiguousStorageIfAvailable { right in
                left.indices.allSatisfy { lowercase(left[$0]) == lowercase(right[$0]) }
            }
        }
        if case .some(.some(let isEqual)) = isEqual { return isEqual }
        // For storage that is not contiguous, as a bridged string of Foundation may have.
        return zip(left, right).allSatisfy { lowercase($0) == lowercase($1) }
    }

    /// Returns `bytes` as a text with ASCII letters in lower case.
    static func lowercased(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: bytes.map(lowercase), as: UTF8.self)
    }

    private static func lowercase(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte
    }

    /// Parses the value of a header that is a number of seconds. Returns `nil` if it is not a number. More than eight
    /// digits count as eight nines, which are three years.
    package static func seconds(_ text: String) -> Duration? {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        let most = 99_999_999
        return .seconds(min(Int(text) ?? most, most))
    }
}

extension [HTTPHeader] {
    /// Returns the values of all headers with this name.
    package func values(_ name: String) -> [String] {
        var values: [String] = []
        for header in self where header.isNamed(name) { values.append(header.value) }
        return values
    }

    /// Returns how often `member` occurs in a header whose value is a comma-separated list. The list may be spread over
    /// several headers. Case is ignored.
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

    /// Whether no header of a request announces a body. Its bytes would be read as those of another protocol.
    var announceNoBody: Bool {
        let lengths = values("Content-Length")
        return values("Transfer-Encoding").isEmpty && (lengths.isEmpty || lengths == ["0"])
    }
}

extension HTTPHeader {
    /// Returns whether this header has the given name. Case is ignored.
    func isNamed(_ name: String) -> Bool { HTTPSyntax.equalIgnoringCase(self.name, name) }

    /// Returns the value of an Authorization or Proxy-Authorization header (RFC 7617).
    ///
    /// - Throws: `.invalidConfiguration` if the scheme cannot express the credentials: a colon in `user`, or control
    ///   characters.
    package static func basic(user: String, password: String) throws(TransportError) -> String {
        guard !user.utf8.contains(UInt8(ascii: ":")) else { throw .configuration("user", "may not hold a colon") }
        guard (user + password).utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
            throw .configuration("user", "and password may not hold control characters")
        }
        return "Basic " + String(decoding: Base64.encode(Array("\(user):\(password)".utf8)), as: UTF8.self)
    }

    /// Creates a header to send.
    ///
    /// - Parameters:
    ///   - name: the name, which must be a token.
    ///   - value: the value, without surrounding white space.
    /// - Throws: `.invalidConfiguration` if the name is not a token, or if the value holds a control character or
    ///   begins or ends with white space. A line break in a value would inject further headers.
    public init(_ name: String, _ value: String) throws(TransportError) {
        guard HTTPSyntax.isToken(name.utf8) else {
            throw .configuration("headers", "have the name \(name.debugDescription), which is not an HTTP token")
        }
        guard value.utf8.allSatisfy({ ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7f }),
            HTTPSyntax.trim(value.utf8).count == value.utf8.count
        else {
            throw .configuration("headers", "give '\(name)' a control character or white space around its value")
        }
        self.init(parsed: name, value)
    }
}
