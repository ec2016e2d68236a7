import Protocols
import TransportAPI

/// The handshake with a SOCKS proxy of version 5 (RFC 1928), without credentials or with user and password (RFC 1929).
///
/// The proxy chooses the method of authentication. Credentials are offered only if they are configured, and sent only if
/// the proxy chooses them. No message of the proxy has more than 262 bytes, so nothing else limits the input.
struct SOCKSHandshake: ProxyHandshake {
    private enum State {
        /// The proxy has to choose a method.
        case method
        /// The proxy has to accept user and password.
        case credentials
        /// The proxy has to open the tunnel.
        case reply
    }

    /// The methods of authentication (RFC 1928, section 3).
    private enum Method {
        static let none: UInt8 = 0
        static let password: UInt8 = 2
        /// The proxy accepts none of the offered methods.
        static let noneAcceptable: UInt8 = 0xff
    }

    /// The types of addresses (RFC 1928, section 5).
    private enum AddressType {
        static let ipv4: UInt8 = 1
        static let name: UInt8 = 3
        static let ipv6: UInt8 = 4
    }

    private static let version: UInt8 = 5
    /// The version of the exchange of user and password (RFC 1929, section 2).
    private static let passwordVersion: UInt8 = 1

    private var state = State.method
    /// The message with user and password; `nil` to offer only the method without credentials.
    @Secret private var credentials: [UInt8]?
    /// The request for the tunnel.
    private let request: [UInt8]

    /// Creates the handshake for a tunnel to a server.
    ///
    /// - Throws: `.invalidConfiguration` that quotes no credentials.
    init(to server: String, port: UInt16, user: String?, password: String?) throws(TransportError) {
        credentials = try user.map { (user) throws(TransportError) in try Self.credentials(user, password ?? "") }
        request = try [Self.version, 1, 0] + Self.address(server) + [UInt8(port >> 8), UInt8(port & 0xff)]
    }

    private static func credentials(_ user: String, _ password: String) throws(TransportError) -> [UInt8] {
        let (user, password) = (Array(user.utf8), Array(password.utf8))
        let lengths = 1...255
        guard lengths.contains(user.count), lengths.contains(password.count) else {
            throw .configuration("user", "and password must have 1 to 255 bytes each, or both be left out (RFC 1929)")
        }
        return [passwordVersion, UInt8(user.count)] + user + [UInt8(password.count)] + password
    }

    /// Returns the type and the address of a server.
    private static func address(_ server: String) throws(TransportError) -> [UInt8] {
        if let address = numericAddress(server) {
            return [address.count == 4 ? AddressType.ipv4 : AddressType.ipv6] + address
        }
        let name = Array(server.utf8)
        guard HTTPSyntax.isHost(server), name.count <= 255 else { throw .hostForProxy }
        return [AddressType.name, UInt8(name.count)] + name
    }

    func start(_ output: inout ByteBuffer, unixTime _: Int64?) {
        let methods = credentials == nil ? [Method.none] : [Method.none, Method.password]
        output.append(contentsOf: [Self.version, UInt8(methods.count)] + methods)
    }

    mutating func next(_ input: inout ByteBuffer, _ output: inout ByteBuffer) throws(TransportError) -> Bool {
        while true {
            switch state {
            case .method:
                guard let method = try readAnswer(&input, version: Self.version) else { return false }
                try choose(method, &output)
            case .credentials:
                guard let status = try readAnswer(&input, version: Self.passwordVersion) else { return false }
                guard status == 0 else {
                    let sentence = "the proxy does not accept user and password"
                    throw TransportError(.authenticationFailed, .connect, sentence, detail: Int(status))
                }
                state = .reply
                output.append(contentsOf: request)
            case .reply:
                return try readReply(&input)
            }
        }
    }

    /// Consumes an answer of a version and one more byte, which it returns. Returns `nil` if it has not arrived.
    private func readAnswer(_ input: inout ByteBuffer, version: UInt8) throws(TransportError) -> UInt8? {
        try checkVersion(input, version)
        guard let value = input.byte(at: 1) else { return nil }
        input.consume(2)
        return value
    }

    /// Refuses another version once its byte has arrived.
    private func checkVersion(_ input: borrowing ByteBuffer, _ version: UInt8) throws(TransportError) {
        guard let first = input.byte(at: 0), first != version else { return }
        let isHTTP = state == .method && first == UInt8(ascii: "H")
        throw .proxyFailed(isHTTP ? "answers with HTTP; write http:// in its URL" : "does not answer with SOCKS 5")
    }

    private mutating func choose(_ method: UInt8, _ output: inout ByteBuffer) throws(TransportError) {
        switch (method, credentials) {
        case (Method.none, _):
            state = .reply
            output.append(contentsOf: request)
        case (Method.password, let credentials?):
            state = .credentials
            output.append(contentsOf: credentials)
        case (Method.noneAcceptable, nil):
            throw TransportError(.authenticationFailed, .connect, "the proxy requires user and password")
        case (Method.noneAcceptable, _):
            let sentence = "the proxy supports no authentication by user and password"
            throw TransportError(.authenticationFailed, .connect, sentence)
        default: throw .proxyFailed("chose the method of authentication \(method), which was not offered")
        }
    }

    /// Consumes the proxy's reply to the request (RFC 1928, section 6). Its address is that of the tunnel's other end at
    /// the proxy, and has no use here. Returns false if the reply has not arrived completely.
    private func readReply(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        try checkVersion(input, Self.version)
        // A refusal is complete with its code, because some proxies send no address after it.
        guard let code = input.byte(at: 1) else { return false }
        guard code == 0 else { throw .socksReply(code) }
        guard let reserved = input.byte(at: 2) else { return false }
        guard reserved == 0 else { throw .proxyFailed("sent a malformed answer: a reserved byte is not 0") }
        guard let type = input.byte(at: 3) else { return false }
        let length: Int
        switch type {
        case AddressType.ipv4: length = 4
        case AddressType.ipv6: length = 16
        case AddressType.name:
            guard let count = input.byte(at: 4) else { return false }
            length = 1 + Int(count)
        default: throw .proxyFailed("sent a malformed answer: an address has the unknown type \(type)")
        }
        // Version, code, reserved byte and type precede the address, and the port follows.
        guard input.count >= 4 + length + 2 else { return false }
        input.consume(4 + length + 2)
        return true
    }
}

extension TransportError {
    /// The error for the code with which a SOCKS proxy refused a tunnel (RFC 1928, section 6).
    static func socksReply(_ reply: UInt8) -> TransportError {
        let (code, sentence): (Code, String) =
            switch reply {
            case 1: (.serverUnavailable, "is not able to open a tunnel now")
            case 2: (.forbidden, "forbids this connection")
            case 3: (.unreachable, "can't reach the network of the server")
            case 4: (.unreachable, "can't reach the server, or can't resolve its name")
            case 5: (.refused, "was refused by the server: nothing listens there")
            case 6: (.unreachable, "can't reach the server, because a packet exceeded its time to live")
            case 7: (.unsupported, "opens no tunnels")
            case 8: (.unsupported, "does not support this type of address")
            default: (.handshakeFailed, "refused the tunnel")
            }
        return TransportError(code, .connect, "the proxy \(sentence): SOCKS reply \(reply)", detail: Int(reply))
    }
}
