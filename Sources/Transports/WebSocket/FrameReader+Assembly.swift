import TransportAPI

// Putting a message together from what has arrived of its frames.
extension FrameReader {
    /// The most bytes that are decompressed at a time. Pieces end at multiples of it, so that what a message may expand to does not
    /// depend on how it arrives.
    private static let compressedPiece = 4096

    /// Takes what has arrived of the frame; true once that is all of it.
    mutating func absorb(_ input: inout ByteBuffer) throws(TransportError) -> Bool {
        var available = min(remaining, input.count)
        if available > 0 {
            if !isDiscarding, isCompressed {
                let piece = Self.compressedPiece - (messageLength - remaining) % Self.compressedPiece
                available = try inflate(min(available, piece), of: &input)
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
        // Up to the end of the piece that this is a part of.
        let arrived = ((messageLength - remaining) / Self.compressedPiece + 1).multipliedSaturated(Self.compressedPiece)
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
    mutating func finish() throws(TransportError) -> Payload? {
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
