import TransportAPI

/// The packets in flight. It sends pieces in numbered packets, finds the lost ones, and sends them again.
///
/// Each transmission has its own packet number, as in QUIC (RFC 9002). So an acknowledgement always identifies its
/// packet, and every round trip can be measured. If nothing arrives, the timeout of RFC 6298 sends the pieces again
/// that have waited longest (RFC 9002, section 6.2). The timeout doubles each time. Only an acknowledgement shows that
/// a packet is lost.
struct ReliableSender: Sendable {
    /// The session ends if nothing was acknowledged for this time.
    static let longestSilence = Duration.seconds(60)
    /// A sender without credit sends a probe after this time. The peer announces credit by itself, but that can be
    /// lost.
    static let creditProbeInterval = Duration.seconds(1)
    /// After this number of timeouts in a row the congestion window starts again.
    static let persistentTimeouts = 3

    var pieces: ReliablePieces
    private(set) var packets = SentPackets()
    private(set) var window = CongestionWindow()
    private(set) var size: PacketSize
    private(set) var roundTrip: RoundTripTime
    private var latest = Duration.zero
    private var shortest: Duration?
    private(set) var nextNumber: UInt64 = 0
    /// How many acknowledgements have contained something new.
    private(set) var progress: UInt64 = 0
    /// How many acknowledgements have contained nothing new, beyond one for each packet that was sent. That many can
    /// arrive if all come in the wrong order.
    private(set) var controlWork: UInt64 = 0
    private var asked: UInt64 = 0
    private var withoutNews: UInt64 = 0
    /// How many packets may be sent although the window is full, after a timeout.
    private var probes = 0
    private var timeouts = 0
    private var lastProgress = Instant.zero
    private var lastSent = Instant.zero
    private var timeoutAt: Instant?

    init(credit: Int, buffer: Int, overhead: Int = 0) {
        size = PacketSize(overhead: overhead)
        pieces = ReliablePieces(credit: credit, limit: buffer)
        var bounds = RoundTripTime.Bounds()
        // Less than the 60 s of RFC 6298, section 2.5. The session ends after 60 s, and there should be several
        // timeouts before.
        bounds.maximum = .seconds(10)
        roundTrip = RoundTripTime(bounds)
    }

    /// Whether all messages were sent and acknowledged.
    var isIdle: Bool { pieces.isEmpty }

    // MARK: Sending

    /// The largest size of the packet to write now; `nil` if none may be sent. Of the two packets after a timeout the
    /// second is small. It distinguishes a dead path from one that drops large packets.
    func packetSize(_ now: Instant) -> Int? {
        if probes > 0 { return probes == 1 ? size.smallest : size.limit }
        guard packets.waiting.count < SentPackets.maximum, pieces.hasNext, window.hasRoom else { return nil }
        return size.next(now)
    }

    /// Takes the number of the next packet.
    mutating func takeNumber() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    /// Records that a packet was written that requires an acknowledgement.
    mutating func sent(_ packet: SentPacket) {
        if packets.isEmpty {
            lastProgress = packet.sentAt
            if lastSent.advanced(by: roundTrip.timeout) <= packet.sentAt { window.restart() }
        }
        if probes > 0 { probes -= 1 }
        asked += 1
        lastSent = packet.sentAt
        packets.append(packet)
        window.sent(packet.size)
        size.sent(packet.number, packet.size)
        setTimeout(packet.sentAt)
    }

    /// Sets a timeout if a message waits for credit, and nothing is in flight whose acknowledgement could bring it.
    mutating func setCreditTimeout(_ now: Instant) {
        guard packets.isEmpty, timeoutAt == nil, pieces.isBlockedByCredit else { return }
        timeoutAt = now.advanced(by: max(roundTrip.timeout, Self.creditProbeInterval))
    }

    /// Allows one packet that requires an acknowledgement, whatever there is to send.
    mutating func probe() {
        probes = max(probes, 1)
    }

    /// Sets the timeout, at the latest to the end of the session.
    private mutating func setTimeout(_ now: Instant) {
        let end = lastProgress.advanced(by: Self.longestSilence)
        timeoutAt = max(now, min(now.advanced(by: roundTrip.timeout + ReceivedPackets.longestDelay), end))
    }

    /// The system has refused a datagram of this size as too long.
    mutating func refused(_ bytes: Int, _ now: Instant) {
        size.refused(bytes, now)
    }

