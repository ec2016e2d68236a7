import TransportAPI

/// How many bytes may be on their way: NewReno, as in RFC 9002, section 7.
///
/// It counts bytes of datagrams and knows nothing of messages. Slow start until the first loss; then one datagram more for
/// each window that arrives, and half of the window after each loss, but once for all losses of one round trip. If all of
/// those turn out to have arrived, only late, the window is as it was before (the idea of RFC 4015).
struct CongestionWindow: Sendable {
    /// The size of a full datagram, in bytes.
    static let datagram = 1200
    /// Section 7.2: the smaller of ten datagrams and 14,720 bytes.
    static let initial = 10 * datagram
    /// Section 7.2.
    static let minimum = 2 * datagram
    /// So much that what waits for acknowledgement has a bound.
    static let maximum = 2 << 20

    private(set) var size = initial
    private(set) var bytesInFlight = 0
    private var slowStartThreshold = Int.max
    /// Losses of what was sent until then belong to the one that was answered already.
    private var recoveryStart: Instant?
    /// How it was before the last loss was answered, and how many of the losses that belong to that are real.
    private var before: (size: Int, threshold: Int)?
    private var losses = 0

    /// Whether a full datagram may leave.
    var hasRoom: Bool { bytesInFlight + Self.datagram <= size }

    mutating func sent(_ bytes: Int) {
        bytesInFlight += bytes
    }

    /// - Parameter flight: the bytes in flight before the acknowledgement came. A window that nobody fills does not grow
    ///   (section 7.8).
    mutating func acknowledged(_ bytes: Int, sentAt: Instant, flight: Int) {
        bytesInFlight -= bytes
        guard isAfterRecovery(sentAt), flight * 2 >= size else { return }
        size = min(Self.maximum, size + (size < slowStartThreshold ? bytes : Self.datagram * bytes / size))
    }

    /// Gives the time that names the answer to which this loss belongs, for ``wasNotLost(_:)``.
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

    /// A packet is gone, but not for congestion.
    mutating func dropped(_ bytes: Int) {
        bytesInFlight -= bytes
    }

    /// A packet that counted as lost has arrived. What an earlier answer was for does not take back the last one.
    mutating func wasNotLost(_ answer: Instant) {
        guard answer == recoveryStart, let before else { return }
        losses -= 1
        guard losses == 0 else { return }
        size = max(size, before.size)
        slowStartThreshold = before.threshold
        self.before = nil
    }

    /// Nothing has arrived for several timeouts (section 7.6): begins anew from the smallest window. To be called once for
    /// each such silence, so that the threshold remembers what the path carried before it (RFC 5681, section 3.1).
    mutating func collapse(_ now: Instant) {
        slowStartThreshold = max(Self.minimum, size / 2)
        size = Self.minimum
        recoveryStart = now
        before = nil
    }

    /// Nothing was sent for longer than a timeout: what is known of the path is old (RFC 5681, section 4.1).
    mutating func restart() {
        size = min(size, Self.initial)
    }

    private func isAfterRecovery(_ sentAt: Instant) -> Bool {
        recoveryStart.map { $0 < sentAt } ?? true
    }
}
