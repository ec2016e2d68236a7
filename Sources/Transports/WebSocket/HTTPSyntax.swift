import TransportAPI

/// The small parts of HTTP's grammar (RFC 9110, section 5.6).
enum HTTPSyntax {
    /// Whether `bytes` is a token: a method, a header's name, a subprotocol.
    static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// Without the spaces and tabs around it.
    static func trim<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        var rest = bytes[...]
        while let first = rest.first, first == 0x20 || first == 0x09 { rest = rest.dropFirst() }
        while let last = rest.last, last == 0x20 || last == 0x09 { rest = rest.dropLast() }
        return rest
    }

    /// Whether two texts are the same but for the case of ASCII letters.
    static func equalIgnoringCase(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        left.utf8.count == right.utf8.count
            && zip(left.utf8, right.utf8).allSatisfy { lowercase($0) == lowercase($1) }
    }

    private static func lowercase(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte
    }

    /// The value of a header whose value is one number of seconds; not more than fits a few years.
    static func seconds(_ text: String) -> Duration? {
        guard !text.isEmpty, text.utf8.count <= 8, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            return nil
        }
        return Int(text).map { .seconds($0) }
    }
}

extension [HTTPHeader] {
    /// The values of all headers of this name.
    func values(_ name: String) -> [String] {
        filter { HTTPSyntax.equalIgnoringCase($0.name, name) }.map(\.value)
    }

    /// The members of a header whose value is a comma-separated list, which may be spread over several headers.
    func list(_ name: String) -> [String] {
        values(name).flatMap { $0.split(separator: ",") }
            .map { String(decoding: HTTPSyntax.trim($0.utf8), as: UTF8.self) }
            .filter { !$0.isEmpty }
    }

    /// Whether such a list has this member, whatever its case.
    func list(_ name: String, contains member: String) -> Bool {
        list(name).contains { HTTPSyntax.equalIgnoringCase($0, member) }
    }
}

extension HTTPHeader {
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
