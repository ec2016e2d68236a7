import TransportAPI

/// How many answers strangers get: so many a second, however often and from how many addresses they ask, and a few of them at
/// once.
struct ReplyRateLimiter {
    /// Between two answers in the long run, in nanoseconds: 1,000 of them a second.
    static let interval: Int64 = 1_000_000
    /// How many may leave at once.
    static let burst: Int64 = 64

    /// The time for which the answers so far suffice.
    private var spentUntil = Int64.min

    /// Whether another answer may leave; counts it if so.
    mutating func take(_ now: Int64) -> Bool {
        let start = max(spentUntil, now - Self.burst * Self.interval)
        guard start + Self.interval <= now else { return false }
        spentUntil = start + Self.interval
        return true
    }
}
