import Primitives
import TransportAPI

/// Reads frames and assembles messages (RFC 6455, sections 5 and 6.2).
///
/// A message becomes one payload array at once if it has a single frame that is complete in the input. All other
/// messages move part by part from the input into the message under assembly. So each byte is read once, text is
/// refused at its first wrong byte, and at most one part is reserved in advance for a declared length. Limits are
/// checked against the declared length before any byte is buffered. The limits of a compressed message are checked during
/// decompression (``Inflation``, ``ExpansionLimit``).
struct FrameReader: Sendable {
    /// The result of one reading step.
    enum Incoming: Sendable, Hashable {
        /// A complete message.
        case message(Payload)
        /// A control frame with its payload.
        case control(Opcode, [UInt8])
        /// A frame or a part of a message that is not complete. There may be more input to read, or more parts to join.
        case part
    }

    /// Whether the peer is a client. Clients mask their frames.
    private let mustBeMasked: Bool
    let maximumMessageSize: Int
    /// Whether each part of a message is returned as a message of its own when it arrives. This is for protocols that
    /// send a byte stream over WebSocket, and only without compression.
    private let givesParts: Bool
    /// The limit for the compressed size of a message. Data that cannot be compressed becomes larger: five bytes for
    /// each stored block. If zlib's window is too small to store a block, it can be an eighth and a sixty-fourth, its
    /// own bound (deflateBound before zlib 1.2.13, which has a lower one).
    private let maximumCompressedSize: Int
    private let maximumFragments: Int
    /// Decompresses messages, if that was negotiated. RSV1 is accepted only then.
    var inflation: Inflation?
    private var permittedReservedBits: UInt8 = 0

    // The state between two reading steps. The extension below assembles messages with it.

    /// The kind of the message under assembly, or `nil` if there is none.
    var kind: Payload.Kind?
    var isCompressed = false
    var message = MessageParts()
    /// Whether the whole message has arrived, so that its parts are being joined.
    var isWhole = false
    var text = UTF8Validator()
    /// The declared length of the message's frames so far.
    var messageLength = 0

    /// How many frames the message has so far.
    var fragments = 0
    /// How many empty frames between the first and the last of a message were read since ``takeEmptyFrames()`` was last
    /// called.
    private var emptyFrames: UInt64 = 0

    /// Whether a part of the current data frame has not arrived yet.
    var isWithinFrame = false
    var isFinalFrame = false
    var remaining = 0
    var maskKey: UInt32 = 0

    /// Whether messages are skipped. Control frames are still read.
    private(set) var isDiscarding = false

    /// Creates a reader for the frames of one side. A message has at most `maximumMessageSize` bytes of payload, in at
    /// most `maximumFragments` frames.
    init(mustBeMasked: Bool, maximumMessageSize: Int, maximumFragments: Int = .max, givesParts: Bool = false) {
        self.givesParts = givesParts
        self.mustBeMasked = mustBeMasked
        self.maximumMessageSize = maximumMessageSize
        maximumCompressedSize = maximumMessageSize.addingSaturated(
            maximumMessageSize >> 3 + maximumMessageSize >> 6 + 64
        )
        self.maximumFragments = maximumFragments
    }

    /// Returns the number of empty frames since the last call.
    @inline(__always)
    mutating func takeEmptyFrames() -> UInt64 {
        defer { emptyFrames = 0 }
        return emptyFrames
    }

    /// The memory of the message under assembly and of decompression, in bytes.
    var bufferedBytes: Int { message.capacity + (inflation?.bufferedBytes ?? 0) }

    /// Starts to accept compressed messages.
    mutating func enable(_ inflation: Inflation) {
        self.inflation = inflation
        permittedReservedBits = FrameHeader.compressed
    }

    /// Skips messages from now on and releases their memory.
    mutating func discardMessages() {
        isDiscarding = true
        if isWhole { forgetMessage() }
        message = MessageParts()
        inflation = nil
    }

    /// Reads to the end of the next frame, or of a part. Returns `nil` if more bytes are needed.
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> Incoming? {
        while true {
            if isWithinFrame, givesParts, !isDiscarding {
                if let part = takePart(&input) { return .message(part) }
                return isWithinFrame ? nil : .part
            }
            if isWithinFrame {
                guard try absorb(&input) else { return input.isEmpty ? nil : .part }
                guard isFinalFrame else { return .part }
                try complete()
                // The message was skipped.
                guard isWhole else { return .part }
            }
            if isWhole {
                guard let payload = joined() else { return .part }
                return .message(payload)
            }
            guard let header = try readHeader(input) else { return nil }
            if header.opcode.isControl {
                guard input.count - header.size >= header.length else { return nil }
                return .control(header.opcode, takeWhole(header, from: &input))
            }
            try admit(header)
            if header.isFinal, header.opcode != .continuation, header.reservedBits == 0, !isDiscarding,
                input.count - header.size >= header.length
            {
                return .message(try takeMessage(header, from: &input))
            }
            begin(header)
            input.consume(header.size)
        }
    }

