import TransportAPI

/// What is on its way: sends pieces in numbered packets, finds out what was lost, and sends that again.
///
/// Each transmission has a packet number of its own, as in QUIC (RFC 9002), so that an acknowledgement always tells which one
/// it answers and every round trip can be measured. A packet is lost once one has arrived that was sent three later, or
/// 9/8 of a round trip later (RFC 9002, section 6.1); if nothing is heard, the timeout of RFC 6298 sends the oldest again,
/// each time after twice as long.
struct ReliableSender: Sendable {
    /// RFC 9002, section 6.1.1.
    static let packetThreshold: UInt64 = 3
    /// How many packets may wait for acknowledgement, however small they are.
    static let maximumPackets = 4096
    /// The session is given up when nothing was acknowledged for so long.
    static let patience = Duration.seconds(60)

    /// The far side tells of further credit by itself; so long after it is asked, in case that was lost.
    static let creditProbeInterval = Duration.seconds(1)

    private struct Packet: Sendable {
        var number: UInt64
        var sentAt: Instant
        var size: Int
        var pieces: [ReliablePieces.Piece]
    }

    var pieces: ReliablePieces
    private(set) var window = CongestionWindow()
    private(set) var roundTrip: RoundTripTime
    private var latest = Duration.zero
    private var shortest: Duration?
    private var packets: [Packet] = []
    private(set) var nextNumber: UInt64 = 0
    private var largestAcknowledged: UInt64?
    /// Packets that may leave although the window is full: the answers to a timeout.
    private var probes = 0
    private var timeouts = 0
    private var lastProgress = Instant.zero
    private var timeoutAt: Instant?
    private var lossAt: Instant?

    init(credit: Int, buffer: Int) {
        pieces = ReliablePieces(credit: credit, limit: buffer)
        var bounds = RoundTripTime.Bounds()
        // Less than the 60 s of RFC 6298, section 2.5, after which the session is given up anyway.
        bounds.maximum = .seconds(10)
        roundTrip = RoundTripTime(bounds)
    }

    /// Whether all has been sent and acknowledged.
    var isIdle: Bool { pieces.isEmpty }
    var packetsInFlight: Int { packets.count }

    // MARK: Sending

    /// Whether a packet may be written now: there is something to send, and room for it.
    var maySend: Bool {
        guard packets.count < Self.maximumPackets else { return false }
        if probes > 0 { return pieces.next != nil || pieces.isBlockedByCredit }
        return pieces.next != nil && window.hasRoom
    }

    /// The number of the next packet, which is thereby used.
    mutating func takeNumber() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    /// A packet that asks for an acknowledgement has been written.
    mutating func sent(_ number: UInt64, _ pieces: [ReliablePieces.Piece], size: Int, _ now: Instant) {
        if packets.isEmpty, probes == 0 { lastProgress = now }
        if probes > 0 { probes -= 1 }
        packets.append(Packet(number: number, sentAt: now, size: size, pieces: pieces))
        window.sent(size)
        setTimeout(now)
    }

    /// Something waits for credit, and nothing is on its way whose acknowledgement could bring it.
    mutating func setCreditTimeout(_ now: Instant) {
        guard packets.isEmpty, timeoutAt == nil, pieces.isBlockedByCredit else { return }
        lastProgress = now
        timeoutAt = now.advanced(by: max(roundTrip.timeout, Self.creditProbeInterval))
    }

    private mutating func setTimeout(_ now: Instant) {
        timeoutAt = now.advanced(by: roundTrip.timeout + ReceivedPackets.longestDelay)
    }

    // MARK: Acknowledgements

    /// Takes an acknowledgement. Gives the id of a message of which it acknowledged the rest, if there is one.
    ///
    /// - Throws: `.protocolViolation` if it acknowledges what was never sent.
    mutating func acknowledged(_ news: Acknowledgement, _ now: Instant) throws(TransportError) -> UInt64? {
        guard news.largest < nextNumber else { throw .lie("a packet is acknowledged that was never sent") }
        pieces.raiseCredit(news.credit)
        let flight = window.bytesInFlight
        var finished: UInt64?
        var kept = 0
        var index = 0
        var hasNews = false
        while index < packets.count, packets[index].number <= news.largest {
            let packet = packets[index]
            if news.contains(packet.number) {
                hasNews = true
                if packet.number == news.largest { measure(packet.sentAt.duration(to: now), delay: news.delay) }
                window.acknowledged(packet.size, sentAt: packet.sentAt, flight: flight)
                for piece in packet.pieces { finished = pieces.arrived(piece) ?? finished }
            } else {
                if kept != index { packets[kept] = packet }
                kept += 1
            }
            index += 1
        }
        guard hasNews else { return nil }
        packets.removeSubrange(kept..<index)
        largestAcknowledged = max(largestAcknowledged ?? 0, news.largest)
        timeouts = 0
        probes = 0
        lastProgress = now
        findLosses(now)
        timeoutAt = nil
        if !packets.isEmpty { setTimeout(now) }
        return finished
    }

    /// The far side's delay is taken off, as far as it may be believed (RFC 9002, section 5.3).
    private mutating func measure(_ sample: Duration, delay: Duration) {
        let shortest = min(self.shortest ?? sample, sample)
        self.shortest = shortest
        let adjusted = sample - min(delay, ReceivedPackets.longestDelay)
        latest = adjusted >= shortest ? adjusted : sample
        roundTrip.measured(latest)
    }

    // MARK: Losses

    private mutating func findLosses(_ now: Instant) {
        lossAt = nil
        guard let largestAcknowledged else { return }
        let patience = max(max(roundTrip.smoothed ?? latest, latest) * 9 / 8, .milliseconds(1))
        var kept = 0
        var index = 0
        while index < packets.count, packets[index].number < largestAcknowledged {
            let packet = packets[index]
            let deadline = packet.sentAt.advanced(by: patience)
            if packet.number + Self.packetThreshold <= largestAcknowledged || deadline <= now {
                lose(packet, now)
            } else {
                lossAt = lossAt.map { min($0, deadline) } ?? deadline
                if kept != index { packets[kept] = packet }
                kept += 1
            }
            index += 1
        }
        packets.removeSubrange(kept..<index)
    }

    private mutating func lose(_ packet: Packet, _ now: Instant) {
        window.lost(packet.size, sentAt: packet.sentAt, now: now)
        for piece in packet.pieces { pieces.wasLost(piece) }
    }

    // MARK: Time

    /// When ``deadlineReached(_:)`` wants to be called.
    var deadline: Instant? {
        guard let lossAt else { return timeoutAt }
        return timeoutAt.map { min($0, lossAt) } ?? lossAt
    }

    /// - Throws: `.acknowledgementTimeout` if nothing has been acknowledged for too long.
    mutating func deadlineReached(_ now: Instant) throws(TransportError) {
        if let lossAt, lossAt <= now { findLosses(now) }
        guard let timeoutAt, timeoutAt <= now else { return }
        self.timeoutAt = nil
        guard !packets.isEmpty || !pieces.isEmpty else { return }
        guard lastProgress.duration(to: now) < Self.patience else {
            throw TransportError(.acknowledgementTimeout, .open, "nothing was acknowledged for \(Self.patience)")
        }
        roundTrip.timedOut()
        timeouts += 1
        if timeouts >= 3 { window.collapse() }
        let oldest = packets.prefix(2)
        packets.removeFirst(oldest.count)
        for packet in oldest { lose(packet, now) }
        probes = 2
        // Kept if nothing can be sent now.
        setTimeout(now)
    }
}
