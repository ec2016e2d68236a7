import TransportAPI

/// The kind of a frame (RFC 6455, section 5.2). All other numbers are reserved.
enum Opcode: UInt8, Sendable, Hashable {
    /// A further frame of a message.
    case continuation = 0x0
    /// The first frame of a text message.
    case text = 0x1
    /// The first frame of a binary message.
    case binary = 0x2
    /// The close frame.
    case close = 0x8
    /// A ping, which requests a pong.
    case ping = 0x9
    /// The answer to a ping, or an unsolicited pong.
    case pong = 0xa

    /// Whether this is a control frame. Control frames may appear between the fragments of a message.
    var isControl: Bool { rawValue & 0x8 != 0 }
}

/// The header of a frame (RFC 6455, section 5.2).
struct FrameHeader: Sendable, Hashable {
    /// The longest header: two bytes, eight bytes of length, four bytes of key.
    static let maximumSize = 14
    /// RSV1: the message that begins with this frame is compressed (RFC 7692, section 6).
    static let compressed: UInt8 = 0x40
    /// The most payload bytes of a control frame (section 5.5).
    static let maximumControlLength = 125

    /// Whether this is the last frame of a message.
    var isFinal: Bool
    /// RSV1, RSV2 and RSV3 at their places (0x40, 0x20, 0x10). Extensions define their meaning.
    var reservedBits: UInt8 = 0
    var opcode: Opcode
    /// The length of the payload in bytes.
    var length: Int
    /// The key that masks the payload, or `nil` if it is not masked.
    var maskKey: UInt32?
    /// The size of this header in bytes.
    var size: Int

    /// Reads the header of a frame, and checks everything that depends on one header only. Returns `nil` if it has not
    /// arrived completely.
    ///
    /// - Parameters:
    ///   - mustBeMasked: whether the sender is a client (section 5.1).
    ///   - permittedReservedBits: the bits to which a negotiated extension gives a meaning.
    static func read(
        _ bytes: UnsafeRawBufferPointer,
        mustBeMasked: Bool,
        permittedReservedBits: UInt8 = 0
    ) throws(TransportError) -> FrameHeader? {
        guard bytes.count >= 2 else { return nil }
        let isFinal = bytes[0] & 0x80 != 0
        let reservedBits = bytes[0] & 0x70
        guard reservedBits & ~permittedReservedBits == 0 else {
            throw .webSocketViolation("a frame has reserved bits that no negotiated extension defines")
        }
        guard let opcode = Opcode(rawValue: bytes[0] & 0x0f) else {
            throw .webSocketViolation("a frame has the reserved opcode \(bytes[0] & 0x0f)")
        }
        guard (bytes[1] & 0x80 != 0) == mustBeMasked else {
            throw .webSocketViolation(mustBeMasked ? "a client's frame is not masked" : "a server's frame is masked")
        }
        // An extension may mark only the first frame of a message (RFC 7692, section 6.1).
        guard reservedBits == 0 || opcode == .text || opcode == .binary else {
            throw .webSocketViolation("a frame has reserved bits, but does not begin a message")
        }
        if opcode.isControl {
            guard isFinal else { throw .webSocketViolation("a control frame is fragmented") }
            guard bytes[1] & 0x7f <= maximumControlLength else {
                throw .webSocketViolation("a control frame is longer than \(maximumControlLength) bytes")
            }
        }
        guard let (length, start) = try readLength(bytes) else { return nil }
        var header = FrameHeader(
            isFinal: isFinal,
            reservedBits: reservedBits,
            opcode: opcode,
            length: length,
            maskKey: nil,
            size: start
        )
        if mustBeMasked {
            guard bytes.count >= start + 4 else { return nil }
            header.maskKey = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self))
            header.size = start + 4
        }
        return header
    }

    /// Reads the length of the payload and the end of the length field. Only the shortest form is allowed (section
    /// 5.2).
    @inline(__always)
    private static func readLength(
        _ bytes: UnsafeRawBufferPointer
    ) throws(TransportError) -> (length: Int, end: Int)? {
        let short = bytes[1] & 0x7f
        switch short {
        case 126:
            guard bytes.count >= 4 else { return nil }
            let length = UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
            guard length > 125 else { throw .webSocketViolation("a frame's length is not in its shortest form") }
            return (Int(length), 4)
        case 127:
            guard bytes.count >= 10 else { return nil }
            let length = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
            guard length > UInt64(UInt16.max) else {
                throw .webSocketViolation("a frame's length is not in its shortest form")
            }
            guard let length = Int(exactly: length) else {
                throw .webSocketViolation("a frame's length has its highest bit set")
            }
            return (length, 10)
        default:
            return (Int(short), 2)
        }
    }
}
