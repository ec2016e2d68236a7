/// Follows the messages of one connection by their sequence numbers, which count from 0.
///
/// Memory is bounded: the newest `window` messages are remembered. A message that leaves the window unanswered is counted
/// as lost; an answer to a message that has left it is counted as unexpected, because nothing is known about it any more.
/// So the window must be larger than what is under way at once.
struct SequenceTracker: Sendable {
    private enum State: UInt8 {
        case answered, outstanding, lost
    }

    /// How an answer was counted.
    enum Answer: Sendable, Hashable {
        /// The first answer to this message; `late` if the message had been given up as lost.
        case first(late: Bool)
        case duplicate
        case unexpected
    }

    private var counts = DeliveryCounts()
    private var states: [State]
    private var next: UInt64 = 0
    private var highestAnswered: UInt64?

    /// A tracker that remembers `window` messages; rounded up to a power of two, at most 2^20.
    init(window: Int = 4096) {
        var size = 16
        while size < min(window, 1 << 20) { size *= 2 }
        states = Array(repeating: .answered, count: size)
    }

    /// Counts a message as sent and returns its sequence number.
    mutating func send() -> UInt64 {
        let number = next
        if states[slot(number)] == .outstanding { counts.lost += 1 }
        states[slot(number)] = .outstanding
        next += 1
        counts.sent += 1
        return number
    }

    /// Counts the answer to message `number`.
    mutating func answer(_ number: UInt64) -> Answer {
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

    /// Gives up waiting for message `number`. An answer that still comes takes it back.
    mutating func lose(_ number: UInt64) {
        guard remembers(number), states[slot(number)] == .outstanding else { return }
        states[slot(number)] = .lost
        counts.lost += 1
    }

    /// Whether message `number` is still waited for.
    func isOutstanding(_ number: UInt64) -> Bool {
        remembers(number) && states[slot(number)] == .outstanding
    }

    /// The accounts now. What is under way is counted message by message and not by subtraction, so that accounts which do
    /// not close show a mistake.
    var accounts: DeliveryCounts {
        var result = counts
        result.inFlight = states.count { $0 == .outstanding }
        return result
    }

    private func slot(_ number: UInt64) -> Int { Int(number & UInt64(states.count - 1)) }

    private func remembers(_ number: UInt64) -> Bool {
        number < next && next - number <= UInt64(states.count)
    }
}
