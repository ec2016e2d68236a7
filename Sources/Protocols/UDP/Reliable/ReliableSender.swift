import TransportAPI

/// What is on its way: sends pieces in numbered packets, finds out what was lost, and sends that again.
///
/// Each transmission has a packet number of its own, as in QUIC (RFC 9002), so that an acknowledgement always tells which one
/// it answers and every round trip can be measured. If nothing is heard, the timeout of RFC 6298 asks, each time after twice as
/// long, with what has waited longest (RFC 9002, section 6.2); only an acknowledgement tells that a packet is lost.
struct ReliableSender: Sendable {
    /// The session is given up when nothing was acknowledged for so long.
    static let patience = Duration.seconds(60)
    /// The peer tells of further credit by itself; so long after it is asked, in case that was lost.
    static let creditProbeInterval = Duration.seconds(1)
    /// After so many timeouts in a row the congestion window begins anew.
    static let persistentTimeouts = 3

    var pieces: ReliablePieces
    private(set) var packets = SentPackets()
    private(set) var window = CongestionWindow()
    private(set) var size = PacketSize()
    private(set) var roundTrip: RoundTripTime
    private var latest = Duration.zero
    private var shortest: Duration?
    private(set) var nextNumber: UInt64 = 0
    /// How many acknowledgements have told something new.
    private(set) var progress: UInt64 = 0
    /// How many have told nothing beyond one for each packet that was sent: so many there may be if all come in the
    /// wrong order.
    private(set) var controlWork: UInt64 = 0
    private var asked: UInt64 = 0
    private var vain: UInt64 = 0
    /// Packets that may leave although the window is full: the answers to a timeout.
    private var probes = 0
    private var timeouts = 0
    private var lastProgress = Instant.zero
    private var lastSent = Instant.zero
    private var timeoutAt: Instant?

    init(credit: Int, buffer: Int) {
        pieces = ReliablePieces(credit: credit, limit: buffer)
        var bounds = RoundTripTime.Bounds()
        // Less than the 60 s of RFC 6298, section 2.5: the session is given up after those, and should have asked more
        // than once.
        bounds.maximum = .seconds(10)
        roundTrip = RoundTripTime(bounds)
    }

    /// Whether all has been sent and acknowledged.
    var isIdle: Bool { pieces.isEmpty }

    // MARK: Sending

    /// How long the packet may be that is to be written now; `nil` if none is. Of the two that answer a timeout the second is
    /// small, to tell a path that is dead from one that drops what is large.
    func packetSize(_ now: Instant) -> Int? {
        if probes > 0 { return probes == 1 ? PacketSize.smallest : size.limit }
        guard packets.waiting.count < SentPackets.maximum, pieces.hasNext, window.hasRoom else { return nil }
        return size.next(now)
    }

    /// The number of the next packet, which is thereby used.
    mutating func takeNumber() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    /// A packet that asks for an acknowledgement has been written.
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

    /// Something waits for credit, and nothing is on its way whose acknowledgement could bring it.
    mutating func setCreditTimeout(_ now: Instant) {
        guard packets.isEmpty, timeoutAt == nil, pieces.isBlockedByCredit else { return }
        timeoutAt = now.advanced(by: max(roundTrip.timeout, Self.creditProbeInterval))
    }

    /// Lets a packet leave that asks for an answer, whatever there is to send.
    mutating func probe() {
        probes = max(probes, 1)
    }

    /// Not later than the session is to be given up.
    private mutating func setTimeout(_ now: Instant) {
        let end = lastProgress.advanced(by: Self.patience)
        timeoutAt = max(now, min(now.advanced(by: roundTrip.timeout + ReceivedPackets.longestDelay), end))
    }

    /// The system has refused a datagram of this size as too long.
    mutating func refused(_ bytes: Int, _ now: Instant) {
        size.refused(bytes, now)
    }

    // MARK: Acknowledgements

    /// Takes an acknowledgement. Gives the id of a message of which it acknowledged the rest, if there is one.
    ///
    /// - Throws: `.protocolViolation` if it acknowledges what was never sent.
    mutating func acknowledged(_ news: Acknowledgement, _ now: Instant) throws(TransportError) -> UInt64? {
        guard news.largest < nextNumber else { throw .lie("a packet is acknowledged that was never sent") }
        pieces.raiseCredit(news.credit)
        let flight = window.bytesInFlight
        let (arrived, late) = packets.take(news)
        guard !arrived.isEmpty || !late.isEmpty else {
            vain += 1
            if vain > asked { controlWork += 1 }
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

    /// The peer's delay is taken off, as far as it may be believed (RFC 9002, section 5.3).
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

    /// When ``deadlineReached(_:)`` wants to be called.
    var deadline: Instant? {
        guard let lossAt = packets.lossAt else { return timeoutAt }
        return timeoutAt.map { min($0, lossAt) } ?? lossAt
    }

    /// - Throws: `.acknowledgementTimeout` if nothing has been acknowledged for too long.
    mutating func deadlineReached(_ now: Instant) throws(TransportError) {
        if let lossAt = packets.lossAt, lossAt <= now { findLosses(now) }
        guard let timeoutAt, timeoutAt <= now else { return }
        self.timeoutAt = nil
        guard !packets.isEmpty else {
            if pieces.isBlockedByCredit { probes = 1 }
            return
        }
        // All messages have arrived; whether the last copies and probes have is of no interest.
        guard !pieces.isEmpty else {
            for packet in packets.takeAll() {
                _ = size.lost(packet.number, packet.size, now)
                window.dropped(packet.size)
            }
            return
        }
        guard lastProgress.duration(to: now) < Self.patience else {
            throw TransportError(.acknowledgementTimeout, .open, "nothing was acknowledged for \(Self.patience)")
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
