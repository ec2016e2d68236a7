import TransportAPI

/// A stream that arrives in pieces, each with the offset of its first byte, and that is read in order.
///
/// A sender repeats a piece if it has seen no answer, and may join it with later bytes. What has arrived before is
/// skipped. A piece that would leave a gap is refused, because the bytes before it are lost.
package struct ResumedInput: ~Copyable, Sendable {
    /// The result of taking a piece.
    package enum Outcome: Sendable, Hashable {
        /// This many bytes are new. There are none in a repetition.
        case taken(Int)
        /// Bytes are missing before the piece. The offset is the one that was expected.
        case gap(expected: UInt64)
        /// The piece contradicts the end of the stream that was announced, at this offset.
        case beyondEnd(UInt64)
    }

    /// The offset of the next byte that is expected. All before it have arrived.
    package private(set) var received: UInt64 = 0
    /// Whether nothing follows the bytes that have arrived.
    package private(set) var isEnded = false
    private let window: Int
    private var bytes = ByteBuffer()

    /// Creates an empty stream.
    ///
    /// - Parameter window: How many bytes usually wait at most. The memory grows to a quarter more, so that a full
    ///   window does not move for each piece.
    package init(window: Int) {
        self.window = window
    }

    /// How many bytes have arrived and were not read.
    package var count: Int { bytes.count }
    /// How much memory they take.
    package var bufferedBytes: Int { bytes.capacity }
    /// Whether the whole stream has arrived and was read.
    package var isFinished: Bool { isEnded && bytes.isEmpty }

    /// Takes what is new in a piece.
    ///
    /// - Parameters:
    ///   - piece: The bytes. The caller has checked their number.
    ///   - offset: The offset of the first of them.
    ///   - isLast: Whether the stream ends after them.
    package mutating func take(_ piece: [UInt8], at offset: UInt64, isLast: Bool = false) -> Outcome {
        guard offset <= received else { return .gap(expected: received) }
        // Offsets that have arrived are far from the largest number, so this does not overflow.
        let end = offset + UInt64(piece.count)
        guard !(isEnded && end > received), !(isLast && end < received) else { return .beyondEnd(received) }
        isEnded = isEnded || isLast
        guard end > received else { return .taken(0) }
        let known = Int(received - offset)
        bytes.reserve(piece.count - known, most: window + window / 4)
        piece.withUnsafeBytes { bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[known...])) }
        received = end
        return .taken(piece.count - known)
    }

    /// Moves bytes into `target`, as many as fit. Returns how many that were.
    package mutating func read(into target: UnsafeMutableRawBufferPointer) -> Int {
        let count = bytes.withUnsafeReadableBytes { source in
            let count = min(source.count, target.count)
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[..<count]))
            return count
        }
        bytes.consume(count)
        if bytes.isEmpty { bytes = ByteBuffer() }
        return count
    }

    /// Drops the bytes that were not read, because nobody will read them.
    package mutating func discard() {
        bytes = ByteBuffer()
    }
}
