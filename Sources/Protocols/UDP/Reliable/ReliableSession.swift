import TransportAPI

/// The reliable mode of one session: the packets in flight, the packets that have arrived, and the acknowledgements. It
/// reads and writes packets. ``UDPCore`` does everything else in the session.
struct ReliableSession: Sendable {
    /// The longest packet, in bytes of a datagram's payload (RFC 9000, section 14.1 has the reason). Encryption takes a
    /// part of it.
    static let packetSize = 1200
    /// The size of the first word, the connection id and the packet number, in bytes.
    static let headerSize = 20
    /// How many packets are sent in a row: the same number as in the initial window. Otherwise the packets of a window
    /// that opens at once would arrive at routers together (RFC 9002, section 7.7).
    static let burst = CongestionWindow.initial / CongestionWindow.datagram
    /// The longest packet of this session, in bytes.
    private let longestPacket: Int
    let terms: ReliableTerms
    /// The largest message that both sides allow, in bytes.
    let maximumMessageSize: Int
    var sender: ReliableSender
    var receiver: ReliableReceiver
    var received = ReceivedPackets()
    /// When the next message can be given out, because its receiver has made room.
    private var giveAt: Instant?
    /// When to continue after a full burst. Other connections are served first.
    var goOnAt: Instant?
    /// Whether a sender waits for room. It is notified when there is room again.
    var owesRoom = false
    /// The id of the message whose acknowledgement has made room.
    private var roomMadeBy: UInt64?
    private let closeTimeout: Duration
    /// The end of the wait for acknowledgements before the session closes. Each acknowledgement with something new
    /// postpones it.
    private(set) var closeAt: Instant?
    /// When an unanswered ping is repeated. The keepalive of a reliable connection expects an answer to each ping.
    private(set) var pingAt: Instant?
    private var pingPause = Duration.zero
    /// The token of the last ping that arrived. A repeated ping has the same token.
    var pingHeard: UInt64?
    /// The reason in the peer's bye, which is reported after all messages.
    var farewell: CloseReason?

    init(_ own: ReliableTerms, _ peer: ReliableTerms, _ configuration: UDPConfiguration) {
        terms = own
        maximumMessageSize = min(own.maximumMessageSize, peer.maximumMessageSize)
        closeTimeout = configuration.closeTimeout
        sender = ReliableSender(
            credit: peer.window,
            buffer: configuration.reliableBuffer,
            overhead: configuration.overhead
        )
        longestPacket = Self.packetSize - configuration.overhead
        receiver = ReliableReceiver(
            own,
            inbox: (configuration.inboxMessages, configuration.inboxBytes),
            isConfirming: configuration.confirmsReceipt
        )
    }

    var isClosing: Bool { closeAt != nil }

    // MARK: Reading

    /// Reads a packet, whose size and connection id were checked.
    ///
    /// - Throws: `.protocolViolation`.
    mutating func read(_ packet: borrowing ByteBuffer, _ context: inout CoreContext) throws(TransportError) {
        guard let number = packet.integer(at: Datagram.identifiedSize, as: UInt64.self) else { return }
        let arrival = received.insert(number, context.now)
        guard arrival != .duplicate else {
            context.counters.duplicates &+= 1
            context.counters.repeatedBytes &+= UInt64(packet.count)
            return
        }
        var offset = Self.headerSize
        var elicits = false
        var hasNews = false
        var hasAcknowledged = false
        let progress = sender.progress
        while let kind = packet.byte(at: offset) {
            offset += 1
            switch ReliableFrame.Kind(rawValue: kind) {
            case .whole: hasNews = try readWhole(packet, &offset, &context) || hasNews
            case .fragment: hasNews = try readFragment(packet, &offset, &context) || hasNews
            case .acknowledgement:
                // Each costs some work, and forty of them would fit into a packet.
                guard !hasAcknowledged else { throw .lie("a packet contains two acknowledgements") }
                hasAcknowledged = true
                guard let news = Acknowledgement(packet, at: &offset) else {
                    throw .lie("an acknowledgement is malformed")
                }
                try acknowledge(news, &context)
                continue
            case .probe: break
            case nil: throw .lie("a packet contains an unknown frame")
            }
            elicits = true
        }
        if elicits { received.elicits(arrival, context.now) }
        if isClosing, sender.progress != progress { closeAt = context.now.advanced(by: closeTimeout) }
        if !hasNews, sender.progress == progress { context.counters.repeatedBytes &+= UInt64(packet.count) }
    }

    private mutating func readWhole(
        _ packet: borrowing ByteBuffer,
        _ offset: inout Int,
        _ context: inout CoreContext
    ) throws(TransportError) -> Bool {
        guard let number = packet.integer(at: offset, as: UInt64.self),
            let size = packet.integer(at: offset + 8, as: UInt16.self),
            let bytes = packet.bytes(at: offset + 10, count: Int(size))
        else { throw .lie("a message is cut off") }
        offset += 10 + Int(size)
        let isNew = try receiver.take(whole: bytes, number)
        if !isNew { context.counters.duplicates &+= 1 }
        return isNew
    }

    private mutating func readFragment(
        _ packet: borrowing ByteBuffer,
        _ offset: inout Int,
        _ context: inout CoreContext
    ) throws(TransportError) -> Bool {
        guard let number = packet.integer(at: offset, as: UInt64.self),
            let total = packet.integer(at: offset + 8, as: UInt32.self),
            let start = packet.integer(at: offset + 12, as: UInt32.self),
            let size = packet.integer(at: offset + 16, as: UInt16.self),
            let bytes = packet.bytes(at: offset + 18, count: Int(size))
        else { throw .lie("a fragment is cut off") }
        offset += 18 + Int(size)
        let isNew = try receiver.take(fragment: bytes, number, offset: Int(start), total: Int(total))
        if !isNew { context.counters.duplicates &+= 1 }
        return isNew
    }

