import TransportAPI

/// What a frame is (RFC 6455, section 5.2; the others are reserved).
enum Opcode: UInt8, Sendable, Hashable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xa

    /// Whether frames of this kind steer the connection and may stand between the fragments of a message.
    var isControl: Bool { rawValue & 0x8 != 0 }
}

/// What stands before a frame's payload (RFC 6455, section 5.2).
struct FrameHeader: Sendable, Hashable {
    /// The longest header: two bytes, eight of length, four of key.
    static let maximumSize = 14
    /// RSV1: the message that begins with this frame is compressed (RFC 7692, section 6).
    static let compressed: UInt8 = 0x40
    /// The most payload bytes of a control frame (section 5.5).
    static let maximumControlLength = 125

    /// Whether this is a message's last frame.
    var isFinal: Bool
    /// RSV1, RSV2 and RSV3, in place (0x40, 0x20, 0x10): what they mean is up to extensions.
    var reservedBits: UInt8 = 0
    var opcode: Opcode
    /// How many bytes of payload follow.
    var length: Int
    /// The key that masks the payload; `nil` if it is not masked.
    var maskKey: UInt32?
    /// How many bytes this header takes.
    var size: Int

    /// Reads the header of a frame, and checks all that can be told from one header alone. `nil` if it has not arrived yet.
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
            throw .webSocketViolation("a frame has reserved bits set that no extension agreed on gives a meaning")
        }
        guard let opcode = Opcode(rawValue: bytes[0] & 0x0f) else {
            throw .webSocketViolation("a frame has the reserved opcode \(bytes[0] & 0x0f)")
        }
        guard (bytes[1] & 0x80 != 0) == mustBeMasked else {
            throw .webSocketViolation(mustBeMasked ? "a client's frame is not masked" : "a server's frame is masked")
        }
        // What an extension marks is the first frame of a message (RFC 7692, section 6.1).
        guard reservedBits == 0 || opcode == .text || opcode == .binary else {
            throw .webSocketViolation("a frame that begins no message has reserved bits set")
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

    /// The payload's length and where its field ends. Only the shortest form is allowed (section 5.2).
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
