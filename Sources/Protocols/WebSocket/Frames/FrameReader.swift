import Primitives
import TransportAPI

/// Reads frames and puts messages together (RFC 6455, sections 5 and 6.2).
///
/// A message whose only frame lies whole in the input becomes one payload array at once. Anything else moves from the
/// input into the message under assembly as it arrives, part by part, so that no byte is looked at twice, text is
/// refused at its first wrong byte, and a declared length reserves no more than a part ahead of what has come. Limits
/// are checked against the declared length, before any of it is taken; those of a compressed message against what it
/// becomes, while it does.
struct FrameReader: Sendable {
    /// What was read.
    enum Incoming: Sendable, Hashable {
        case message(Payload)
        case control(Opcode, [UInt8])
        /// A frame or a piece of a message that goes on; there may be more in the input, or to do with what has come.
        case part
    }

    /// Whether the peer is a client, whose frames are masked.
    private let mustBeMasked: Bool
    let maximumMessageSize: Int
    /// Whether what comes of a message is given out as it comes, each part as a message of its own: for a stream of
    /// bytes inside. Only where nothing is compressed.
    private let givesParts: Bool
    /// What can't be compressed gets a little longer: by five bytes for each block that is stored, or by up to an eighth and a
    /// sixty-fourth, zlib's own bound (deflateBound), where its window is too small to store what it has passed over.
    private let maximumCompressedSize: Int
    private let maximumFragments: Int
    /// What decompresses messages, once that was agreed on; only then is RSV1 let in.
    var inflation: Inflation?
    private var permittedReservedBits: UInt8 = 0

    // What ``FrameReader`` keeps from one piece to the next; FrameReader+Assembly.swift works with it.

    /// The message under assembly: its kind, while there is one, and what has arrived of it.
    var kind: Payload.Kind?
    var isCompressed = false
    var message = MessageParts()
    /// All of it has come; it is being joined.
    var isWhole = false
    var text = UTF8Validator()
    /// The length of the message's frames so far, declared or arrived.
    var messageLength = 0

    /// How many frames the message has so far.
    var fragments = 0
    /// Frames between the first and the last of a message that held nothing, since somebody asked.
    private var emptyFrames: UInt64 = 0

    /// The data frame of which a part is still to come.
    var isWithinFrame = false
    var isFinalFrame = false
    var remaining = 0
    var maskKey: UInt32 = 0

    /// Set once messages are of no interest any more: they are passed over, control frames are still read.
    private(set) var isDiscarding = false

    /// A reader for one side's frames; at most `maximumMessageSize` bytes of payload, in at most `maximumFragments` frames,
    /// make a message.
    init(mustBeMasked: Bool, maximumMessageSize: Int, maximumFragments: Int = .max, givesParts: Bool = false) {
        self.givesParts = givesParts
        self.mustBeMasked = mustBeMasked
        self.maximumMessageSize = maximumMessageSize
        maximumCompressedSize = maximumMessageSize.addingSaturated(
            maximumMessageSize >> 3 + maximumMessageSize >> 6 + 64
        )
        self.maximumFragments = maximumFragments
    }

    /// How many frames brought nothing since this was asked last.
    @inline(__always)
    mutating func takeEmptyFrames() -> UInt64 {
        defer { emptyFrames = 0 }
        return emptyFrames
    }

    /// How much memory this takes with what decompresses.
    var bufferedBytes: Int { message.capacity + (inflation?.bufferedBytes ?? 0) }

    /// From now on reads compressed messages.
    mutating func enable(_ inflation: Inflation) {
        self.inflation = inflation
        permittedReservedBits = FrameHeader.compressed
    }

    /// From now on passes over messages, and lets go of what they take.
    mutating func discardMessages() {
        isDiscarding = true
        if isWhole { forgetMessage() }
        message = MessageParts()
        inflation = nil
    }

    /// Reads on to the end of the next frame, or of a part; `nil` when more bytes are needed.
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
                // Passed over.
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

    /// Checks that a data frame fits the message under assembly (section 5.4) and the limit.
    @inline(__always)
    private func admit(_ header: FrameHeader) throws(TransportError) {
        if header.opcode == .continuation {
            guard kind != nil else { throw .webSocketViolation("a frame continues a message that was not begun") }
        } else {
            guard kind == nil else { throw .webSocketViolation("a message begins within another") }
        }
        guard fragments < maximumFragments else { throw .webSocketFragments(maximumFragments) }
        let isCompressed = header.opcode == .continuation ? isCompressed : header.reservedBits != 0
        let limit = isCompressed ? maximumCompressedSize : maximumMessageSize
        guard header.length <= limit - messageLength else { throw .webSocketTooLarge(maximumMessageSize) }
    }

