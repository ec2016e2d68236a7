import TransportAPI

/// How many bytes may be in flight: NewReno, as in RFC 9002, section 7.
///
/// It counts bytes of datagrams and does not depend on messages. Slow start lasts until the first loss. After that the
/// window grows by one datagram for each window that arrives, and is halved by a loss. All losses of one round trip
/// halve it once. If all of these packets turn out to have arrived late, the window is restored (the idea of RFC 4015).
struct CongestionWindow: Sendable {
    /// The size of a full datagram, in bytes.
    static let datagram = 1200
    /// The smaller of ten datagrams and 14,720 bytes (section 7.2).
    static let initial = 10 * datagram
    /// The smallest window (section 7.2).
    static let minimum = 2 * datagram
    /// The largest window, which limits the bytes that wait for acknowledgement.
    static let maximum = 2 << 20

    private(set) var size = initial
    private(set) var bytesInFlight = 0
    private var slowStartThreshold = Int.max
    /// The time of the last reduction. Losses of packets that were sent until then belong to it.
    private var recoveryStart: Instant?
    /// The window before that reduction, and how many of the losses that belong to it are real.
    private var before: (size: Int, threshold: Int)?
    private var losses = 0

    /// Whether a full datagram may be sent.
    var hasRoom: Bool { bytesInFlight + Self.datagram <= size }

    mutating func sent(_ bytes: Int) {
        bytesInFlight += bytes
    }

    /// Records that a packet was acknowledged. `flight` is the number of bytes in flight before the acknowledgement
    /// arrived. A window that is not used fully does not grow (section 7.8).
    mutating func acknowledged(_ bytes: Int, sentAt: Instant, flight: Int) {
        bytesInFlight -= bytes
        guard isAfterRecovery(sentAt), flight * 2 >= size else { return }
        size = min(Self.maximum, size + (size < slowStartThreshold ? bytes : Self.datagram * bytes / size))
    }

    /// Records that a packet is lost. Returns the time of the reduction to which the loss belongs, for
    /// ``wasNotLost(_:)``.
    mutating func lost(_ bytes: Int, sentAt: Instant, now: Instant) -> Instant {
        bytesInFlight -= bytes
        if let recoveryStart, sentAt <= recoveryStart {
            losses += 1
            return recoveryStart
        }
        before = (size, slowStartThreshold)
        losses = 1
        recoveryStart = now
        size = max(Self.minimum, size / 2)
        slowStartThreshold = size
        return now
    }

    /// Records that a packet is lost for another reason than congestion.
    mutating func dropped(_ bytes: Int) {
        bytesInFlight -= bytes
    }

    /// Records that a packet that counted as lost has arrived. If all losses of the last reduction have arrived, the
    /// window is restored. Losses of earlier reductions have no effect.
    mutating func wasNotLost(_ answer: Instant) {
        guard answer == recoveryStart, let before else { return }
        losses -= 1
        guard losses == 0 else { return }
        size = max(size, before.size)
        slowStartThreshold = before.threshold
        self.before = nil
    }

    /// Starts again from the smallest window, because nothing has arrived for several timeouts (section 7.6). Call it
    /// once for each such silence, so that the threshold keeps what the path carried before (RFC 5681, section 3.1).
    mutating func collapse(_ now: Instant) {
        slowStartThreshold = max(Self.minimum, size / 2)
        size = Self.minimum
        recoveryStart = now
        before = nil
    }

    /// Returns to at most the initial window, because nothing was sent for longer than a timeout. The knowledge of the
    /// path is old then (RFC 5681, section 4.1).
    mutating func restart() {
        size = min(size, Self.initial)
    }

    private func isAfterRecovery(_ sentAt: Instant) -> Bool {
        recoveryStart.map { $0 < sentAt } ?? true
    }
}
