import TransportAPI

/// The datagrams of our UDP format (Docs/reference/wire-formats.md). Each begins with one word:
/// "IM", the version, and the kind.
package enum Datagram {
    /// What a datagram is; the raw value is its first four bytes as a big-endian word.
    package enum Kind: UInt32 {
        /// Client: nonce, padding. "I would like a session."
        case hello = 0x494d_0101
        /// Server: nonce, cookie. "Show me that you get what I send to this address."
        case retry = 0x494d_0102
        /// Client: nonce, cookie, padding.
        case confirm = 0x494d_0103
        /// Server: nonce, connection id.
        case accept = 0x494d_0104
        /// Either: connection id, sequence number, message.
        case data = 0x494d_0105
        /// Either: connection id, token.
        case ping = 0x494d_0106
        /// Either: connection id, token of the ping.
        case pong = 0x494d_0107
        /// Either: connection id, code, text.
        case bye = 0x494d_0108
        /// Server: connection id. "I know no such session."
        case gone = 0x494d_0109
        /// Server: nonce. "I have no room for another session."
        case busy = 0x494d_010a
        /// Server: nonce, connection id, terms. "Accepted, and reliable."
        case welcome = 0x494d_010b
        /// Either: connection id, packet number, frames of the reliable mode.
        case packet = 0x494d_010c
        /// Server: nonce. "Not reliably."
        case refusal = 0x494d_010d
    }

    static let wordSize = 4
    /// Where connection id or nonce ends.
    package static let identifiedSize = 12
    /// The size of what carries a second number of 64 bits.
    package static let pairSize = 20
    /// The size of hello and confirm: more than any answer to them, so that forged ones amplify nothing.
    package static let requestSize = 64
    static let dataHeaderSize = 16

    /// The kind of the datagram; `nil` if it is not one of ours or has not the size of its kind.
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

    /// Whether it asks for a session.
    package static func isRequest(_ datagram: borrowing ByteBuffer) -> Bool {
        guard datagram.count == requestSize, let word = datagram.integer(at: 0, as: UInt32.self) else { return false }
        return word == Kind.hello.rawValue || word == Kind.confirm.rawValue
    }

    /// Connection id or nonce.
    static func identifier(of datagram: borrowing ByteBuffer) -> UInt64? {
        datagram.integer(at: wordSize, as: UInt64.self)
    }

    /// Cookie, token, or the accepted connection id.
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
