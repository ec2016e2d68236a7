import TransportAPI

/// A message of which some fragments have arrived. It allocates only the blocks in which bytes have arrived, whatever
/// size was announced. The place of each fragment is found at once, in any order of arrival.
struct Fragments: Sendable {
    /// The smallest fragment except the last one of a message, in bytes. It limits their number.
    static let minimumSize = 256
    /// The size of a block, in bytes. A fragment allocates at most this much beyond its own size at each of its ends.
    static let blockSize = 4096

    private struct Block: Sendable {
        var bytes: [UInt8]
        /// The bytes that have arrived, as a few runs at most, because fragments are not small.
        var arrived = NumberRanges()

        /// Copies the bytes of `piece`, which begins at `start`, that have not arrived yet. Returns their number.
        mutating func insert(_ piece: ArraySlice<UInt8>, at start: Int) -> Int {
            let end = start + piece.count
            var (next, copied) = (start, 0)
            for run in arrived.ranges where next < end && Int(run.upperBound) >= next {
                copied += copy(piece, start, next..<min(end, max(next, Int(run.lowerBound))))
                next = Int(run.upperBound) + 1
            }
            copied += copy(piece, start, min(next, end)..<end)
            _ = arrived.insert(UInt64(start)...UInt64(end - 1))
            return copied
        }

        private mutating func copy(_ piece: ArraySlice<UInt8>, _ start: Int, _ gap: Range<Int>) -> Int {
            guard !gap.isEmpty else { return 0 }
            let offset = piece.startIndex - start
            bytes.replaceSubrange(gap, with: piece[gap.lowerBound + offset..<gap.upperBound + offset])
            return gap.count
        }
    }

    /// The size of the whole message, in bytes.
    let total: Int
    private var blocks: [Int: Block] = [:]
    private var received = 0

    /// Creates an empty message. `total` must be within the limit.
    init(total: Int) {
        self.total = total
    }

    var isComplete: Bool { received == total }

    /// The bytes of memory that the message uses.
    var reserved: Int { blocks.count * Self.blockSize }

    /// Adds a fragment. Bytes that have arrived before keep their first value. Fragments can overlap, because a sender
    /// may cut a message differently when it sends a part again.
    ///
    /// - Throws: `.protocolViolation` if it is not a part of this message, or is too small.
    mutating func insert(_ bytes: [UInt8], at offset: Int, of announced: Int) throws(TransportError) {
        guard announced == total else { throw .lie("the fragments of a message announce different sizes") }
        guard !bytes.isEmpty, offset <= total, bytes.count <= total - offset else {
            throw .lie("a fragment lies outside of its message")
        }
        let end = offset + bytes.count
        guard bytes.count >= Self.minimumSize || end == total else { throw .lie("a fragment is too small") }
        var start = offset
        while start < end {
            let index = start / Self.blockSize
            let first = index * Self.blockSize
            let stop = min(end, first + Self.blockSize)
            let size = min(Self.blockSize, total - first)
            received += blocks[index, default: Block(bytes: [UInt8](repeating: 0, count: size))]
                .insert(bytes[start - offset..<stop - offset], at: start - first)
            start = stop
        }
    }

    /// The message, once it is complete.
    func joined() -> [UInt8] {
        var whole: [UInt8] = []
        whole.reserveCapacity(received)
        for index in 0..<blocks.count {
            if let block = blocks[index] { whole.append(contentsOf: block.bytes) }
        }
        return whole
    }
}

extension TransportError {
    /// The error for a peer that has sent something that the reliable mode does not allow.
    static func lie(_ reason: String) -> TransportError {
        TransportError(.protocolViolation, .open, reason)
    }
}
