import TransportAPI

/// The datagrams of this package's UDP format (Docs/reference/wire-formats.md). Each begins with one word: "IM", the
/// version, and the kind.
package enum Datagram {
    /// The kind of a datagram. The raw value is its first four bytes as a big-endian word.
    package enum Kind: UInt32 {
        /// From the client: nonce, padding. Requests a session.
        case hello = 0x494d_0101
        /// From the server: nonce, cookie. Asks the client to prove that it receives at its address.
        case retry = 0x494d_0102
        /// From the client: nonce, cookie, terms or padding. Returns the cookie.
        case confirm = 0x494d_0103
        /// From the server: nonce, connection id. Opens the session.
        case accept = 0x494d_0104
        /// From both sides: connection id, sequence number, message.
        case data = 0x494d_0105
        /// From both sides: connection id, token.
        case ping = 0x494d_0106
        /// From both sides: connection id, token of the ping.
        case pong = 0x494d_0107
        /// From both sides: connection id, code, text. Closes the session.
        case bye = 0x494d_0108
        /// From the server: connection id. There is no such session.
        case gone = 0x494d_0109
        /// From the server: nonce. There is no room for another session.
        case busy = 0x494d_010a
        /// From the server: nonce, connection id, terms. Opens the session in the reliable mode.
        case welcome = 0x494d_010b
        /// From both sides: connection id, packet number, frames of the reliable mode.
        case packet = 0x494d_010c
        /// From the server: nonce. Refuses the reliable mode.
        case refusal = 0x494d_010d
    }

    static let wordSize = 4
    /// The end of the connection id or nonce.
    package static let identifiedSize = 12
    /// The size of a datagram with a second number of 64 bits.
    package static let pairSize = 20
    /// The size of hello and confirm. It is more than the size of any answer to them, so that there is no
    /// amplification.
    package static let requestSize = 64
    static let dataHeaderSize = 16

    /// The kind of the datagram; `nil` if it does not have this package's format or the size of its kind.
    package static func kind(of datagram: borrowing ByteBuffer) -> Kind? {
        guard let kind = datagram.integer(at: 0, as: UInt32.self).flatMap(Kind.init(rawValue:)) else { return nil }
        let size = datagram.count
        let fits =
            switch kind {
            case .hello, .confirm: size == requestSize
            case .retry, .accept, .ping, .pong: size == pairSize
            case .gone, .busy, .refusal: size == identifiedSize
            case .welcome: size == pairSize + ReliableTerms.wireSize
            case .packet: size > ReliableSession.headerSize
            case .data: size >= dataHeaderSize
            case .bye: size >= identifiedSize + ClosePayload.codeSize
            }
        return fits ? kind : nil
    }

    /// Whether the datagram requests a session.
    package static func isRequest(_ datagram: borrowing ByteBuffer) -> Bool {
        guard datagram.count == requestSize, let word = datagram.integer(at: 0, as: UInt32.self) else { return false }
        return word == Kind.hello.rawValue || word == Kind.confirm.rawValue
    }

    /// The connection id or nonce.
    static func identifier(of datagram: borrowing ByteBuffer) -> UInt64? {
        datagram.integer(at: wordSize, as: UInt64.self)
    }

    /// The cookie, the token, or the accepted connection id.
    package static func number(of datagram: borrowing ByteBuffer) -> UInt64? {
        datagram.integer(at: identifiedSize, as: UInt64.self)
    }

    /// Appends a datagram of `kind` with its numbers.
    package static func append(_ kind: Kind, _ identifier: UInt64, _ number: UInt64? = nil, to output: inout ByteBuffer)
    {
        let size =
            switch kind {
            case .hello, .confirm: requestSize
            default: number == nil ? identifiedSize : pairSize
            }
        _ = output.write(minimum: size) { target in
            target[..<size].initializeMemory(as: UInt8.self, repeating: 0)
            target.storeBytes(of: kind.rawValue.bigEndian, as: UInt32.self)
            target.storeBytes(of: identifier.bigEndian, toByteOffset: wordSize, as: UInt64.self)
            if let number {
                target.storeBytes(of: number.bigEndian, toByteOffset: identifiedSize, as: UInt64.self)
            }
            return size
        }
    }
}
