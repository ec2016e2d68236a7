import Codecs
import TransportAPI

// Putting a message together from what has arrived of its frames.
extension FrameReader {
    /// The most bytes that are decompressed at a time. Pieces end at multiples of it, so that what a message may expand to does not
    /// depend on how it arrives.
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
