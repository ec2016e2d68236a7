/// How long to wait before each further attempt to connect.
///
/// Many clients lose the same server at the same moment; without jitter they come back at the same moment too. See Marc
/// Brooker, "Exponential backoff and jitter" (2015), for the names and the reasons.
public enum BackoffPolicy: Sendable, Hashable {
    /// How much of a delay is left to chance.
    public enum Jitter: String, Sendable, Hashable, CaseIterable {
        /// Nothing: the whole delay.
        case none
        /// Half of it: between half of the delay and the whole.
        case equal
        /// All of it: between nothing and the whole delay.
        case full
    }

    /// No delay at all.
    case immediate
    /// The same delay each time.
    case fixed(Duration)
    /// `initial`, then `multiplier` times as much after each failure, up to `maximum`.
    case exponential(initial: Duration, maximum: Duration, multiplier: Double, jitter: Jitter)
    /// One delay after the other; after the last one either no further attempt, or the last delay again and again.
    case schedule([Duration], givesUp: Bool)

    /// Half a second, doubling up to twenty seconds, with full jitter.
    public static let standard = exponential(
        initial: .milliseconds(500),
        maximum: .seconds(20),
        multiplier: 2,
        jitter: .full
    )
}

/// Where a sequence of failed attempts stands.
package struct Backoff: Sendable, Hashable {
    /// What gives the delays.
    package let policy: BackoffPolicy
    /// How many delays have been given since the last ``reset()``.
    package private(set) var failures = 0

    /// The start of a sequence.
    package init(_ policy: BackoffPolicy) {
        self.policy = policy
    }

    /// The delay before the next attempt; `nil` if there is to be none.
    package mutating func next(using random: inout some RandomNumberGenerator) -> Duration? {
        defer { failures += 1 }
        switch policy {
        case .immediate: return .zero
        case .fixed(let delay): return delay
        case .schedule(let delays, let givesUp):
            guard failures >= delays.count else { return delays[failures] }
            return givesUp ? nil : delays.last ?? .zero
        case .exponential(let initial, let maximum, let multiplier, let jitter):
            let whole = Self.grown(initial, maximum, multiplier, failures)
            switch jitter {
            case .none: return .nanoseconds(whole)
            case .equal: return .nanoseconds(whole / 2 + Int64.random(in: 0...(whole - whole / 2), using: &random))
            case .full: return .nanoseconds(Int64.random(in: 0...whole, using: &random))
            }
        }
    }

    /// Begins anew, after a connection has proved stable.
    package mutating func reset() {
        failures = 0
    }

    private static func grown(_ initial: Duration, _ maximum: Duration, _ multiplier: Double, _ times: Int) -> Int64 {
        let limit = max(0, maximum.wholeNanoseconds)
        var grown = Double(max(0, initial.wholeNanoseconds))
        // Beyond a hundred steps any growth has met its limit, and what does not grow stays what it is.
        for _ in 0..<min(times, 100) where grown < Double(limit) { grown *= max(1, multiplier) }
        return grown < Double(limit) ? Int64(grown) : limit
    }
}
