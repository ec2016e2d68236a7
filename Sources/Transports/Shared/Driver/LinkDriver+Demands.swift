import SocketIO
import TransportAPI

// What a far side asks for that brings nobody anything: pings, subscriptions, repetitions, empty frames.
extension LinkDriver {
    /// After how many of them, in what has come at once, a server's client goes into the line of the busy. So those who come anew
    /// for each flood do not have a share of their own each time, and it is in the line that they are hung up on.
    static let demandsAtOnce: UInt64 = 4

    /// Counts work that the far side has asked for, beside what its core counts (``CoreCounters/demands``).
    package func charge(_ demands: UInt64) {
        context.counters.demands &+= demands
        if !isPumping { meterDemands() }
    }

    /// Ends a link whose far side keeps us busy and brings nothing.
    func meterDemands() {
        guard demands.count(context.counters.demands, now: loop.now) > limits.controlRate, phase == .open else {
            return
        }
        let error = TransportError.tooMany(
            "more than \(limits.controlRate) pings, subscriptions, repetitions and empty frames came within a second",
            .open
        )
        abandon(CloseReason(.protocolError, code: Goodbye.policyViolation, text: error.reason, error: error))
    }
}

/// How many demands (``CoreCounters/demands``) came within the present second.
struct DemandMeter {
    /// How many have come in all.
    private(set) var seen: UInt64 = 0
    private var before: UInt64 = 0
    private var start = Int64.min

    /// Takes the count as it stands now; how many of them came in this second.
    mutating func count(_ total: UInt64, now: Int64) -> UInt64 {
        if start == .min || now - start >= 1_000_000_000 {
            start = now
            before = seen
        }
        seen = total
        return total - before
    }
}
