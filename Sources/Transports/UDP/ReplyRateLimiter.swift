import TransportAPI

/// Limits the replies to untrusted peers to a number per second and a burst, however many requests and addresses there
/// are.
struct ReplyRateLimiter {
    /// The average time between two replies, in nanoseconds: 1,000 replies a second.
    static let interval: Int64 = 1_000_000
    /// The number of replies that can be sent at once.
    static let burst: Int64 = 64

    /// The time at which the quota of the replies so far is used up.
    private var spentUntil = Int64.min

    /// Returns whether another reply may be sent, and counts it if so.
    mutating func take(_ now: Int64) -> Bool {
        let start = max(spentUntil, now - Self.burst * Self.interval)
        guard start + Self.interval <= now else { return false }
        spentUntil = start + Self.interval
        return true
    }
}