    // MARK: Acknowledgements

    /// Processes an acknowledgement. Returns the id of a message that is now acknowledged completely, if there is one.
    ///
    /// - Throws: `.protocolViolation` if it acknowledges a packet that was never sent.
    mutating func acknowledged(_ news: Acknowledgement, _ now: Instant) throws(TransportError) -> UInt64? {
        guard news.largest < nextNumber else { throw .lie("the peer acknowledges a packet that was never sent") }
        pieces.raiseCredit(news.credit)
        let flight = window.bytesInFlight
        let (arrived, late) = packets.take(news)
        guard !arrived.isEmpty || !late.isEmpty else {
            withoutNews += 1
            if withoutNews > asked { controlWork += 1 }
            return nil
        }
        var finished: UInt64?
        for packet in arrived {
            window.acknowledged(packet.size, sentAt: packet.sentAt, flight: flight)
            finished = self.arrived(packet, news, now) ?? finished
        }
        for packet in late {
            if let answer = packet.answer { window.wasNotLost(answer) }
            finished = self.arrived(packet, news, now) ?? finished
        }
        timeouts = 0
        probes = 0
        progress += 1
        lastProgress = now
        findLosses(now)
        timeoutAt = nil
        if !packets.isEmpty { setTimeout(now) }
        return finished
    }

    private mutating func arrived(_ packet: SentPacket, _ news: Acknowledgement, _ now: Instant) -> UInt64? {
        if packet.number == news.largest { measure(packet.sentAt.duration(to: now), delay: news.delay) }
        size.arrived(packet.number, packet.size, now)
        var finished: UInt64?
        for piece in packet.pieces { finished = pieces.arrived(piece) ?? finished }
        return finished
    }

    /// Measures a round trip. The peer's delay is subtracted, up to the longest delay that is allowed (RFC 9002,
    /// section 5.3).
    private mutating func measure(_ sample: Duration, delay: Duration) {
        let shortest = min(self.shortest ?? sample, sample)
        self.shortest = shortest
        let adjusted = sample - min(delay, ReceivedPackets.longestDelay)
        latest = adjusted >= shortest ? adjusted : sample
        roundTrip.measured(latest)
    }

    private mutating func findLosses(_ now: Instant) {
        for var packet in packets.takeLost(now, roundTrip: max(roundTrip.smoothed ?? latest, latest)) {
            if size.lost(packet.number, packet.size, now) {
                window.dropped(packet.size)
            } else {
                packet.answer = window.lost(packet.size, sentAt: packet.sentAt, now: now)
            }
            for piece in packet.pieces { pieces.sendAgain(piece) }
            packets.remember(packet)
        }
    }

    // MARK: Time

    /// When to call ``deadlineReached(_:)``; `nil` if never.
    var deadline: Instant? {
        guard let lossAt = packets.lossAt else { return timeoutAt }
        return timeoutAt.map { min($0, lossAt) } ?? lossAt
    }

    /// Finds lost packets and sends the oldest pieces again after a timeout.
    ///
    /// - Throws: `.acknowledgementTimeout` if nothing was acknowledged for too long.
    mutating func deadlineReached(_ now: Instant) throws(TransportError) {
        if let lossAt = packets.lossAt, lossAt <= now { findLosses(now) }
        guard let timeoutAt, timeoutAt <= now else { return }
        self.timeoutAt = nil
        guard !packets.isEmpty else {
            if pieces.isBlockedByCredit { probes = 1 }
            return
        }
        // All messages have arrived. The last copies and probes do not matter.
        guard !pieces.isEmpty else {
            for packet in packets.takeAll() {
                _ = size.lost(packet.number, packet.size, now)
                window.dropped(packet.size)
            }
            return
        }
        guard lastProgress.duration(to: now) < Self.longestSilence else {
            throw TransportError(.acknowledgementTimeout, .open, "nothing was acknowledged for \(Self.longestSilence)")
        }
        roundTrip.timedOut()
        timeouts += 1
        if timeouts == Self.persistentTimeouts { window.collapse(now) }
        if pieces.lost.isEmpty {
            for packet in packets.waiting.prefix(2) {
                for piece in packet.pieces { pieces.sendAgain(piece) }
            }
        }
        probes = 2
        setTimeout(now)
    }
}
