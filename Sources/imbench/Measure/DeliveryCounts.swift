/// What became of the messages of a run. They must add up: every message sent was answered, is lost, or is still under way.
struct DeliveryCounts: Sendable, Hashable {
    /// Messages handed to the transport.
    var sent = 0
    /// Messages whose answer came, each counted once.
    var acked = 0
    /// Messages whose answer did not come in time.
    var lost = 0
    /// Messages whose answer was still awaited at the end.
    var inFlight = 0
    /// Answers that came again.
    var duplicated = 0
    /// Answers that came after the answer to a later message.
    var reordered = 0
    /// Answers that fit no message, or one too old to be remembered.
    var unexpected = 0

    /// Whether sent = acked + lost + in flight.
    var closes: Bool {
        sent >= 0 && acked >= 0 && lost >= 0 && inFlight >= 0 && sent == acked + lost + inFlight
    }

    /// The accounts of two connections or two repeats together.
    static func + (left: DeliveryCounts, right: DeliveryCounts) -> DeliveryCounts {
        DeliveryCounts(
            sent: left.sent + right.sent,
            acked: left.acked + right.acked,
            lost: left.lost + right.lost,
            inFlight: left.inFlight + right.inFlight,
            duplicated: left.duplicated + right.duplicated,
            reordered: left.reordered + right.reordered,
            unexpected: left.unexpected + right.unexpected
        )
    }

    static func += (left: inout DeliveryCounts, right: DeliveryCounts) { left = left + right }
}
