/// The receiving half of a conversation: what is given to the app, and what is acknowledged to the peer.
package struct IncomingMessages: Sendable {
    /// The room for received messages. Without it, the connection is still read, because the peer's acknowledgements
    /// arrive between the messages. Over a connection that loses nothing, nothing is acknowledged then, so that the
    /// peer's window limits the messages that arrive. Over a connection that loses messages, they are dropped, and the
    /// peer repeats them.
    private enum Room {
        /// There is room.
        case free
        /// There is none. The peer may be owed an acknowledgement as soon as there is: one that was due, or one after
        /// which it repeats the messages that were dropped.
        case none(owesAcknowledgement: Bool)
    }

    package private(set) var receiver: SessionReceiver
    /// The messages that the app was given and has not processed. `nil` while messages are acknowledged as soon as they
    /// are received.
    package private(set) var unprocessed: UnprocessedMessages?
    private var overtaking: OvertakingFrames
    private var marks = OriginMarks()
    private var held = HeldConfirmations()
    private var room = Room.free
    /// The last number that was acknowledged to the peer.
    private var lastConfirmed: UInt64 = 0
    /// How many messages have arrived since then, while they are acknowledged as soon as they arrive.
    private var unconfirmedCount = 0
    /// The numbering of the peer's messages in the session.
    private var peer = SessionNumbering.fromOne
    /// The last number that the store has as processed. `nil` if there is no store.
    private var stored: UInt64?

    /// - Parameters:
    ///   - earlyLimit: The memory of the early messages, and of the frames before the welcome, in bytes.
    ///   - isStored: Whether the store has to know that a message was processed before the peer does
    ///     (``stored(through:over:_:)``).
    init(earlyLimit: Int, isStored: Bool) {
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        overtaking = OvertakingFrames(limit: earlyLimit)
        stored = isStored ? 0 : nil
    }

    /// The memory of the buffered messages, in bytes.
    var bufferedBytes: Int { receiver.earlyBytes + overtaking.bytes }

    /// The number up to which all messages of the session were received, and processed if the app acknowledges them.
    var processed: UInt64 { unprocessed?.firstSequence.map { $0 - 1 } ?? receiver.received }

    /// The number up to which the peer may forget its messages. If the app acknowledges them, the store knows that first.
    private var confirmable: UInt64 {
        guard let stored, unprocessed != nil else { return processed }
        return min(stored, processed)
    }

    private var isTaking: Bool {
        if case .free = room { true } else { false }
    }

    // MARK: The connection

    /// Drops what only the connection could complete, because it has ended.
    mutating func ended(_ attached: AttachedConnection) {
        receiver.forgetEarly()
        if attached.style != .session { forgetUnprocessed() }
    }

    /// Drops the unprocessed messages, because the connection that could acknowledge them has ended. The next
    /// connection brings them again.
    mutating func forgetUnprocessed() {
        if let unacknowledged = unprocessed?.removeAll() { marks.forgetGiven(unacknowledged) }
        held.forget()
    }

    /// Receives the messages of another session.
    mutating func restart(_ peer: SessionNumbering) {
        unprocessed?.removeAll()
        receiver.restart(after: peer.ended)
        lastConfirmed = peer.ended
        unconfirmedCount = 0
        if stored != nil { stored = peer.ended }
        self.peer = peer
        if !isTaking { room = .none(owesAcknowledgement: false) }
    }

    /// Continues after an earlier process.
    ///
    /// - Parameters:
    ///   - session: Its session.
    ///   - marks: The marks of the messages of brokers that its app has processed.
    mutating func restore(_ session: StoredSession, _ marks: [OriginFilter.Mark]) {
        receiver.restart(after: session.processed)
        lastConfirmed = session.processed
        if stored != nil { stored = session.processed }
        self.marks.restore(session.markKey, marks)
    }

    /// The peer has resumed the session.
    mutating func resume(_ peer: SessionNumbering) {
        self.peer = peer
        receiver.skip(through: peer.ended)
        lastConfirmed = max(lastConfirmed, peer.ended)
        if let stored { self.stored = max(stored, peer.ended) }
    }

    /// Keeps a frame that has arrived before the welcome.
    mutating func keepOvertaking(_ frame: SessionFrame) throws(TransportError) {
        try overtaking.keep(frame)
    }

    /// Removes the frames that have arrived before the welcome.
    @discardableResult
    mutating func takeOvertaking() -> [SessionFrame] {
        overtaking.takeAll()
    }

    // MARK: Acknowledgements

    /// From now on the app acknowledges each message after it has processed it.
    mutating func acknowledgeAfterProcessing() {
        if unprocessed == nil { unprocessed = UnprocessedMessages() }
    }

    /// Records whether there is room for received messages.
    mutating func taking(
        _ isTaking: Bool,
        over attached: AttachedConnection,
        _ actions: inout [SupervisorAction]
    ) {
        var owesAcknowledgement = false
        if case .none(owesAcknowledgement: true) = room { owesAcknowledgement = true }
        room = isTaking ? .free : .none(owesAcknowledgement: owesAcknowledgement)
        if owesAcknowledgement { acknowledge(over: attached, &actions) }
    }

    /// Returns the acknowledgement in a hello, a welcome or a frame: the last number of the processed messages.
    mutating func tellReceived() -> UInt64 {
        lastConfirmed = confirmable
        unconfirmedCount = 0
        return lastConfirmed
    }

    /// The store has the messages up to this number as processed, so that they can be acknowledged.
    mutating func stored(through number: UInt64, over attached: AttachedConnection, _ actions: inout [SupervisorAction])
    {
        guard let stored, number > stored else { return }
        self.stored = number
        if confirmable > lastConfirmed { acknowledge(over: attached, &actions) }
    }

    /// Acknowledges the processed messages to the peer, now or as soon as there is room.
    private mutating func acknowledge(over attached: AttachedConnection, _ actions: inout [SupervisorAction]) {
        if !isTaking {
            guard attached.isLossy else { return room = .none(owesAcknowledgement: true) }
            guard attached.isOpen, attached.style == .session else { return room = .none(owesAcknowledgement: false) }
        }
        guard attached.isOpen, attached.style == .session else { return }
        actions.append(.transmit(attached.number, nil, SessionFrame.acknowledge(tellReceived()).payload))
    }

    /// Acknowledges messages that the app has processed, as soon as the store knows it.
    private mutating func acknowledgeProcessed(over attached: AttachedConnection, _ actions: inout [SupervisorAction]) {
        guard let stored, processed > stored else { return acknowledge(over: attached, &actions) }
        actions.append(.storeProcessed(processed))
    }

    /// Records that the app has processed the message of this key, or has released it without processing it.
    mutating func processed(
        _ key: UInt64,
        isAbandoned: Bool,
        over attached: AttachedConnection,
        _ actions: inout [SupervisorAction]
    ) {
        guard let (mark, released) = unprocessed?.settle(key, isAbandoned: isAbandoned) else {
            if let mark = marks.settleLate(key, isAbandoned: isAbandoned) { store(mark, &actions) }
            return
        }
        if let mark, !isAbandoned {
            marks.receive(mark)
            store(mark, &actions)
        }
        if attached.style == .session {
            if processed > lastConfirmed { acknowledgeProcessed(over: attached, &actions) }
        } else {
            release(released, over: attached, &actions)
        }
    }

    /// Gives the mark of a processed message to the store.
    private mutating func store(_ mark: OriginFilter.Mark, _ actions: inout [SupervisorAction]) {
        guard stored != nil else { return }
        held.give()
        actions.append(.storeMark(mark))
    }

    /// The store has this number of further marks.
    mutating func storedMarks(_ count: Int, over attached: AttachedConnection, _ actions: inout [SupervisorAction]) {
        confirm(held.stored(count), over: attached, &actions)
    }

    /// Confirms messages of the connection as soon as the store knows those that the app has processed.
    private mutating func release(
        _ count: Int,
        over attached: AttachedConnection,
        _ actions: inout [SupervisorAction]
    ) {
        confirm(held.add(count), over: attached, &actions)
    }

    private func confirm(_ count: Int, over attached: AttachedConnection, _ actions: inout [SupervisorAction]) {
        guard count > 0, attached.isOpen, attached.style != .session else { return }
        actions.append(.confirm(connection: attached.number, count))
    }

    // MARK: Messages

    /// Gives the app a message that has no number in a session.
    mutating func give(
        _ payload: Payload,
        mark: OriginFilter.Mark? = nil,
        id: ReceivedMessage.ID? = nil,
        isRepeated: Bool = false,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard let key = unprocessed?.add(sequence: 0, mark: mark, at: now) else {
            return actions.append(.deliver(payload))
        }
        if let mark { marks.give(mark) }
        actions.append(.deliverUnprocessed(key, payload, id, isRepeated: isRepeated || payload.isDuplicate))
    }

    /// Gives the app a message of the session.
    private mutating func give(
        _ number: UInt64,
        _ message: SessionReceiver.Arrival,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard let key = unprocessed?.add(sequence: number, mark: nil, at: now) else {
            return actions.append(.deliver(message.payload))
        }
        let (payload, isRepeated) = (message.payload, message.isRepeated)
        actions.append(.deliverUnprocessed(key, payload, id(number), isRepeated: isRepeated))
    }

    /// The identifier of a message of the session.
    private func id(_ number: UInt64) -> ReceivedMessage.ID {
        ReceivedMessage.ID(sender: SessionID(public: peer.sender), number: number)
    }

    /// Gives a message of another client of a broker to the app, unless it has arrived before.
    ///
    /// - Parameter isRepeated: Whether its sender says that it may have sent the message before.
    mutating func giveUnlessRepeated(
        _ sender: SessionID,
        _ sequence: UInt64,
        _ payload: Payload,
        isRepeated: Bool,
        over attached: AttachedConnection,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard let mark = marks.mark(sender, sequence, payload, using: &random) else {
            actions.append(.note(.duplicate))
            return leaveOut(over: attached, at: now, &actions)
        }
        if unprocessed == nil { marks.receive(mark) }
        let id = ReceivedMessage.ID(sender: sender, number: sequence)
        give(payload, mark: mark, id: id, isRepeated: isRepeated, at: now, &actions)
    }

    /// Counts a message of the connection that is not given to the app.
    mutating func leaveOut(
        over attached: AttachedConnection,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        // In a session it has no number, so there is nothing to acknowledge.
        guard attached.style != .session, let released = unprocessed?.addProcessed(at: now) else { return }
        release(released, over: attached, &actions)
    }

    /// Takes a message of a session.
    ///
    /// - Throws: `.protocolViolation` if the peer has sent more than the window allows, and `.resourcesExhausted` if a
    ///   message that no connection repeats has no room.
    mutating func take(
        _ number: UInt64,
        _ payload: Payload,
        isRepeated: Bool,
        over attached: AttachedConnection,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        try checkWindow(number)
        if let key = unprocessed?.giveAgain(number, at: now) {
            return actions.append(.deliverUnprocessed(key, payload, id(number), isRepeated: true))
        }
        // There is no room, and the peer repeats the message.
        if attached.isLossy, !isTaking, number > receiver.received { return room = .none(owesAcknowledgement: true) }
        let message = SessionReceiver.Arrival(payload, isRepeated: isRepeated)
        let verdict: SessionReceiver.Verdict
        if unprocessed == nil {
            verdict = try receiver.receive(number, message) { actions.append(.deliver($1.payload)) }
        } else {
            var given: [(UInt64, SessionReceiver.Arrival)] = []
            verdict = try receiver.receive(number, message) { given.append(($0, $1)) }
            for (number, message) in given { give(number, message, at: now, &actions) }
        }
        if verdict == .new, unprocessed == nil { unconfirmedCount += 1 }
        try answer(verdict, over: attached, &actions)
    }

    /// Takes a skip frame of a session.
    ///
    /// - Throws: Like ``take(_:_:isRepeated:over:at:_:)``.
    mutating func skip(
        _ numbers: ClosedRange<UInt64>,
        over attached: AttachedConnection,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        var given: [(UInt64, SessionReceiver.Arrival)] = []
        let verdict = try receiver.skip(numbers) { given.append(($0, $1)) }
        for (number, message) in given { give(number, message, at: now, &actions) }
        try answer(verdict, over: attached, &actions)
    }

    private mutating func answer(
        _ verdict: SessionReceiver.Verdict,
        over attached: AttachedConnection,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch verdict {
        case .new: break
        case .duplicate: actions.append(.note(.duplicate))
        // A connection that loses messages brings the message again.
        case .noRoom where attached.isLossy: return
        // A reliable connection does not. The next connection brings all messages again, in order.
        case .noRoom: throw .tooMuchEarly
        }
        // Messages that the app has not processed are acknowledged later.
        if verdict == .new, unprocessed != nil {
            if processed > lastConfirmed { acknowledgeProcessed(over: attached, &actions) }
            return
        }
        acknowledge(over: attached, &actions)
    }

    /// Checks that the peer's window allows a message of this number. Messages count and not their numbers, of which the peer
    /// can leave out any number.
    ///
    /// - Throws: `.protocolViolation` if no window is so large.
    private func checkWindow(_ number: UInt64) throws(TransportError) {
        guard number <= receiver.received || unprocessed?.count ?? unconfirmedCount < Int(SessionReceiver.window) else {
            throw .envelope("the peer sent more messages than the window allows without an acknowledgement")
        }
    }

    // MARK: Time

    /// The time at which ``remind(at:every:_:)`` must be called.
    func reminder(every interval: Duration) -> Instant? {
        unprocessed?.reminder(every: interval)
    }

    /// Reminds the app of messages that it has had for `interval` without acknowledging them.
    mutating func remind(at now: Instant, every interval: Duration, _ actions: inout [SupervisorAction]) {
        guard let held = unprocessed?.remind(at: now, every: interval) else { return }
        actions.append(.note(.unacknowledged(held)))
    }
}

extension TransportError {
    static let tooMuchEarly = TransportError(
        .resourcesExhausted,
        .open,
        "more early messages arrived than the message buffer holds"
    )
}
