/// A rule that the simulated world breaks on purpose, to prove that the checks would notice.
enum Mutation: String, Sendable, CaseIterable {
    /// The server gives out what comes again.
    case dropDedupe
    /// Nobody wakes the client when its pause before the next attempt is over.
    case forgetTimer
    /// Acknowledgements never arrive.
    case loseAcknowledgement
    /// What an old link reports is taken for a report of the present one.
    case lateCallbacksReachMachineAsCurrent
    /// Messages handed over together leave in the wrong order.
    case reorderResend
    /// Each attempt is made twice.
    case doubleConnect
    /// The server acknowledges a message and forgets it.
    case loseDelivery
    /// The link always claims to have received something.
    case neverSilent
    /// A server that is to acknowledge messages after it has processed them does so when they are received.
    case acknowledgeOnReceipt
    /// Each hello meets a server that keeps the client's former link, too.
    case keepOldLink
}
