import TransportAPI

/// The largest packet that the path is believed to carry, found from above in the way of RFC 8899.
///
/// It begins with a size that nearly every path carries. Where packets of that size vanish while small ones arrive, it falls to
/// the smallest size at once, and feels its way up again: one packet of the next size at a time, whose loss says nothing about
/// congestion. Plain losses that look alike cost a few smaller packets and no more.
struct PacketSize: Sendable {
    /// Bytes of a datagram's payload: from what is left of the 576 bytes that every IPv4 path carries, to the size of RFC 9000,
    /// section 14.1.
    static let steps = [548, 776, 1000, ReliableSession.packetSize]
    static var smallest: Int { steps[0] }
    /// How many packets in a row must vanish, and how often a larger size is tried (RFC 8899, section 5.1.2: MAX_PROBES).
    static let threshold = 3
    /// How long a larger size is left alone when it did not get through (RFC 8899, section 5.1.1: PMTU_RAISE_TIMER).
    static let pause = Duration.seconds(600)

    private var step = steps.count - 1
    /// How many packets above the smallest size were lost since the last one arrived.
    private var vanished = 0
    /// Whether one of the smallest size has arrived since then.
    private var hasSmallArrived = false
    /// The packet on its way that tries the next size.
    private var attempt: UInt64?
    private var failures = 0
    private var raiseAt = Instant.zero

    /// The size in use, in bytes.
    var limit: Int { Self.steps[step] }

    /// The size that a packet may have which is written now.
    func next(_ now: Instant) -> Int {
        guard attempt == nil, raiseAt <= now, step + 1 < Self.steps.count else { return limit }
        return Self.steps[step + 1]
    }

    mutating func sent(_ number: UInt64, _ size: Int) {
        if size > limit { attempt = number }
    }

    /// A packet has arrived, perhaps one that counted as lost.
    mutating func arrived(_ number: UInt64, _ size: Int, _ now: Instant) {
        if number == attempt {
            attempt = nil
            failures = 0
        }
        while size > limit, step + 1 < Self.steps.count { step += 1 }
        hasSmallArrived = size <= Self.smallest
        if !hasSmallArrived { vanished = 0 }
    }

    /// A packet is lost. Whether that may be for its size alone: it was larger than what is in use.
    mutating func lost(_ number: UInt64, _ size: Int, _ now: Instant) -> Bool {
        guard number != attempt else {
            attempt = nil
            failures += 1
            if failures == Self.threshold { rest(now) }
            return true
        }
        guard size > Self.smallest, step > 0 else { return false }
        vanished += 1
        guard vanished >= Self.threshold, hasSmallArrived else { return false }
        step = 0
        vanished = 0
        failures = 0
        raiseAt = now
        return false
    }

    /// The system has refused a packet of this size as too long (EMSGSIZE): takes the next smaller one.
    mutating func refused(_ size: Int, _ now: Instant) {
        while step > 0, limit >= size { step -= 1 }
        attempt = nil
        rest(now)
    }

    private mutating func rest(_ now: Instant) {
        failures = 0
        raiseAt = now.advanced(by: Self.pause)
    }
}
