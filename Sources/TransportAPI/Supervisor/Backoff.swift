/// The delay before each further attempt to connect.
///
/// Many clients lose the same server at the same moment. Without jitter they also return at the same moment. Marc
/// Brooker, "Exponential backoff and jitter" (2015), explains the kinds of jitter and the reasons for them.
public enum BackoffPolicy: Sendable, Hashable {
    /// The part of a delay that is random.
    public enum Jitter: String, Sendable, Hashable, CaseIterable {
        /// No part: the whole delay.
        case none
        /// Half of it: between half of the delay and the whole delay.
        case equal
        /// All of it: between zero and the whole delay.
        case full
    }

    /// No delay.
    case immediate
    /// The same delay each time.
    case fixed(Duration)
    /// `initial` at first, then `multiplier` times the last delay after each failure, up to `maximum`.
    case exponential(initial: Duration, maximum: Duration, multiplier: Double, jitter: Jitter)
    /// The delays of the list, one after the other. After the last one there is either no further attempt, or the last
    /// delay repeats.
    case schedule([Duration], givesUp: Bool)

    /// 0.5 s, doubling up to 20 s, with full jitter.
    public static let standard = exponential(
        initial: .milliseconds(500),
        maximum: .seconds(20),
        multiplier: 2,
        jitter: .full
    )
}

/// The position in a sequence of failed attempts.
package struct Backoff: Sendable, Hashable {
    /// The policy that determines the delays.
    package let policy: BackoffPolicy
    /// The number of delays that were returned since the last ``reset()``.
    package private(set) var failures = 0

    /// Creates the start of a sequence.
    package init(_ policy: BackoffPolicy) {
        self.policy = policy
    }

    /// Returns the delay before the next attempt, or `nil` if no attempt may follow. The supervisor waits longer if the
    /// server has asked for that.
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

    /// Starts the sequence again, after a connection has proved stable.
    package mutating func reset() {
        failures = 0
    }

    private static func grown(_ initial: Duration, _ maximum: Duration, _ multiplier: Double, _ times: Int) -> Int64 {
        let limit = max(0, maximum.wholeNanoseconds)
        var grown = Double(max(0, initial.wholeNanoseconds))
        // After a hundred steps any growth has reached its limit. A delay that does not grow stays the same.
        for _ in 0..<min(times, 100) where grown < Double(limit) { grown *= max(1, multiplier) }
        return grown < Double(limit) ? Int64(grown) : limit
    }
}