    @inline(__always)
    private func readHeader(_ input: borrowing ByteBuffer) throws(TransportError) -> FrameHeader? {
        try input.withUnsafeReadableBytes { bytes throws(TransportError) in
            try FrameHeader.read(
                bytes,
                mustBeMasked: mustBeMasked,
                permittedReservedBits: permittedReservedBits
            )
        }
    }

    /// Checks a data frame against the message under assembly (section 5.4) and the limit.
    @inline(__always)
    private func admit(_ header: FrameHeader) throws(TransportError) {
        if header.opcode == .continuation {
            guard kind != nil else { throw .webSocketViolation("a frame continues a message that has not begun") }
        } else {
            guard kind == nil else { throw .webSocketViolation("a message begins within another") }
        }
        guard fragments < maximumFragments else { throw .webSocketFragments(maximumFragments) }
        let isCompressed = header.opcode == .continuation ? isCompressed : header.reservedBits != 0
        let limit = isCompressed ? maximumCompressedSize : maximumMessageSize
        guard header.length <= limit - messageLength else { throw .webSocketTooLarge(maximumMessageSize) }
    }

    /// Reads a message that has one frame and is complete in the input, which is the usual case.
    @inline(__always)
    private mutating func takeMessage(
        _ header: FrameHeader,
        from input: inout ByteBuffer
    ) throws(TransportError) -> Payload {
        let bytes = takeWhole(header, from: &input)
        guard header.opcode == .text else { return Payload(bytes) }
        // MQTT over WebSocket, which reads parts, refuses all text, so it does not check the text.
        guard givesParts || bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            throw .webSocketInvalidText("a text message is not UTF-8")
        }
        return Payload(bytes, kind: .text)
    }

    /// Consumes a frame from the input and returns its payload, unmasked.
    @inline(__always)
    private func takeWhole(_ header: FrameHeader, from input: inout ByteBuffer) -> [UInt8] {
        // This initialiser copies at once. The one with an uninitialised capacity looks up metadata for each array,
        // which costs more than unmasking in place afterwards.
        var bytes = input.withUnsafeReadableBytes { all in
            [UInt8](UnsafeRawBufferPointer(rebasing: all[header.size..<header.size + header.length]))
        }
        if let key = header.maskKey, key != 0 {
            bytes.withUnsafeMutableBytes { Masking.apply(to: $0, key: key) }
        }
        input.consume(header.size + header.length)
        return bytes
    }

    /// Returns the part of the frame that has arrived. Returns `nil` if that is empty, unless the whole message is
    /// empty.
    private mutating func takePart(_ input: inout ByteBuffer) -> Payload? {
        let count = min(remaining, input.count)
        var bytes = input.bytes(at: 0, count: count) ?? []
        if maskKey != 0 {
            let key = maskKey
            bytes.withUnsafeMutableBytes { Masking.apply(to: $0, key: key) }
        }
        input.consume(count)
        maskKey = Masking.advance(maskKey, by: count)
        remaining -= count
        let kind = kind ?? .binary
        let isEmptyMessage = isFinalFrame && messageLength == 0
        if remaining == 0 {
            isWithinFrame = false
            if isFinalFrame { forgetMessage() }
        }
        return count > 0 || isEmptyMessage ? Payload(bytes, kind: kind) : nil
    }

    private mutating func begin(_ header: FrameHeader) {
        if header.opcode != .continuation {
            kind = header.opcode == .text ? .text : .binary
            isCompressed = header.reservedBits != 0
        }
        if header.length == 0, header.opcode == .continuation, !header.isFinal { emptyFrames &+= 1 }
        fragments += 1
        messageLength += header.length  // admitted: at most the limit
        isWithinFrame = true
        isFinalFrame = header.isFinal
        remaining = header.length
        maskKey = header.maskKey ?? 0
    }
}

// The assembly of messages from their frames.
extension FrameReader {
    /// The most bytes that are decompressed at a time. Pieces end at multiples of it. So the size to which a message
    /// may expand does not depend on how it arrives.
    private static let compressedPiece = 4096

