import TransportAPI

/// Reads frames and puts messages together (RFC 6455, sections 5 and 6.2).
///
/// A message whose only frame lies whole in the input becomes one payload array at once. Anything else moves from the input
/// into the message under assembly as it arrives, so that no byte is looked at twice, text is refused at its first wrong
/// byte, and a declared length reserves no more than ``reserveAhead`` beyond what has come. Limits are checked against the
/// declared length, before any of it is taken; those of a compressed message against what it becomes, while it does.
struct FrameReader: Sendable {
    /// What was read.
    enum Incoming: Sendable, Hashable {
        case message(Payload)
        case control(Opcode, [UInt8])
        /// A frame or a piece of a message that goes on; there may be more in the input.
        case part
    }

    /// How many bytes are reserved on the strength of a declared length alone.
    static let reserveAhead = 64 << 10
    /// The most bytes that are decompressed at a time.
    private static let compressedPiece = 4096

    /// Whether the far side is a client, whose frames are masked.
    private let mustBeMasked: Bool
    private let maximumMessageSize: Int
    private let maximumFragments: Int
    /// What decompresses messages, once that was agreed on; only then is RSV1 let in.
    private var inflation: Inflation?
    private var permittedReservedBits: UInt8 = 0

    /// The message under assembly: its kind, while there is one, and what has arrived of it.
    private var kind: Payload.Kind?
    private var isCompressed = false
    private var bytes: [UInt8] = []
    private var text = UTF8Validator()
    /// The length of the message's frames so far, declared or arrived.
    private var messageLength = 0

    /// How many frames the message has so far.
    private var fragments = 0
    /// Frames between the first and the last of a message that held nothing, since somebody asked.
    private var emptyFrames: UInt64 = 0

    /// The data frame of which a part is still to come.
    private var isWithinFrame = false
    private var isFinalFrame = false
    private var remaining = 0
    private var maskKey: UInt32 = 0

    /// Set once messages are of no interest any more: they are passed over, control frames are still read.
    private(set) var isDiscarding = false

    /// A reader for one side's frames; at most `maximumMessageSize` bytes of payload, in at most `maximumFragments` frames,
    /// make a message.
    init(mustBeMasked: Bool, maximumMessageSize: Int, maximumFragments: Int = .max) {
        self.mustBeMasked = mustBeMasked
        self.maximumMessageSize = maximumMessageSize
        self.maximumFragments = maximumFragments
    }

    /// How many frames brought nothing since this was asked last.
    @inline(__always)
    mutating func takeEmptyFrames() -> UInt64 {
        defer { emptyFrames = 0 }
        return emptyFrames
    }

    /// How much memory the message under assembly takes.
    var reservedBytes: Int { bytes.capacity }

    /// From now on reads compressed messages.
    mutating func enable(_ inflation: Inflation) {
        self.inflation = inflation
        permittedReservedBits = FrameHeader.compressed
    }

    /// From now on passes over messages.
    mutating func discardMessages() {
        isDiscarding = true
        bytes = []
    }

    /// Reads on to the end of the next frame; `nil` when more bytes are needed.
    mutating func next(_ input: inout ByteBuffer) throws(TransportError) -> Incoming? {
        while true {
            if isWithinFrame {
                guard try absorb(&input) else { return input.isEmpty ? nil : .part }
                guard isFinalFrame, let message = try finish() else { return .part }
                return .message(message)
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
        // What can't be compressed gets a little longer: by five bytes for each block.
        let isCompressed = header.opcode == .continuation ? isCompressed : header.reservedBits != 0
        let limit = isCompressed ? maximumMessageSize + maximumMessageSize >> 6 + 64 : maximumMessageSize
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
        guard bytes.withUnsafeBytes({ UTF8Validator.isValid($0) }) else {
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

    /// Takes what has arrived of the frame; true once that is all of it.
    private mutating func absorb(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        var available = min(remaining, input.count)
        if available > 0 {
            if !isDiscarding, isCompressed {
                available = try inflate(min(available, Self.compressedPiece), of: &input)
            } else if !isDiscarding {
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
        let start = bytes.count
        input.withUnsafeReadableBytes { all in
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: all[..<count]))
        }
        let isText = kind == .text
        let key = maskKey
        var text = text
        let isValid = bytes.withUnsafeMutableBytes { all in
            let added = UnsafeMutableRawBufferPointer(rebasing: all[start...])
            if key != 0 { Masking.apply(to: added, key: key) }
            return !isText || text.accept(UnsafeRawBufferPointer(added))
        }
        guard isValid else { throw .webSocketInvalidText("a text message is not UTF-8") }
        self.text = text
    }

    /// Decompresses the next `count` bytes, or fewer if much comes of them; how many it were.
    private mutating func inflate(_ count: Int, of input: inout ByteBuffer) throws(TransportError) -> Int {
        let start = bytes.count
        let key = maskKey
        var inflation = inflation
        var bytes: [UInt8] = []
        swap(&bytes, &self.bytes)
        let limit = maximumMessageSize
        let arrived = messageLength - remaining + count
        let result = input.withUnsafeMutableReadableBytes { all in
            let piece = UnsafeMutableRawBufferPointer(rebasing: all[..<count])
            if key != 0 { Masking.apply(to: piece, key: key) }
            return Result { () throws(TransportError) -> Int in
                let taken =
                    try inflation?.append(UnsafeRawBufferPointer(piece), arrived, to: &bytes, limit: limit) ?? count
                // The rest is as it was, for the next time.
                let rest = UnsafeMutableRawBufferPointer(rebasing: piece[taken...])
                if key != 0 { Masking.apply(to: rest, key: Masking.advance(key, by: taken)) }
                return taken
            }
        }
        self.inflation = inflation
        swap(&bytes, &self.bytes)
        // What came before the mistake counts first, so that the same is reported however the message arrives.
        try checkText(from: start)
        return try result.get()
    }

    private mutating func checkText(from start: Int) throws(TransportError) {
        guard kind == .text else { return }
        var text = text
        let isValid = bytes.withUnsafeBytes { text.accept(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        guard isValid else { throw .webSocketInvalidText("a text message is not UTF-8") }
        self.text = text
    }

    /// Makes room for `count` bytes, and ahead for what the frame has declared; grows by doubling, but in a message's last
    /// frame not beyond its length.
    private mutating func reserve(_ count: Int) {
        guard bytes.capacity - bytes.count < count else { return }
        let ceiling = isFinalFrame ? bytes.count + remaining : maximumMessageSize
        let ahead = bytes.count + max(count, min(remaining, Self.reserveAhead))
        bytes.reserveCapacity(max(ahead, min(bytes.capacity * 2, ceiling)))
    }

    /// Ends the message under assembly; `nil` if it was passed over.
    private mutating func finish() throws(TransportError) -> Payload? {
        if isCompressed, !isDiscarding, let inflation {
            let start = bytes.count
            try inflation.finish(&bytes, limit: maximumMessageSize)
            try checkText(from: start)
        }
        guard isDiscarding || text.isComplete else {
            throw .webSocketInvalidText("a text message is not UTF-8")
        }
        var finished: [UInt8] = []
        swap(&finished, &bytes)
        let message = Payload(finished, kind: kind ?? .binary)
        kind = nil
        isCompressed = false
        text = UTF8Validator()
        messageLength = 0
        fragments = 0
        return isDiscarding ? nil : message
    }
}