    private mutating func acknowledge(
        _ news: Acknowledgement,
        _ context: inout CoreContext
    ) throws(TransportError) {
        let before = sender.controlWork
        let finished = try sender.acknowledged(news, context.now)
        context.counters.controlWork &+= sender.controlWork &- before
        guard let id = finished, owesRoom else { return }
        owesRoom = false
        roomMadeBy = id
    }

    /// The next event to report.
    mutating func nextEvent() -> CoreEvent? {
        giveAt = nil
        if let id = roomMadeBy.take() { return .acknowledged(id) }
        return receiver.give().map { .message(Payload($0)) }
    }

    /// Records that the receiver has processed a message, and gives out the next one if it waits for that.
    mutating func confirm(_ now: Instant) {
        receiver.confirm()
        if receiver.canGive || (farewell != nil && receiver.isEmpty) { giveAt = now }
        if receiver.isCreditWorthTelling { received.hurry(now) }
    }

    // MARK: Time

    /// Records that a ping was written, for the first time or again.
    mutating func pinged(again: Bool, _ now: Instant) {
        pingPause = again ? min(pingPause * 2, UDPTimers.longestRetransmission) : sender.roundTrip.timeout
        pingAt = now.advanced(by: pingPause)
    }

    /// Records that all pings were answered.
    mutating func ponged() {
        pingAt = nil
    }

    /// Starts the wait for acknowledgements before the bye.
    mutating func beginClose(_ now: Instant) {
        closeAt = closeAt ?? now.advanced(by: closeTimeout)
    }

    /// Whether the wait before the bye is over.
    func isReadyToEnd(_ now: Instant) -> Bool {
        guard let closeAt else { return false }
        return sender.isIdle || closeAt <= now
    }

    /// The bytes of messages that the user has not taken and that the peer has not acknowledged.
    var bufferedBytes: Int { receiver.held + sender.pieces.buffered }

    /// The next deadline. After the peer's bye only messages that have arrived are still given out.
    var deadline: Instant? {
        guard farewell == nil else { return giveAt }
        let mine = earlier(earlier(sender.deadline, received.dueAt), goOnAt)
        return earlier(earlier(mine, earlier(giveAt, closeAt)), pingAt)
    }

    /// Processes the sender's deadline.
    ///
    /// - Throws: `.acknowledgementTimeout` if nothing was acknowledged for too long.
    mutating func deadlineReached(_ now: Instant) throws(TransportError) {
        if farewell == nil { try sender.deadlineReached(now) }
    }
}

// The output of a reliable session.

extension ReliableSession {
    /// Queues a message to be sent.
    mutating func send(_ bytes: [UInt8], id: UInt64) -> SendStatus {
        guard sender.pieces.hasRoom(for: bytes.count) else {
            owesRoom = true
            return .blocked
        }
        sender.pieces.append(bytes, id: id)
        return .written
    }

    /// Writes the packets that may be sent now.
    mutating func transmit(_ identifier: UInt64, _ context: inout CoreContext) {
        guard farewell == nil else { return }
        if let size = context.refusedDatagram.take() { sender.refused(size, context.now) }
        if receiver.isCreditWorthTelling { received.hurry(context.now) }
        goOnAt = nil
        var left = Self.burst
        while let size = sender.packetSize(context.now) {
            guard left > 0 else {
                goOnAt = context.now
                break
            }
            writePacket(identifier, size, &context)
            left -= 1
        }
        sender.setCreditTimeout(context.now)
        guard let due = received.dueAt, due <= context.now else { return }
        _ = appendHeader(identifier, &context.output)
        _ = appendAcknowledgement(room: longestPacket - Self.headerSize, &context)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    private mutating func writePacket(_ identifier: UInt64, _ size: Int, _ context: inout CoreContext) {
        let number = appendHeader(identifier, &context.output)
        let full = size - Self.headerSize
        var room = full
        if received.dueAt != nil { room -= appendAcknowledgement(room: room - sender.pieces.least(of: full), &context) }
        var written: [ReliablePieces.Piece] = []
        while let piece = sender.pieces.next(room: room, of: full) {
            ReliableFrame.append(piece, of: sender.pieces, to: &context.output)
            sender.pieces.sent(piece)
            written.append(piece)
            room -= piece.wireSize
        }
        if written.isEmpty {
            context.output.append(ReliableFrame.Kind.probe.rawValue)
            context.counters.controlFrames &+= 1
            room -= 1
        }
        context.endDatagram()
        sender.sent(SentPacket(number: number, sentAt: context.now, size: size - room, pieces: written))
    }

    private mutating func appendHeader(_ identifier: UInt64, _ output: inout ByteBuffer) -> UInt64 {
        let number = sender.takeNumber()
        output.append(integer: Datagram.Kind.packet.rawValue)
        output.append(integer: identifier)
        output.append(integer: number)
        return number
    }

    private mutating func appendAcknowledgement(room: Int, _ context: inout CoreContext) -> Int {
        let size = ReliableFrame.append(
            acknowledgementOf: received.ranges,
            delay: received.delay(context.now),
            credit: receiver.credit,
            room: room,
            to: &context.output
        )
        guard size > 0 else { return 0 }
        received.acknowledged()
        receiver.toldCredit()
        return size
    }
}
