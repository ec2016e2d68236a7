/// How far a stream was given out as events. It is a value of one response: the next one begins where its reader says.
package struct EventCursor: Sendable {
    private var cutter: StreamCutter
    /// The offset behind the last event.
    package private(set) var offset: UInt64
    /// Whether the event that ends the stream was given out.
    package private(set) var hasEnded = false

    /// Creates a cursor at the first retained byte of a stream.
    package init(_ stream: borrowing RetainedStream) {
        (cutter, offset) = (stream.cutter, stream.start)
    }

    /// Appends events to `output` until all of the stream is in events, or `output` has at least `limit` bytes.
    package mutating func write(_ stream: borrowing RetainedStream, until limit: Int, to output: inout ByteBuffer) {
        while output.count < limit {
            let cut = stream.withBytes(from: offset) { cutter.next($0) } ?? nil
            guard let cut else { break }
            offset += UInt64(cut.count)
            cut.event.write(offset: offset, to: &output)
        }
        guard output.count < limit, stream.isEnded, offset == stream.end, !hasEnded else { return }
        hasEnded = true
        StreamEvent.end.write(offset: offset, to: &output)
    }
}
