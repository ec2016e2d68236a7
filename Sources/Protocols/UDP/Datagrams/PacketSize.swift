import TransportAPI

/// The largest packet that the path is believed to carry, found from above (RFC 8899).
///
/// It begins with a size that nearly every path carries. If packets of that size are lost while small ones arrive, it
/// falls to the smallest size at once. Then it tries the next size with one packet at a time, whose loss is no sign of
/// congestion. Ordinary losses that look the same cost only a few smaller packets.
struct PacketSize: Sendable {
    /// The sizes of a datagram's payload, in bytes. The smallest fits into the 576 bytes that every IPv4 host must accept
    /// (RFC 791, section 3.1). The largest is the size of RFC 9000, section 14.1.
    static let steps = [548, 776, 1000, ReliableSession.packetSize]
    /// How many packets in a row must be lost, and how often a larger size is tried (RFC 8899, section 5.1.2:
    /// MAX_PROBES).
    static let threshold = 3
    /// How long a larger size is not tried again after it has failed (RFC 8899, section 5.1.1: PMTU_RAISE_TIMER).
    static let pause = Duration.seconds(600)

    /// How many bytes of each datagram encryption takes.
    private let overhead: Int
    private var step = steps.count - 1
    /// How many packets above the smallest size were lost since the last one arrived.
    private var vanished = 0
    /// Whether a packet of the smallest size has arrived since then.
    private var hasSmallArrived = false
    /// The packet in flight that tries the next size.
    private var attempt: UInt64?
    private var failures = 0
    private var raiseAt = Instant.zero

    /// Creates the size at the beginning of a session.
    ///
    /// - Parameter overhead: How many bytes of each datagram encryption takes.
    init(overhead: Int = 0) {
        self.overhead = overhead
    }

    /// The smallest size, in bytes.
    var smallest: Int { Self.steps[0] - overhead }
    /// The size in use, in bytes.
    var limit: Int { Self.steps[step] - overhead }

    /// The largest size of a packet that is written now.
    func next(_ now: Instant) -> Int {
        guard attempt == nil, raiseAt <= now, step + 1 < Self.steps.count else { return limit }
        return Self.steps[step + 1] - overhead
    }

    mutating func sent(_ number: UInt64, _ size: Int) {
        if size > limit { attempt = number }
    }

    /// Records that a packet has arrived, perhaps one that counted as lost.
    mutating func arrived(_ number: UInt64, _ size: Int, _ now: Instant) {
        if number == attempt {
            attempt = nil
            failures = 0
        }
        while size > limit, step + 1 < Self.steps.count { step += 1 }
        hasSmallArrived = size <= smallest
        if !hasSmallArrived { vanished = 0 }
    }

    /// Records that a packet is lost. Returns whether the packet tried a larger size than the one in use. Then its size
    /// alone may be the reason.
    mutating func lost(_ number: UInt64, _ size: Int, _ now: Instant) -> Bool {
        guard number != attempt else {
            attempt = nil
            failures += 1
            if failures == Self.threshold { rest(now) }
            return true
        }
        guard size > smallest, step > 0 else { return false }
        vanished += 1
        guard vanished >= Self.threshold, hasSmallArrived else { return false }
        step = 0
        vanished = 0
        failures = 0
        raiseAt = now
        return false
    }

    /// Takes a smaller size, because the system has refused a packet of this size as too long (EMSGSIZE).
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
