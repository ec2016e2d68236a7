/// Counts the control work (``CoreCounters/controlWork``) of the current second.
struct ControlRateMeter {
    /// The total count at the last update.
    private(set) var seen: UInt64 = 0
    private var before: UInt64 = 0
    private var start = Int64.min

    /// Updates the total count. Returns how much of it came in this second.
    mutating func count(_ total: UInt64, now: Int64) -> UInt64 {
        if start == .min || now - start >= 1_000_000_000 {
            start = now
            before = seen
        }
        seen = total
        return total - before
    }
}
