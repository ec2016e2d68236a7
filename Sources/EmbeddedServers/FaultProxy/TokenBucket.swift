/// Lets so many bytes pass in a second, 20 ms of them at once (the token bucket of RFC 2697, with one rate). Does no I/O;
/// times are nanoseconds of one clock.
struct TokenBucket {
    private var rate: Double?
    private var tokens = 0.0
    private var updated: Int64 = 0

    /// What passes at once, in bytes.
    private var capacity: Double { max(1, (rate ?? 1) / 50) }

    /// Changes the rate; the bucket is full afterwards, unless the rate stays.
    mutating func set(bytesPerSecond: Int?, now: Int64) {
        let rate = bytesPerSecond.map { Double(max(1, $0)) }
        guard rate != self.rate else { return }
        self.rate = rate
        tokens = capacity
        updated = now
    }

    /// How many bytes may pass now; 0 as well while a debt is being paid off.
    mutating func allowance(now: Int64) -> Int {
        guard let rate else { return .max }
        if now > updated {
            tokens = min(capacity, tokens + Double(now - updated) * rate / 1e9)
            updated = now
        }
        return tokens < 1 ? 0 : Int(min(tokens, 1e15))
    }

    /// Takes what has passed. A datagram can't be cut, and may leave a debt.
    mutating func spend(_ bytes: Int) {
        guard rate != nil else { return }
        tokens -= Double(bytes)
    }

    /// When it is worth asking again for `wanted` bytes: half a bucket is waited for, not byte by byte.
    func nextTime(for wanted: Int, now: Int64) -> Int64 {
        guard let rate else { return now }
        let missing = min(Double(max(1, wanted)), max(1, capacity / 2)) - tokens
        guard missing > 0 else { return now }
        // A debt of the largest datagram at one byte per second is 65,507 seconds: far from the clock's end.
        return now + Int64((missing * 1e9 / rate).rounded(.up)) + 1
    }
}
