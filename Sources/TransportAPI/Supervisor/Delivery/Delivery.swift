/// Both halves of one conversation, independent of the connection that carries it: the messages that are to be sent or
/// not acknowledged yet, and the messages that have been received.
package struct Delivery: Sendable {
    /// The form in which the current connection carries messages.
    package enum Style: Sendable, Hashable {
        /// Payloads without an envelope.
        case plain
        /// Each payload in an envelope, acknowledged by the peer's supervisor.
        case session
        /// Each payload with its origin, acknowledged by the transport itself.
        case origin
    }

    let configuration: DeliveryConfiguration
    /// The identifier of this side to a session server, and to other clients of a broker.
    private(set) var identity: SessionID
    /// The sender of this side's messages in a session (``SessionNumbering/sender``).
    private(set) var sender: UInt64
    /// Whether messages wait until the store knows the session in which they are sent.
    private(set) var awaitsStoredSession = false
    let isStored: Bool
    package internal(set) var attached = AttachedConnection()
    /// The messages that have not ended.
    package internal(set) var outbox: Outbox
    package internal(set) var waiting: WaitingMessages
    var handover = Handover()
    var numbers = SentNumbers()
    var retransmission = Retransmission()
    var blame = Blame()
    package internal(set) var incoming: IncomingMessages
    /// Why all messages end, once the supervisor or the session is over. Messages that a connection has not settled end
    /// when it does, because only the connection knows whether a part of them has left.
    var endError: TransportError?

    /// - Parameters:
    ///   - configuration: The settings.
    ///   - identity: The identifier of this side.
    ///   - sender: The sender of its messages in a session, a random number.
    ///   - isStored: Whether a store has to know what the peer learns: a message before it is sent (``stored(through:at:_:)``),
    ///     and that a message was processed before it is acknowledged (``storedSession(processed:at:_:)``).
    package init(
        _ configuration: SupervisorConfiguration,
        identity: SessionID,
        sender: UInt64 = 0,
        isStored: Bool = false
    ) {
        self.configuration = configuration.delivery
        self.identity = identity
        self.sender = sender
        self.isStored = isStored
        outbox = Outbox(configuration.outbox, isStored: isStored)
        waiting = WaitingMessages(configuration.outbox)
        incoming = IncomingMessages(earlyLimit: configuration.messageBufferBytes, isStored: isStored)
    }

    package var style: Style { attached.style }
    /// Whether nothing has been received or acknowledged in the session.
    var isUntouched: Bool { incoming.receiver.isUntouched && numbers.isUntouched }
    package var roundTrip: RoundTripTime {
        get { retransmission.roundTrip }
        _modify { yield &retransmission.roundTrip }
    }
    package var receiver: SessionReceiver {
        _read { yield incoming.receiver }
    }
    /// The messages that the app was given and has not processed. `nil` while messages are acknowledged as soon as they
    /// are received.
    package var unprocessed: UnprocessedMessages? {
        _read { yield incoming.unprocessed }
    }

    /// The memory of all buffered messages, in bytes.
    package var bufferedBytes: Int {
        outbox.bytes + waiting.bytes + (outbox.count + waiting.count) * 2 * Payload.bookkeeping + incoming.bufferedBytes
    }

    /// The payloads of all messages that were submitted and not settled, the oldest first.
    var pendingPayloads: [Payload] { outbox.payloads + waiting.payloads }

    // MARK: The connection

    /// Returns the style for a connection of these capabilities.
    package static func style(_ configuration: DeliveryConfiguration, _ capabilities: Capabilities) -> Style {
        guard configuration.mode == .session else { return .plain }
        return capabilities.acknowledgesMessages || capabilities.routesByTopic ? .origin : .session
    }

    /// Messages can be sent over `connection` from now on.
    ///
    /// - Parameter peerLimit: In a session, the largest message that the peer accepts, in bytes of its payload.
    package mutating func attach(_ connection: Int, _ capabilities: Capabilities, peerLimit: Int = .max) {
        blame.opened()
        let former = style
        attached.open(connection, Self.style(configuration, capabilities), capabilities, peerLimit: peerLimit)
        // Messages of a session are not acknowledged over a connection of another style.
        if former == .session, style != .session { incoming.forgetUnprocessed() }
        handover.attached(completesSends: attached.completesSends)
        retransmission.opened()
    }

    /// The connection has ended. The messages in flight in a session will be sent again. Without a session, the
    /// connection reports the outcome of each message, and no message may be sent before that.
    ///
    /// - Parameter evidence: The conclusion from the end about the messages in flight. One that the peer refuses is set aside.
    package mutating func detach(
        _ evidence: Blame.Evidence = .none,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let wasAttached = attached.isOpen
        attached.close()
        retransmission.stop()
        incoming.ended(attached)
        if wasAttached { judge(evidence, at: now, &actions) }
        if style == .session || handover.ended() { takeBack() }
    }

    /// Sets the message aside that the peer has refused by ending the connection.
    private mutating func judge(_ evidence: Blame.Evidence, at now: Instant, _ actions: inout [SupervisorAction]) {
        let inFlight = (0..<outbox.sentCount).filter { outbox[$0].payload != nil && !outbox[$0].isUnsent }
        guard let oldest = inFlight.first else { return }
        let ids = inFlight.map { outbox[$0].id }
        guard let outcome = blame.ended(evidence, inFlight: ids) else { return }
        giveUp(oldest, outcome, at: now, &actions)
    }

    /// Sends the messages that were handed to a connection over the next one.
    mutating func takeBack() {
        outbox.takeBackAll()
        handover.takeBack()
    }

    /// Whether the peer has acknowledged a message.
    package var wasAcknowledged: Bool { blame.hasAcknowledged }

    /// The network has changed while the connection was open.
    package mutating func networkChanged() {
        blame.moved()
    }

    /// The peer has begun another session, in which it has sent nothing and received nothing. Unacknowledged messages are
    /// sent again.
    ///
    /// - Parameter peer: The numbering of the peer's messages.
    package mutating func restart(_ peer: SessionNumbering) {
        incoming.restart(peer)
        blame.forgotten()
        outbox.forgetNumbers()
        numbers.restart()
        retransmission.restarted()
        awaitsStoredSession = isStored
    }

    /// Continues the conversation of an earlier process, whose app has processed the messages of brokers with these marks.
    mutating func restore(_ session: StoredSession, after ended: UInt64, _ marks: [OriginFilter.Mark]) {
        (identity, sender) = (session.identity, session.sender)
        numbers = SentNumbers(after: ended, lastOfEarlierProcess: session.lastNumber)
        incoming.restore(session, marks)
    }

    /// The store knows the session, and that its messages up to this number were processed.
    mutating func storedSession(processed number: UInt64, at now: Instant, _ actions: inout [SupervisorAction]) {
        awaitsStoredSession = false
        incoming.stored(through: number, over: attached, &actions)
        flush(at: now, &actions)
    }

    /// The store has this number of further marks of processed messages (``SupervisorAction/storeMark(_:)``).
    mutating func storedMarks(_ count: Int, _ actions: inout [SupervisorAction]) {
        incoming.storedMarks(count, over: attached, &actions)
    }

    /// The peer has resumed the session, and does not send any more what its numbering leaves out.
    mutating func resume(_ peer: SessionNumbering) {
        incoming.resume(peer)
    }

    /// The numbering of the messages of this side, for a hello or a welcome.
    var numbering: SessionNumbering { SessionNumbering(after: numbers.acknowledged, sender: sender) }

    // MARK: Receiving

    /// Takes a frame of an open session that concerns messages.
    package mutating func take(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch frame {
        case .message(let number, let payload, let isRepeated):
            try incoming.take(number, payload, isRepeated: isRepeated, over: attached, at: now, &actions)
        case .skip(let numbers): try incoming.skip(numbers, over: attached, at: now, &actions)
        case .acknowledge(let sequence): try acknowledge(through: sequence, at: now, &actions)
        default: break
        }
    }

    /// Keeps a frame that has arrived before the welcome over a connection without an order.
    ///
    /// - Throws: `.resourcesExhausted` if there is no room. The message is then sent again over the next connection.
    mutating func keepOvertaking(_ frame: SessionFrame) throws(TransportError) {
        try incoming.keepOvertaking(frame)
    }

    /// Drops the frames that arrived before the welcome, because they belong to an earlier connection.
    mutating func forgetOvertaking() {
        incoming.takeOvertaking()
    }

    /// Takes the frames that arrived before the welcome.
    mutating func takeOvertaking(at now: Instant, _ actions: inout [SupervisorAction]) throws(TransportError) {
        for frame in incoming.takeOvertaking() { try take(frame, at: now, &actions) }
    }

    /// Gives the app a message.
    mutating func give(_ payload: Payload, at now: Instant, _ actions: inout [SupervisorAction]) {
        incoming.give(payload, at: now, &actions)
    }

    /// Gives a message of another client of a broker to the app, unless it has arrived before.
    mutating func giveUnlessRepeated(
        _ sender: SessionID,
        _ sequence: UInt64,
        _ payload: Payload,
        isRepeated: Bool,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        incoming.giveUnlessRepeated(
            sender,
            sequence,
            payload,
            isRepeated: isRepeated,
            over: attached,
            at: now,
            using: &random,
            &actions
        )
    }

    /// Counts a message of the connection that is not given to the app.
    mutating func leaveOut(at now: Instant, _ actions: inout [SupervisorAction]) {
        incoming.leaveOut(over: attached, at: now, &actions)
    }

    /// Records whether there is room for received messages.
    package mutating func taking(_ isTaking: Bool, _ actions: inout [SupervisorAction]) {
        incoming.taking(isTaking, over: attached, &actions)
    }

    /// Returns the acknowledgement in a hello or a welcome: the last number of the processed messages.
    mutating func tellReceived() -> UInt64 { incoming.tellReceived() }

    /// From now on the app acknowledges each message after it has processed it.
    package mutating func acknowledgeAfterProcessing() {
        incoming.acknowledgeAfterProcessing()
    }

    /// Records that the app has processed the message of this key, or has released it without processing it.
    package mutating func processed(_ key: UInt64, isAbandoned: Bool, _ actions: inout [SupervisorAction]) {
        incoming.processed(key, isAbandoned: isAbandoned, over: attached, &actions)
    }

    // MARK: Time

    /// The time at which ``deadlineReached(at:_:)`` must be called.
    package var deadline: Instant? {
        let reminder = incoming.reminder(every: configuration.acknowledgementReminder)
        let own = earlier(reminder, attached.isOpen ? retransmission.deadline : nil)
        return earlier(own, earlier(outbox.nextExpiry, waiting.nextExpiry))
    }

    /// Ends messages that are too old, and sends lost messages again.
    package mutating func deadlineReached(at now: Instant, _ actions: inout [SupervisorAction]) {
        expire(at: now, &actions)
        if attached.isOpen, let deadline = retransmission.deadline, deadline <= now {
            sendAgain(retransmission.timedOut(at: now, inFlight: outbox.sentCount), at: now, &actions)
        }
        incoming.remind(at: now, every: configuration.acknowledgementReminder, &actions)
        flush(at: now, &actions)
    }
}