    /// Moves the bytes of the frame that have arrived, up to the end of the current part. Returns `true` if the frame
    /// is complete.
    mutating func absorb(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        var available = min(remaining, input.count)
        if available > 0 {
            if !isDiscarding, isCompressed {
                message.beginPart(room: roomToInflate)
                let piece = Self.compressedPiece - (messageLength - remaining) % Self.compressedPiece
                available = try inflate(min(available, piece), of: &input)
            } else if !isDiscarding {
                message.beginPart(room: isFinalFrame ? min(remaining, MessageParts.size) : MessageParts.size)
                available = min(available, MessageParts.size - message.last.count)
                try append(available, of: input)
            }
            input.consume(available)
            maskKey = Masking.advance(maskKey, by: available)
            remaining -= available
        }
        if remaining == 0 { isWithinFrame = false }
        return remaining == 0
    }

    private mutating func append(_ count: Int, of input: borrowing ByteBuffer) throws(TransportError) {
        reserve(count)
        let start = message.last.count
        input.withUnsafeReadableBytes { all in
            message.last.append(contentsOf: UnsafeRawBufferPointer(rebasing: all[..<count]))
        }
        if maskKey != 0 {
            let key = maskKey
            message.last.withUnsafeMutableBytes { all in
                Masking.apply(to: UnsafeMutableRawBufferPointer(rebasing: all[start...]), key: key)
            }
        }
        try checkText(from: start)
    }

    private var roomToInflate: Int {
        min(MessageParts.size + MessageParts.slack, maximumMessageSize - message.count)
    }

    /// Decompresses the next `count` bytes, or fewer if they expand much. Returns how many were consumed.
    private mutating func inflate(_ count: Int, of input: inout ByteBuffer) throws(TransportError) -> Int {
        let start = message.last.count
        let key = maskKey
        var inflation = inflation
        var message = MessageParts()
        swap(&message, &self.message)
        let limit = maximumMessageSize
        // Up to the end of the piece to which these bytes belong.
        let arrived = ((messageLength - remaining) / Self.compressedPiece + 1).multipliedSaturated(Self.compressedPiece)
        let result = input.withUnsafeMutableReadableBytes { all in
            let piece = UnsafeMutableRawBufferPointer(rebasing: all[..<count])
            if key != 0 { Masking.apply(to: piece, key: key) }
            return Result { () throws(TransportError) -> Int in
                let taken =
                    try inflation?.append(UnsafeRawBufferPointer(piece), arrived, to: &message, limit: limit) ?? count
                // The rest is masked again for the next call.
                let rest = UnsafeMutableRawBufferPointer(rebasing: piece[taken...])
                if key != 0 { Masking.apply(to: rest, key: Masking.advance(key, by: taken)) }
                return taken
            }
        }
        self.inflation = inflation
        swap(&message, &self.message)
        // Text before the mistake is checked first, so that the same error is reported however the message arrives.
        try checkText(from: start)
        return try result.get()
    }

    private mutating func checkText(from start: Int) throws(TransportError) {
        guard kind == .text else { return }
        var text = text
        let isValid = message.last.withUnsafeBytes { text.accept(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        guard isValid else { throw .webSocketInvalidText("a text message is not UTF-8") }
        self.text = text
    }

    /// Makes room for `count` bytes in the current part, and for the rest of the declared frame. The capacity is
    /// doubled, but in a message's last frame it does not exceed the frame's length.
    private mutating func reserve(_ count: Int) {
        let (used, room) = (message.last.count, message.last.capacity)
        guard room - used < count else { return }
        let ceiling = isFinalFrame ? used + remaining : maximumMessageSize - message.settled
        let wanted = max(used + remaining, min(room * 2, ceiling))
        message.last.reserveCapacity(min(wanted, MessageParts.size))
    }

    /// Finishes the message after its last byte has arrived.
    mutating func complete() throws(TransportError) {
        guard !isDiscarding else { return forgetMessage() }
        if isCompressed, let inflation {
            message.beginPart(room: roomToInflate)
            let start = message.last.count
            try inflation.finish(&message, limit: maximumMessageSize)
            try checkText(from: start)
        }
        guard text.isComplete else { throw .webSocketInvalidText("a text message is not UTF-8") }
        isWhole = true
    }

    /// Joins one more part of the complete message. Returns the message after the last part.
    mutating func joined() -> Payload? {
        guard let bytes = message.join() else { return nil }
        defer { forgetMessage() }
        return Payload(bytes, kind: kind ?? .binary)
    }

    /// Resets the state, so that the next frame begins a message.
    mutating func forgetMessage() {
        isWhole = false
        kind = nil
        isCompressed = false
        text = UTF8Validator()
        messageLength = 0
        fragments = 0
    }
}
