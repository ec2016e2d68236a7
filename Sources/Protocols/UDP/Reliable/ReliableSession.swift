import TransportAPI

/// The reliable mode of one session: what is on its way, what has arrived, and when to acknowledge it. Reads and writes
/// packets; all else about the session is ``UDPCore``'s.
struct ReliableSession: Sendable {
    /// The longest packet, in bytes of a datagram's payload (RFC 9000, section 14.1 gives the reason).
    static let packetSize = 1200
    /// Connection id and packet number.
    static let headerSize = 20
    /// How many packets leave in a row: as many as at first, or a window that opens at once would come to routers at once
    /// (RFC 9002, section 7.7).
    static let burst = CongestionWindow.initial / CongestionWindow.datagram
    let terms: ReliableTerms
    /// The largest message that both sides take, in bytes.
    let maximumMessageSize: Int
    var sender: ReliableSender
    var receiver: ReliableReceiver
    var received = ReceivedPackets()
    /// A message can be given since its receiver has made room.
    private var giveAt: Instant?
    /// More may leave than one burst, when others have had their turn.
    var goOnAt: Instant?
    /// A sender was told to wait, and is to hear when there is room again.
    var owesRoom = false
    /// The id of a message by whose acknowledgement there is room again.
    private var roomMadeBy: UInt64?
    private let closeTimeout: Duration
    /// This side closes and waits until all has been acknowledged, but not longer than this. Each acknowledgement that brings
    /// news puts it off.
    private(set) var closeAt: Instant?
    /// When an unanswered ping is repeated, since a reliable connection's keepalive counts on one.
    private(set) var pingAt: Instant?
    private var pingPause = Duration.zero
    /// The token of the last ping that came; a ping that is repeated has the same.
    var pingHeard: UInt64?
    /// What the peer said in its goodbye, to be reported behind all messages.
    var farewell: CloseReason?

    init(_ own: ReliableTerms, _ peer: ReliableTerms, _ configuration: UDPConfiguration) {
        terms = own
        maximumMessageSize = min(own.maximumMessageSize, peer.maximumMessageSize)
        closeTimeout = configuration.closeTimeout
        sender = ReliableSender(credit: peer.window, buffer: configuration.reliableBuffer)
        receiver = ReliableReceiver(
            own,
            inbox: (configuration.inboxMessages, configuration.inboxBytes),
            isConfirming: configuration.confirmsReceipt
        )
    }

    var isClosing: Bool { closeAt != nil }

    // MARK: Reading

    /// Takes a packet, whose size and connection id were checked.
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
                // Each costs some work, and forty of them would fit.
                guard !hasAcknowledged else { throw .lie("a packet holds two acknowledgements") }
                hasAcknowledged = true
                guard let news = Acknowledgement(packet, at: &offset) else {
                    throw .lie("an acknowledgement is malformed")
                }
                try acknowledge(news, &context)
                continue
            case .probe: break
            case nil: throw .lie("a packet holds an unknown frame")
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

    /// What is to be reported next.
    mutating func nextEvent() -> CoreEvent? {
        giveAt = nil
        if let id = roomMadeBy.take() { return .acknowledged(id) }
        return receiver.give().map { .message(Payload($0)) }
    }

    /// A receiver is done with a message: gives the next one, if one waits for that.
    mutating func confirm(_ now: Instant) {
        receiver.confirm()
        if receiver.canGive || (farewell != nil && receiver.isEmpty) { giveAt = now }
        if receiver.isCreditWorthTelling { received.hurry(now) }
    }

    // MARK: Time

    /// A ping has been written, for the first time or again.
    mutating func pinged(again: Bool, _ now: Instant) {
        pingPause = again ? min(pingPause * 2, UDPTimers.longestRetransmission) : sender.roundTrip.timeout
        pingAt = now.advanced(by: pingPause)
    }

    /// All pings have been answered.
    mutating func ponged() {
        pingAt = nil
    }

    /// This side says goodbye when all has been acknowledged.
    mutating func beginClose(_ now: Instant) {
        closeAt = closeAt ?? now.advanced(by: closeTimeout)
    }

    /// Whether there is nothing left to wait for before the goodbye.
    func isReadyToEnd(_ now: Instant) -> Bool {
        guard let closeAt else { return false }
        return sender.isIdle || closeAt <= now
    }

    /// What it holds of messages that its user has not taken and the peer has not acknowledged, in bytes.
    var bufferedBytes: Int { receiver.held + sender.pieces.buffered }

    /// After the peer's goodbye only what has arrived is still to be given.
    var deadline: Instant? {
        guard farewell == nil else { return giveAt }
        let mine = earlier(earlier(sender.deadline, received.dueAt), goOnAt)
        return earlier(earlier(mine, earlier(giveAt, closeAt)), pingAt)
    }

    /// - Throws: `.acknowledgementTimeout`.
    mutating func deadlineReached(_ now: Instant) throws(TransportError) {
        if farewell == nil { try sender.deadlineReached(now) }
    }
}

// What a reliable session writes.

extension ReliableSession {
    /// Takes a message to be sent.
    mutating func send(_ bytes: [UInt8], id: UInt64) -> SendStatus {
        guard sender.pieces.hasRoom(for: bytes.count) else {
            owesRoom = true
            return .blocked
        }
        sender.pieces.append(bytes, id: id)
        return .written
    }

    /// Writes what may leave now.
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
        _ = appendAcknowledgement(room: Self.packetSize - Self.headerSize, &context)
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