    /// The usual case: the message is one frame, and all of it is here.
    @inline(__always)
    private mutating func takeMessage(
        _ header: FrameHeader,
        from input: inout ByteBuffer
    ) throws(TransportError) -> Payload {
        let bytes = takeWhole(header, from: &input)
        guard header.opcode == .text else { return Payload(bytes) }
        // MQTT over WebSocket, which takes parts, refuses all text and checks none.
        guard givesParts || bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
            throw .webSocketInvalidText("a text message is not UTF-8")
        }
        return Payload(bytes, kind: .text)
    }

    /// Takes a frame off the input and returns its payload, unmasked.
    @inline(__always)
    private func takeWhole(_ header: FrameHeader, from input: inout ByteBuffer) -> [UInt8] {
        // This initialiser copies at once; the one with an uninitialised capacity looks up metadata for each array, which costs
        // more than unmasking in place afterwards.
        var bytes = input.withUnsafeReadableBytes { all in
            [UInt8](UnsafeRawBufferPointer(rebasing: all[header.size..<header.size + header.length]))
        }
        if let key = header.maskKey, key != 0 {
            bytes.withUnsafeMutableBytes { Masking.apply(to: $0, key: key) }
        }
        input.consume(header.size + header.length)
        return bytes
    }

    /// What has come of the frame; `nil` for nothing, unless that is the whole message.
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

// Putting a message together from what has arrived of its frames.
extension FrameReader {
    /// The most bytes that are decompressed at a time. Pieces end at multiples of it, so that what a message may expand
    /// to does not depend on how it arrives.
    private static let compressedPiece = 4096

    /// Takes what has arrived of the frame, and goes into the part at hand; true once that is all of it.
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

    /// Decompresses the next `count` bytes, or fewer if much comes of them; how many it were.
    private mutating func inflate(_ count: Int, of input: inout ByteBuffer) throws(TransportError) -> Int {
        let start = message.last.count
        let key = maskKey
        var inflation = inflation
        var message = MessageParts()
        swap(&message, &self.message)
        let limit = maximumMessageSize
        // Up to the end of the piece that this is a part of.
        let arrived = ((messageLength - remaining) / Self.compressedPiece + 1).multipliedSaturated(Self.compressedPiece)
        let result = input.withUnsafeMutableReadableBytes { all in
            let piece = UnsafeMutableRawBufferPointer(rebasing: all[..<count])
            if key != 0 { Masking.apply(to: piece, key: key) }
            return Result { () throws(TransportError) -> Int in
                let taken =
                    try inflation?.append(UnsafeRawBufferPointer(piece), arrived, to: &message, limit: limit) ?? count
                // The rest is as it was, for the next time.
                let rest = UnsafeMutableRawBufferPointer(rebasing: piece[taken...])
                if key != 0 { Masking.apply(to: rest, key: Masking.advance(key, by: taken)) }
                return taken
            }
        }
        self.inflation = inflation
        swap(&message, &self.message)
        // What came before the mistake counts first, so that the same is reported however the message arrives.
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

    /// Makes room for `count` bytes in the part at hand, and ahead for what the frame has declared; grows by doubling, but in a
    /// message's last frame not beyond its length.
    private mutating func reserve(_ count: Int) {
        let (used, room) = (message.last.count, message.last.capacity)
        guard room - used < count else { return }
        let ceiling = isFinalFrame ? used + remaining : maximumMessageSize - message.settled
        let wanted = max(used + remaining, min(room * 2, ceiling))
        message.last.reserveCapacity(min(wanted, MessageParts.size))
    }

    /// The last byte of the message has come.
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

    /// Joins a part more of the whole message; what it is once that was the last.
    mutating func joined() -> Payload? {
        guard let bytes = message.join() else { return nil }
        defer { forgetMessage() }
        return Payload(bytes, kind: kind ?? .binary)
    }

    /// The next frame begins a message.
    mutating func forgetMessage() {
        isWhole = false
        kind = nil
        isCompressed = false
        text = UTF8Validator()
        messageLength = 0
        fragments = 0
    }
}
