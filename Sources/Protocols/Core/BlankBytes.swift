/// Counts bytes that say nothing: the line ends between frames of STOMP, and the white space between stanzas of XMPP. One
/// of them keeps a connection alive. A flood of them is work that brings no message (``CoreCounters/controlWork``).
struct BlankBytes: Sendable {
    /// How many of them in a row count as one piece of work. What programs write for readability has fewer.
    static let unit = 64

    /// How many have come since the last frame.
    private var run = 0
    private var work: UInt64 = 0

    /// Counts bytes that continue the present row.
    mutating func add(_ count: Int) {
        let before = run / Self.unit
        run = run.addingSaturated(count)
        work &+= UInt64(run / Self.unit - before)
    }

    /// A frame has begun.
    mutating func endRow() { run = 0 }

    /// Takes the work since the last call.
    mutating func takeWork() -> UInt64 {
        defer { work = 0 }
        return work
    }
}
