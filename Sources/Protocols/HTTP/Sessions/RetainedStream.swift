import TransportAPI

/// The bytes of a stream of framed TCP that its reader may still request: all that were written and not acknowledged.
///
/// Each byte has an offset, counted from 0 at the beginning of the stream. A reader whose connection is lost requests the
/// stream again from the offset that it has reached. So nothing is lost and nothing comes twice.
package struct RetainedStream: ~Copyable, Sendable {
    /// The result of an acknowledgement.
    package enum Acknowledgement: Sendable, Hashable {
        /// The reader has this many more bytes.
        case taken(Int)
        /// The reader has acknowledged more before. A request that was delayed says so.
        case old
        /// The offset is beyond all that was written.
        case beyond
    }

    /// The largest number of bytes that are retained.
    package let window: Int
    /// The offset of the first retained byte. The reader has all before it.
    package private(set) var start: UInt64 = 0
    /// Whether nothing more is written.
    package private(set) var isEnded = false
    /// Cuts the stream into events from ``start`` on.
    package private(set) var cutter = StreamCutter()
    private var bytes = ByteBuffer()

    /// Creates an empty stream of which at most `window` bytes are retained.
    package init(window: Int) {
        self.window = window
    }

    /// The offset behind the last byte that was written.
    package var end: UInt64 { start + UInt64(bytes.count) }
    /// How many bytes are retained.
    package var count: Int { bytes.count }
    /// How many more bytes can be written before the reader acknowledges some.
    package var room: Int { isEnded ? 0 : max(0, window - bytes.count) }
    /// How much memory the retained bytes take.
    package var bufferedBytes: Int { bytes.capacity }

    /// Appends as many bytes as there is room for. Returns how many that were.
    package mutating func write(_ source: UnsafeRawBufferPointer) -> Int {
        let count = min(source.count, room)
        // A quarter more than the window, so that a full one does not move for each write.
        bytes.reserve(count, most: window + window / 4)
        bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: source[..<count]))
        return count
    }

    /// Ends the stream after the bytes that were written.
    package mutating func finish() {
        isEnded = true
    }

    /// Releases the bytes before an offset, because the reader has them.
    package mutating func acknowledge(before offset: UInt64) -> Acknowledgement {
        guard offset >= start else { return .old }
        guard let count = Int(exactly: offset - start), count <= bytes.count else { return .beyond }
        bytes.withUnsafeReadableBytes { cutter.advance(over: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        bytes.consume(count)
        start = offset
        // A stream without bytes keeps no memory, because most are idle.
        if bytes.isEmpty { bytes = ByteBuffer() }
        return .taken(count)
    }

    /// Calls `body` with the bytes from an offset on. Returns `nil` if the offset is before the retained bytes or behind
    /// the written ones.
    package func withBytes<R>(from offset: UInt64, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
        guard offset >= start, let skipped = Int(exactly: offset - start), skipped <= bytes.count else { return nil }
        return bytes.withUnsafeReadableBytes { body(UnsafeRawBufferPointer(rebasing: $0[skipped...])) }
    }

    /// Releases all bytes, because nobody will read them.
    package mutating func discard() {
        start = end
        isEnded = true
        bytes = ByteBuffer()
    }
}
