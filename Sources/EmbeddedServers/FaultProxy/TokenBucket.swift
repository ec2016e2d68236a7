/// Limits the bytes per second, with bursts of 20 ms (the token bucket of RFC 2697, with one rate). This type does no
/// I/O. Times are nanoseconds of one clock.
struct TokenBucket {
    private var rate: Double?
    private var tokens = 0.0
    private var updated: Int64 = 0

    /// The size of a burst in bytes.
    private var capacity: Double { max(1, (rate ?? 1) / 50) }

    /// Changes the rate. The bucket is full afterwards, unless the rate is the same.
    mutating func set(bytesPerSecond: Int?, now: Int64) {
        let rate = bytesPerSecond.map { Double(max(1, $0)) }
        guard rate != self.rate else { return }
        self.rate = rate
        tokens = capacity
        updated = now
    }

    /// Returns how many bytes may pass now. This is 0 while there is a debt.
    mutating func allowance(now: Int64) -> Int {
        guard let rate else { return .max }
        if now > updated {
            tokens = min(capacity, tokens + Double(now - updated) * rate / 1e9)
            updated = now
        }
        return tokens < 1 ? 0 : Int(min(tokens, 1e15))
    }

    /// Records bytes that have passed. A datagram cannot be divided, so it may leave a debt.
    mutating func spend(_ bytes: Int) {
        guard rate != nil else { return }
        tokens -= Double(bytes)
    }

    /// Returns when to call ``allowance(now:)`` again for `wanted` bytes. It waits for half a bucket instead of single
    /// bytes.
    func nextTime(for wanted: Int, now: Int64) -> Int64 {
        guard let rate else { return now }
        let missing = min(Double(max(1, wanted)), max(1, capacity / 2)) - tokens
        guard missing > 0 else { return now }
        // A debt of the largest datagram at one byte per second is 65,507 seconds, which is far from the end of the
        // clock's range.
        return now + Int64((missing * 1e9 / rate).rounded(.up)) + 1
    }
}
