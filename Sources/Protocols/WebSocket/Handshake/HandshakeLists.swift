import TransportAPI

/// One member of a Sec-WebSocket-Extensions header (RFC 6455, section 9.1): a client's offer, or a server's answer.
struct WebSocketExtension: Sendable, Hashable {
    struct Parameter: Sendable, Hashable {
        var name: String
        /// The value without its quotes.
        var value: String?
    }

    var name: String
    var parameters: [Parameter] = []

    /// Reads the values of all Sec-WebSocket-Extensions headers. Returns an empty list if there are no headers, and
    /// `nil` if one is malformed.
    static func list(_ values: [String]) -> [WebSocketExtension]? {
        HandshakeListReader.list(values) { (reader) -> WebSocketExtension? in
            guard let name = reader.token() else { return nil }
            var member = WebSocketExtension(name: name)
            while reader.take(";") {
                guard let name = reader.token() else { return nil }
                var parameter = Parameter(name: name)
                if reader.take("=") {
                    guard let value = reader.tokenOrQuotedToken() else { return nil }
                    parameter.value = value
                }
                member.parameters.append(parameter)
            }
            return member
        }
    }
}

/// Reads the lists of the opening handshake (RFC 9110, section 5.6.1). Commas separate the members, and spaces and tabs
/// may surround them. Empty members are ignored, but at least one must not be empty.
struct HandshakeListReader {
    private var rest: Substring.UTF8View

    /// Reads a list that may be spread over several headers. Returns an empty list if there are no headers, and `nil`
    /// if it is malformed.
    static func list<Member>(
        _ values: [String],
        member: (inout HandshakeListReader) -> Member?
    ) -> [Member]? {
        var members: [Member] = []
        for value in values {
            var reader = HandshakeListReader(rest: value[...].utf8)
            while true {
                while reader.take(",") {}
                if reader.isAtEnd { break }
                guard let member = member(&reader) else { return nil }
                members.append(member)
                guard reader.isAtEnd || reader.take(",") else { return nil }
            }
        }
        return members.isEmpty && !values.isEmpty ? nil : members
    }

    /// Reads the subprotocols of a request: tokens, each only once (RFC 6455, section 4.1). Returns `nil` if the list
    /// is malformed.
    static func subprotocols(_ values: [String]) -> [String]? {
        guard let names = list(values, member: { $0.token() }), Set(names).count == names.count else { return nil }
        return names
    }

    private var isAtEnd: Bool {
        mutating get {
            rest = rest.drop { $0 == 0x20 || $0 == 0x09 }
            return rest.isEmpty
        }
    }

    /// Consumes one character if it comes next. Returns whether it did.
    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard !isAtEnd, rest.first == UInt8(ascii: character) else { return false }
        rest = rest.dropFirst()
        return true
    }

    /// Consumes a token. Returns `nil` if none comes next.
    mutating func token() -> String? {
        guard !isAtEnd else { return nil }
        let token = rest.prefix { HTTPSyntax.isTokenByte($0) }
        rest = rest.dropFirst(token.count)
        return token.isEmpty ? nil : String(decoding: token, as: UTF8.self)
    }

    /// Consumes a token, or a quoted string that is a token after its backslashes are removed (RFC 9110, section
    /// 5.6.4).
    mutating func tokenOrQuotedToken() -> String? {
        guard take("\"") else { return token() }
        var bytes: [UInt8] = []
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") {
                return HTTPSyntax.isToken(bytes) ? String(decoding: bytes, as: UTF8.self) : nil
            }
            guard byte == UInt8(ascii: "\\") else {
                bytes.append(byte)
                continue
            }
            guard let escaped = rest.popFirst() else { return nil }
            bytes.append(escaped)
        }
        return nil
    }
}
