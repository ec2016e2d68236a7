import Protocols

/// What the core and the channel of a ``WebSocketTask`` say to each other, as bytes that never leave the process: a kind, the
/// length of the body, and the body. So the driver of all connections runs a task of the system too, with its limits, waits and
/// outcomes.
enum TaskFrame {
    /// The kinds of frames.
    enum Kind: UInt8 {
        /// To the core: the handshake is complete. The body is the subprotocol, if there is one.
        case opened = 1
        /// To the core: the handshake was redirected. The body is the status in two bytes, and the Location header.
        case redirected
        /// A message of text.
        case text
        /// A message of bytes.
        case binary
        /// To the channel: ping the peer. The body is the number of the ping.
        case ping
        /// To the core: the peer has answered the ping of this number.
        case pong
        /// The close of one side. The body is the code in two bytes, and the text.
        case close
    }

    /// The size of the kind and the length.
    static let headerSize = 9

    /// Appends a frame with one body of two parts.
    static func write(_ kind: Kind, number: UInt16? = nil, _ body: UnsafeRawBufferPointer, to buffer: inout ByteBuffer)
    {
        buffer.append(kind.rawValue)
        buffer.append(integer: UInt64(body.count + (number == nil ? 0 : 2)))
        if let number { buffer.append(integer: number) }
        buffer.append(contentsOf: body)
    }

    /// Appends a frame with a text.
    static func write(_ kind: Kind, number: UInt16? = nil, _ text: String, to buffer: inout ByteBuffer) {
        var text = text
        text.withUTF8 { write(kind, number: number, UnsafeRawBufferPointer($0), to: &buffer) }
    }

    /// Appends a frame with the number of a ping.
    static func write(_ kind: Kind, ping: UInt64, to buffer: inout ByteBuffer) {
        withUnsafeBytes(of: ping.bigEndian) { write(kind, $0, to: &buffer) }
    }

    /// The first frame of `bytes`; `nil` if it is not complete.
    static func first(_ bytes: UnsafeRawBufferPointer) -> (kind: Kind, body: UnsafeRawBufferPointer)? {
        guard bytes.count >= headerSize, let kind = Kind(rawValue: bytes[0]) else { return nil }
        let length = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 1, as: UInt64.self))
        guard length <= UInt64(bytes.count - headerSize) else { return nil }
        return (kind, UnsafeRawBufferPointer(rebasing: bytes[headerSize..<headerSize + Int(length)]))
    }

    /// The number and the text of a body.
    static func numberAndText(_ body: UnsafeRawBufferPointer) -> (number: UInt16, text: String) {
        guard body.count >= 2 else { return (0, "") }
        let number = UInt16(bigEndian: body.loadUnaligned(as: UInt16.self))
        return (number, String(decoding: body.dropFirst(2), as: UTF8.self))
    }

    /// The number of a ping.
    static func ping(_ body: UnsafeRawBufferPointer) -> UInt64 {
        body.count == 8 ? UInt64(bigEndian: body.loadUnaligned(as: UInt64.self)) : 0
    }
}
