/// A defect that this package once had. A simulation brings one back to prove that its checks find it.
enum StackDefect: String, Sendable, CaseIterable {
    /// A tick of the loop ends only when no handler is left, and a full connection requests another flush.
    case endlessTick = "endless-tick"
    /// `close` returns before the output has left.
    case earlyClose = "early-close"
    /// A message over the limit of an MQTT client is acknowledged and dropped, and its connection stays open.
    case oversizedDropped = "oversized-dropped"
    /// Messages of a session that arrive too early are limited by their count only.
    case unboundedEarly = "unbounded-early"
    /// Sessions without a connection are not ended for new clients.
    case squatting
    /// The next connection does not know the pending sends of a kept MQTT session.
    case keptForgotten = "kept-forgotten"
    /// A message is acknowledged when it is received, not when the app has processed it.
    case earlyReceipt = "early-receipt"
    /// A room sends all messages to a member that acknowledges none.
    case unboundedRoom = "unbounded-room"
    /// A server has no limit on the buffers of all clients together.
    case unboundedSum = "unbounded-sum"
}
