/// What has happened, as a hash that is the same whenever the same has happened, and as text if somebody wants to read it.
struct EventLog {
    private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var lines: [String] = []
    let isVerbose: Bool

    init(isVerbose: Bool) {
        self.isVerbose = isVerbose
    }

    /// Notes an event by numbers: FNV-1a, a word at a time.
    mutating func note(_ time: Int64, _ code: Int, _ first: Int = 0, _ second: UInt64 = 0) {
        for word in [UInt64(bitPattern: time), UInt64(truncatingIfNeeded: code &<< 32 ^ first), second] {
            hash = (hash ^ word) &* 0x100_0000_01b3
            hash ^= hash >> 29
        }
    }

    /// Writes a line, if anybody reads it.
    mutating func write(_ time: Int64, _ text: @autoclosure () -> String) {
        guard isVerbose else { return }
        let (seconds, rest) = time.quotientAndRemainder(dividingBy: 1_000_000_000)
        let fraction = String(rest / 1000)
        let zeros = String(repeating: "0", count: 6 - fraction.utf8.count)
        lines.append("\(seconds).\(zeros)\(fraction)  \(text())")
    }
}

/// A rule that was broken.
struct Violation: Sendable, Equatable {
    /// Its number in ``Rule``.
    var rule: Rule
    /// What was seen.
    var text: String
}

/// What must hold in every world.
enum Rule: Int, Sendable, CaseIterable {
    /// Each message ends once, and is accepted at most once before that.
    case oneOutcome = 1
    /// What was acknowledged was delivered, once and in order; what was rejected was not.
    case delivery
    /// After the calm the link is open and everything has arrived.
    case recovery
    /// There is one link at a time, and nothing is asked of any other.
    case oneLink
    /// After the end nothing happens.
    case end
    /// All bounds are kept.
    case bounds
    /// Time always makes progress, and attempts have their pauses.
    case progress
    /// A dead link is noticed in time.
    case liveness
    /// Honest sides never see a mistake of protocol.
    case honesty
}
