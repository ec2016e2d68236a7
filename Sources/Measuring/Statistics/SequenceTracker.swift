/// Follows the messages of one connection by their sequence numbers, which count from 0.
///
/// Memory is limited: only the newest `window` messages are remembered. A message that leaves the window unanswered counts as
/// lost. An answer to a message that has left the window counts as unexpected. So the window must be larger than the number
/// of messages in flight.
package struct SequenceTracker: Sendable {
    private enum State: UInt8 {
        case answered, outstanding, lost
    }

    /// How an answer was counted.
    package enum Answer: Sendable, Hashable {
        /// The first answer to this message; `late` if the message already counted as lost.
        case first(late: Bool)
        case duplicate
        case unexpected
    }

    private var counts = DeliveryCounts()
    private var states: [State]
    private var next: UInt64 = 0
    private var highestAnswered: UInt64?

    /// A tracker that remembers `window` messages; rounded up to a power of two, at most 2^20.
    package init(window: Int = 4096) {
        var size = 16
        while size < min(window, 1 << 20) { size *= 2 }
        states = Array(repeating: .answered, count: size)
    }

    /// Counts a message as sent and returns its sequence number.
    package mutating func send() -> UInt64 {
        let number = next
        if states[slot(number)] == .outstanding { counts.lost += 1 }
        states[slot(number)] = .outstanding
        next += 1
        counts.sent += 1
        return number
    }

    /// Counts the answer to message `number`.
    package mutating func answer(_ number: UInt64) -> Answer {
        guard remembers(number) else {
            counts.unexpected += 1
            return .unexpected
        }
        let before = states[slot(number)]
        guard before != .answered else {
            counts.duplicated += 1
            return .duplicate
        }
        states[slot(number)] = .answered
        counts.acked += 1
        if before == .lost { counts.lost -= 1 }
        if let highest = highestAnswered, number < highest {
            counts.reordered += 1
        } else {
            highestAnswered = number
        }
        return .first(late: before == .lost)
    }

    /// Counts message `number` as lost. A later answer reverses that.
    package mutating func lose(_ number: UInt64) {
        guard remembers(number), states[slot(number)] == .outstanding else { return }
        states[slot(number)] = .lost
        counts.lost += 1
    }

    /// Whether message `number` has no answer and is not lost.
    func isOutstanding(_ number: UInt64) -> Bool {
        remembers(number) && states[slot(number)] == .outstanding
    }

    /// The present accounts. Messages in flight are counted one by one and not by subtraction, so a mistake shows as accounts
    /// that do not close.
    package var accounts: DeliveryCounts {
        var result = counts
        result.inFlight = states.count { $0 == .outstanding }
        return result
    }

    private func slot(_ number: UInt64) -> Int { Int(number & UInt64(states.count - 1)) }

    private func remembers(_ number: UInt64) -> Bool {
        number < next && next - number <= UInt64(states.count)
    }
}

/// The outcomes of a run's messages. Every message sent is answered, lost, or in flight.
package struct DeliveryCounts: Sendable, Hashable {
    /// Messages handed to the transport.
    package var sent = 0
    /// Answered messages, each counted once.
    package var acked = 0
    /// Messages without an answer in time.
    package var lost = 0
    /// Messages without an answer at the end.
    package var inFlight = 0
    /// Duplicate answers.
    package var duplicated = 0
    /// Answers that arrived after the answer to a later message.
    package var reordered = 0
    /// Answers to no message, or to one that is too old to be remembered.
    package var unexpected = 0

    package init(
        sent: Int = 0,
        acked: Int = 0,
        lost: Int = 0,
        inFlight: Int = 0,
        duplicated: Int = 0,
        reordered: Int = 0,
        unexpected: Int = 0
    ) {
        (self.sent, self.acked, self.lost, self.inFlight) = (sent, acked, lost, inFlight)
        (self.duplicated, self.reordered, self.unexpected) = (duplicated, reordered, unexpected)
    }

    /// Whether sent = acked + lost + in flight.
    package var closes: Bool {
        sent >= 0 && acked >= 0 && lost >= 0 && inFlight >= 0 && sent == acked + lost + inFlight
    }

    /// The accounts of two connections or two repeats together.
    package static func + (left: DeliveryCounts, right: DeliveryCounts) -> DeliveryCounts {
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

    package static func += (left: inout DeliveryCounts, right: DeliveryCounts) { left = left + right }
}
