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
    let age: Duration?
    let policy: OutboxConfiguration.Policy
    let waitingLimit: Int
    package internal(set) var outbox: Outbox
    /// Messages that wait for room in the outbox.
    package internal(set) var waiting: [(id: MessageID, payload: Payload, expiry: Instant?)] = []
    /// The number of bytes of their payloads.
    package internal(set) var waitingBytes = 0
    package internal(set) var receiver: SessionReceiver
    private let earlyLimit: Int
    /// Frames that arrived before the welcome over a connection without an order, and their memory in bytes.
    private var overtaking: (frames: [SessionFrame], bytes: Int) = ([], 0)
    /// `nil` until a message of another client of a broker arrives.
    var origins: OriginFilter?
    /// The messages that the app was given and has not processed. `nil` while messages are acknowledged as soon as they
    /// are received.
    package internal(set) var unprocessed: UnprocessedMessages?
    /// The marks of messages from other clients of a broker that the app was given over the current connection and has
    /// not processed.
    private var givenMarks: Set<OriginFilter.Mark> = []
    /// The marks of such messages that the app was given over the connection before, by their keys.
    private var lateMarks: [UInt64: OriginFilter.Mark] = [:]
    /// Whether there is room for received messages. Without it, the connection is still read, because the peer's
    /// acknowledgements arrive between the messages. Over a connection that loses nothing, nothing is acknowledged then,
    /// so that the peer's window limits the messages that arrive. Over a connection that loses messages, they are
    /// dropped, and the peer repeats them.
    private(set) var isTaking = true
    /// Whether the peer gets an acknowledgement as soon as there is room: one that was due, or one after which it
    /// repeats the messages that were dropped.
    private var owesAcknowledgement = false
    /// The last sequence number that was acknowledged to the peer.
    private(set) var lastConfirmed: UInt64 = 0
    /// The identifier of this side to other clients of a broker.
    let identity: SessionID
    /// The last sequence number that was assigned.
    var lastSequence: UInt64 = 0
    /// The last sequence number that the peer has acknowledged.
    var acknowledged: UInt64 = 0
    /// The connection that is open now; 0 if there is none.
    package internal(set) var connection = 0
    package internal(set) var style = Style.plain
    /// Whether the connection loses messages, so that they must be sent again on it.
    var isLossy = false
    /// Whether the connection completes messages that the one before it has left (``Capabilities/completesSends``).
    var completesSends = false
    /// Whether a transport may still have messages that its next connection completes.
    private var leavesMessages = false
    /// The connection that messages were handed to last.
    var handedTo = 0
    /// The number of these messages that it has not settled.
    var unsettled = 0
    /// Whether the next connection completes these messages.
    var isCompletedByNext = false
    /// Set when the connection has returned a message or has ended. No more messages are handed over until it has
    /// settled all of them.
    var isHolding = false
    /// Why all messages end, once the supervisor or the session is over. Messages that a connection has not settled end
    /// when it does, because only the connection knows whether a part of them has left.
    private(set) var endError: TransportError?
    private var blame = Blame()
    /// The largest message that the peer accepts in the session, in bytes of its payload.
    private var peerLimit = Int.max
    /// The time at which the oldest messages in flight are sent again.
    var retransmission: Instant?
    package internal(set) var roundTrip: RoundTripTime
    /// Set after the timer has fired, or the peer has acknowledged nothing new: the last message that was in flight
    /// then, and the last one that was sent again. `isPrompted` means that the latter has happened, and since then
    /// neither the timer has fired nor a message was acknowledged.
    var recovery: (end: UInt64, sentAgain: UInt64, isPrompted: Bool)?

    /// The longest pause before the oldest messages in flight are sent again. The 60 s of RFC 6298, section 2.5, protect a
    /// path that carries nothing. Here the keepalive ends the connection over such a path, and over one that works, some
    /// losses in a row must not stop a conversation for minutes.
    private static let longestPause = Duration.seconds(10)

    package init(_ configuration: SupervisorConfiguration, identity: SessionID) {
        var bounds = RoundTripTime.Bounds()
        bounds.maximum = Self.longestPause
        roundTrip = RoundTripTime(bounds)
        self.configuration = configuration.delivery
        age = configuration.outbox.maximumAge
        policy = configuration.outbox.whenFull
        waitingLimit = configuration.outbox.maximumCount
        outbox = Outbox(configuration.outbox)
        earlyLimit = configuration.messageBufferBytes
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        self.identity = identity
    }

    /// Returns the style for a connection of these capabilities.
    package static func style(_ configuration: DeliveryConfiguration, _ capabilities: Capabilities) -> Style {
        guard configuration.mode == .session else { return .plain }
        return capabilities.acknowledgesMessages || capabilities.routesByTopic ? .origin : .session
    }

    // MARK: The connection

    /// Messages can be sent over `connection` from now on.
    ///
    /// - Parameter peerLimit: In a session, the largest message that the peer accepts, in bytes of its payload.
    package mutating func attach(_ connection: Int, _ capabilities: Capabilities, peerLimit: Int = .max) {
        self.connection = connection
        self.peerLimit = peerLimit
        blame.opened()
        let former = style
        style = Self.style(configuration, capabilities)
        // Messages of a session are not acknowledged over a connection of another style.
        if former == .session, style != .session { forgetUnprocessed() }
        isLossy = !capabilities.isReliable
        completesSends = capabilities.completesSends
        if completesSends { leavesMessages = true }
        retransmission = nil
        recovery = nil
        roundTrip.answered()
    }

    /// Keeps a frame that has arrived before the welcome.
    ///
    /// - Throws: `.resourcesExhausted` if there is no room. The message is then sent again over the next connection.
    mutating func keepOvertaking(_ frame: SessionFrame) throws(TransportError) {
        var size = Payload.bookkeeping
        if case .message(_, let payload) = frame { size = payload.bufferedBytes }
        guard overtaking.frames.count < SessionReceiver.window, size <= earlyLimit - overtaking.bytes else {
            throw .tooMuchEarly
        }
        overtaking.frames.append(frame)
        overtaking.bytes += size
    }

    /// Drops the frames that arrived before the welcome, because they belong to an earlier connection.
    mutating func forgetOvertaking() {
        overtaking = ([], 0)
    }

    /// Takes the frames that arrived before the welcome.
    mutating func takeOvertaking(at now: Instant, _ actions: inout [SupervisorAction]) throws(TransportError) {
        let frames = overtaking.frames
        forgetOvertaking()
        for frame in frames { try take(frame, at: now, &actions) }
    }

    /// Records whether there is room for received messages.
    package mutating func taking(_ isTaking: Bool, _ actions: inout [SupervisorAction]) {
        self.isTaking = isTaking
        if owesAcknowledgement { acknowledge(&actions) }
    }

    /// Returns the acknowledgement in a hello or a welcome: the last number of the processed messages.
    mutating func tellReceived() -> UInt64 {
        lastConfirmed = processed
        if isTaking { owesAcknowledgement = false }
        return lastConfirmed
    }

    /// Acknowledges the processed messages to the peer, now or as soon as there is room.
    mutating func acknowledge(_ actions: inout [SupervisorAction]) {
        guard isTaking || isLossy else { return owesAcknowledgement = true }
        guard connection != 0, style == .session else { return owesAcknowledgement = false }
        actions.append(.transmit(connection, nil, SessionFrame.acknowledge(tellReceived()).payload))
    }

    /// Checks that the peer's window allows a message of this number.
    ///
    /// - Throws: `.protocolViolation` if no window is so large.
    func checkWindow(_ sequence: UInt64) throws(TransportError) {
        guard sequence <= lastConfirmed || sequence - lastConfirmed <= SessionReceiver.window else {
            throw .envelope("the peer sent more messages than the window allows without an acknowledgement")
        }
    }

    /// The memory of all buffered messages, in bytes.
    package var bufferedBytes: Int {
        outbox.bytes + waitingBytes + (outbox.count + waiting.count) * 2 * Payload.bookkeeping + receiver.earlyBytes
            + overtaking.bytes
    }

    /// The payloads of all messages that were submitted and not settled, the oldest first.
    var pendingPayloads: [Payload] { outbox.payloads + waiting.map(\.payload) }

    // MARK: Acknowledgement after processing

    /// From now on the app acknowledges each message after it has processed it.
    package mutating func acknowledgeAfterProcessing() {
        if unprocessed == nil { unprocessed = UnprocessedMessages() }
    }

    /// The number up to which all messages of the session were received, and processed if the app acknowledges them.
    var processed: UInt64 { unprocessed?.firstSequence.map { $0 - 1 } ?? receiver.received }

    /// Gives the app a message.
    mutating func give(
        _ payload: Payload,
        sequence: UInt64 = 0,
        mark: OriginFilter.Mark? = nil,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard let key = unprocessed?.add(sequence: sequence, mark: mark, at: now) else {
            return actions.append(.deliver(payload))
        }
        if let mark { givenMarks.insert(mark) }
        actions.append(.deliverUnprocessed(key, payload))
    }

    /// Gives a message of another client of a broker to the app, unless it has arrived before.
    mutating func giveUnlessRepeated(
        _ sender: SessionID,
        _ sequence: UInt64,
        _ payload: Payload,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        var filter = origins.take() ?? OriginFilter(using: &random)
        defer { origins = filter }
        let mark = filter.mark(sender, sequence, payload)
        // If the app still processes the earlier copy, that copy is acknowledged before this one, because both came
        // over the same connection.
        guard !filter.contains(mark), !givenMarks.contains(mark) else {
            actions.append(.note(.duplicate))
            return leaveOut(at: now, &actions)
        }
        if unprocessed == nil { filter.insert(mark) }
        give(payload, mark: mark, at: now, &actions)
    }

    /// Counts a message of the connection that is not given to the app.
    mutating func leaveOut(at now: Instant, _ actions: inout [SupervisorAction]) {
        // In a session it has no number, so there is nothing to acknowledge.
        guard style != .session, let released = unprocessed?.addProcessed(at: now) else { return }
        confirm(released, &actions)
    }

    /// Records that the app has processed the message of this key, or has released it without processing it.
    package mutating func processed(_ key: UInt64, isAbandoned: Bool, _ actions: inout [SupervisorAction]) {
        guard let (mark, released) = unprocessed?.settle(key, isAbandoned: isAbandoned) else {
            // Its connection has ended, and the broker will send it again.
            if let mark = lateMarks.removeValue(forKey: key), !isAbandoned { origins?.insert(mark) }
            return
        }
        if let mark, !isAbandoned {
            givenMarks.remove(mark)
            origins?.insert(mark)
        }
        if style == .session {
            if processed > lastConfirmed { acknowledge(&actions) }
        } else {
            confirm(released, &actions)
        }
    }

    private func confirm(_ count: Int, _ actions: inout [SupervisorAction]) {
        if count > 0, connection != 0, style != .session { actions.append(.confirm(connection: connection, count)) }
    }

    /// Drops the unprocessed messages, because the connection that could acknowledge them has ended. The next
    /// connection brings them again.
    private mutating func forgetUnprocessed() {
        guard let marks = unprocessed?.removeAll() else { return }
        lateMarks = marks
        givenMarks = []
    }

    /// Starts to receive from number one again.
    mutating func receiveFromStart() {
        unprocessed?.removeAll()
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        (lastConfirmed, owesAcknowledgement) = (0, false)
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
        let wasAttached = connection != 0
        connection = 0
        retransmission = nil
        receiver.forgetEarly()
        if style != .session { forgetUnprocessed() }
        if wasAttached { judge(evidence, at: now, &actions) }
        if style == .session || unsettled == 0 { takeBack() } else { isHolding = true }
    }

    /// Sets the message aside that the peer has refused by ending the connection.
    private mutating func judge(_ evidence: Blame.Evidence, at now: Instant, _ actions: inout [SupervisorAction]) {
        let inFlight = (0..<outbox.sentCount).filter { outbox[$0].payload != nil && !outbox[$0].isUnsent }
        guard let oldest = inFlight.first else { return }
        let ids = inFlight.map { outbox[$0].id }
        guard let outcome = blame.ended(evidence, inFlight: ids) else { return }
        giveUp(oldest, outcome, at: now, &actions)
    }

    /// Whether the peer has acknowledged a message.
    package var wasAcknowledged: Bool { blame.hasAcknowledged }

    /// The network has changed while the connection was open.
    package mutating func networkChanged() {
        blame.moved()
    }

    mutating func takeBack() {
        outbox.takeBackAll()
        isHolding = false
        handedTo = 0
        unsettled = 0
    }

    // MARK: Sending

    /// Puts a message into the outbox, or rejects it with a reason.
    package mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let size = payload.bytes.count
        if size > peerLimit, style == .session, connection != 0 {
            return actions.append(.finish(id, .rejected(.tooLargeForPeer(size, peerLimit))))
        }
        let expiry = age.map { now.advanced(by: $0) }
        guard waiting.isEmpty else { return wait(id, payload, expiry, &actions) }
        switch outbox.append(id, payload, expiry: expiry) {
        case .accepted: actions.append(.accepted(id))
        case .acceptedInPlaceOf(let oldest):
            actions.append(.accepted(id))
            actions.append(.finish(oldest, .rejected(.outboxFull)))
        case .full: wait(id, payload, expiry, &actions)
        case .tooLarge: actions.append(.finish(id, .rejected(tooLargeForOutbox(size))))
        }
        flush(at: now, &actions)
    }

    private mutating func wait(
        _ id: MessageID,
        _ payload: Payload,
        _ expiry: Instant?,
        _ actions: inout [SupervisorAction]
    ) {
        let size = payload.bytes.count
        guard size <= outbox.maximumBytes else {
            return actions.append(.finish(id, .rejected(tooLargeForOutbox(size))))
        }
        guard policy == .wait, waiting.count < waitingLimit, size <= outbox.maximumBytes - waitingBytes else {
            return actions.append(.finish(id, .rejected(.outboxFull)))
        }
        waiting.append((id, payload, expiry))
        waitingBytes += size
    }

    /// Removes a message that waits for room.
    mutating func removeWaiting(at index: Int) -> (id: MessageID, payload: Payload, expiry: Instant?) {
        let message = waiting.remove(at: index)
        waitingBytes -= message.payload.bytes.count
        return message
    }

    /// Hands messages to the connection, as many as the window allows.
    package mutating func flush(at now: Instant, _ actions: inout [SupervisorAction]) {
        admitWaiting(&actions)
        let most = configuration.window
        let window = blame.isSearching ? blame.window(most, oldest: outbox.isEmpty ? nil : outbox[0].id) : most
        while connection != 0, !isHolding, outbox.sentCount < window {
            if style == .session, refusesNext(at: now, &actions) { continue }
            let sequence = style == .session ? lastSequence + 1 : 0
            guard let position = outbox.handNext(to: connection, at: now, sequence: sequence) else { return }
            lastSequence = max(lastSequence, outbox[position].sequence)
            transmit(position, &actions)
            if isLossy, style == .session, retransmission == nil {
                retransmission = now.advanced(by: roundTrip.timeout)
            }
        }
    }

    /// Ends the next message if it is larger than the peer accepts. It must not go out, because the peer would end the
    /// connection. Returns whether there was such a message.
    private mutating func refusesNext(at now: Instant, _ actions: inout [SupervisorAction]) -> Bool {
        let next = outbox.sentCount
        guard outbox.hasUnsent, outbox[next].size > peerLimit else { return false }
        let error = TransportError.tooLargeForPeer(outbox[next].size, peerLimit)
        if outbox[next].isRemovable {
            outbox.remove(at: next).finish(.rejected(error), &actions)
        } else {
            giveUp(next, outbox[next].isUnsent ? .rejected(error) : .unknown(error), at: now, &actions)
        }
        return true
    }

    /// Hands the message at `position` to the connection, or a skip frame if the message was given up.
    private mutating func transmit(_ position: Int, _ actions: inout [SupervisorAction]) {
        let (id, sequence, isRepeated) = (
            outbox[position].id, outbox[position].sequence, outbox[position].isRepeated
        )
        guard let payload = outbox[position].payload else {
            return actions.append(.transmit(connection, nil, SessionFrame.skip(sequence).payload))
        }
        if handedTo != connection {
            handedTo = connection
            unsettled = 0
            isCompletedByNext = completesSends
        }
        unsettled += 1
        switch style {
        case .plain where isRepeated: actions.append(.complete(connection, id, payload, orSend: false))
        case .plain: actions.append(.transmit(connection, id, payload))
        case .session: actions.append(.transmit(connection, id, SessionFrame.message(sequence, payload).payload))
        case .origin:
            let frame = SessionFrame.origin(identity, id.number, payload).payload
            // The receiver drops a message that arrives twice.
            guard isRepeated, completesSends else { return actions.append(.transmit(connection, id, frame)) }
            actions.append(.complete(connection, id, frame, orSend: true))
        }
    }

    /// Hands the message at `position` to the connection again.
    private mutating func transmitAgain(_ position: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        outbox.handAgain(position, to: connection, at: now)
        transmit(position, &actions)
    }

    private func tooLargeForOutbox(_ size: Int) -> TransportError {
        let sentence =
            "the message is larger than the whole outbox: it has \(size) bytes, and outbox.bytes is \(outbox.maximumBytes)"
        return TransportError(.messageTooLarge, .open, "\(sentence); raise outbox.bytes, or send a smaller message")
    }

    mutating func admitWaiting(_ actions: inout [SupervisorAction]) {
        while let next = waiting.first, outbox.hasRoom(for: next.payload.bytes.count) || outbox.isEmpty {
            _ = removeWaiting(at: 0)
            switch outbox.append(next.id, next.payload, expiry: next.expiry) {
            case .accepted, .acceptedInPlaceOf: actions.append(.accepted(next.id))
            case .full, .tooLarge:
                actions.append(.finish(next.id, .rejected(tooLargeForOutbox(next.payload.bytes.count))))
            }
        }
    }
}

extension TransportError {
    static let outboxFull = TransportError(
        .bufferFull,
        .open,
        "the outbox is full: send more slowly, or raise outbox.count and outbox.bytes"
    )

    /// The error of a message that is larger than the peer of the session accepts.
    static func tooLargeForPeer(_ size: Int, _ limit: Int) -> TransportError {
        let sentence =
            "the message has \(size) bytes, but the peer accepts at most \(limit) in a message of the session"
        return TransportError(.messageTooLarge, .open, "\(sentence): raise its max-message, or send a smaller one")
    }
}

// How messages end.

extension Delivery {
    /// Takes the outcome of a message that the connection was handed.
    package mutating func settled(
        _ id: MessageID,
        on connection: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let position = outbox.position(of: id)
        if let position { outbox.noteSettled(position, by: connection, outcome) }
        if let endError { return settledAfterEnd(position, outcome, endError, &actions) }
        guard connection == handedTo else { return }
        unsettled -= 1
        if outcome == .acknowledged { blame.acknowledged() }
        if let position, position < outbox.sentCount {
            switch (style, outcome) {
            case (.session, .rejected(let error)) where error.refusesMessage:
                // The message may have left over an earlier connection.
                giveUp(position, outbox[position].isUnsent ? outcome : .unknown(error), at: now, &actions)
            case (.session, _):
                // Only the peer's acknowledgement counts, whether the message was written or not.
                break
            case (_, .rejected(let error)) where !error.refusesMessage:
                // The connection has ended, and no part of the message has left, unless over an earlier connection. The
                // message waits for the next connection, unless its caller has an outcome already.
                if outbox[position].isReported, outbox[position].isUnsent { outbox.remove(at: position) }
                isHolding = true
            case (_, .unknown(let error)) where isCompletedByNext && error.code != .notFound:
                // The connection has ended. The next one completes the message, even if its caller has an outcome
                // already.
                isHolding = true
            case (.origin, .unknown):
                // The connection has ended, for any reason. The receiver drops the message if it arrives twice.
                isHolding = true
            default:
                let removed = outbox.remove(at: position)
                if removed.isRepeated { forget(id, &actions) }
                removed.finish(outcome, &actions)
            }
        }
        if isHolding, unsettled == 0, self.connection != handedTo { takeBack() }
        flush(at: now, &actions)
    }

    /// The peer has received all messages up to `sequence`.
    package mutating func acknowledge(
        through sequence: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard sequence <= lastSequence else { throw .envelope("an acknowledgement of a message that was never sent") }
        guard sequence > acknowledged else {
            if sequence == acknowledged { prompted(at: now, &actions) }
            return
        }
        let count = Int(clamping: sequence - acknowledged)
        acknowledged = sequence
        blame.acknowledged()
        var (sample, hasRepeated): (Duration?, Bool) = (nil, false)
        while !outbox.isEmpty, outbox[0].sequence != 0, outbox[0].sequence <= sequence {
            hasRepeated = hasRepeated || outbox[0].isRepeated
            sample = outbox[0].sentAt.duration(to: now)
            outbox.remove(at: 0).finish(.acknowledged, &actions)
        }
        // A message that was sent twice gives no sample of the round trip (Karn's rule), and neither does one after it,
        // which may have arrived long ago and waited for it.
        if hasRepeated { sample = nil }
        // Acknowledgements in the welcome of a new connection have waited for that connection, so they give no sample.
        if connection != 0 {
            if let sample { roundTrip.measured(sample) } else { roundTrip.answered() }
            recover(count, at: now, &actions)
        }
        rearmRetransmission(at: now)
        flush(at: now, &actions)
    }

    /// The peer does not know the session. Unacknowledged messages are sent again, numbered from one.
    package mutating func renumber() {
        receiveFromStart()
        blame.forgotten()
        outbox.forgetSequences()
        lastSequence = 0
        acknowledged = 0
        recovery = nil
    }

    /// Cancels a message for its caller. A message that may have left already is still sent, but its caller gets the
    /// outcome `.unknown` now.
    package mutating func cancel(_ id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            _ = removeWaiting(at: index)
        } else if let position = outbox.position(of: id), outbox[position].payload != nil, !outbox[position].isReported
        {
            guard outbox[position].isUnsent else {
                outbox.noteReported(position)
                return actions.append(.finish(id, .unknown(.cancelledSend)))
            }
            guard outbox[position].isRemovable else {
                giveUp(position, .rejected(.cancelledSend), at: now, &actions)
                return flush(at: now, &actions)
            }
            outbox.remove(at: position)
        } else {
            return
        }
        actions.append(.finish(id, .rejected(.cancelledSend)))
        flush(at: now, &actions)
    }

    /// Ends all messages, because the supervisor or the session is over. Those that a connection has not settled end
    /// when it does.
    package mutating func finishAll(_ error: TransportError, _ actions: inout [SupervisorAction]) {
        endError = error
        takeBack()
        var position = 0
        while position < outbox.count {
            guard outbox[position].handedTo == 0 else {
                position += 1
                continue
            }
            let removed = outbox.remove(at: position)
            removed.finish(removed.isUnsent ? .rejected(error) : .unknown(error), &actions)
        }
        for message in waiting { actions.append(.finish(message.id, .rejected(error))) }
        (waiting, waitingBytes) = ([], 0)
        retransmission = nil
    }

    /// Ends a message that was handed to a connection when the supervisor or the session ended.
    private mutating func settledAfterEnd(
        _ position: Int?,
        _ outcome: SendOutcome,
        _ error: TransportError,
        _ actions: inout [SupervisorAction]
    ) {
        guard let position, outbox[position].handedTo == 0 else { return }
        let removed = outbox.remove(at: position)
        switch outcome {
        case .rejected where !removed.isUnsent: removed.finish(.unknown(error), &actions)
        case .rejected(let own) where !own.refusesMessage: removed.finish(.rejected(error), &actions)
        case .rejected, .expired: removed.finish(outcome, &actions)
        // In a session, only the peer's acknowledgement counts, and none can come any more.
        case .acknowledged where style != .session, .written where style == .plain: removed.finish(outcome, &actions)
        case .acknowledged, .written, .unknown: removed.finish(.unknown(error), &actions)
        }
    }

    /// Whether all messages have ended after ``finishAll(_:_:)``.
    var hasFinishedAll: Bool { endError != nil && outbox.isEmpty }

    // MARK: Time

    /// The time at which ``deadlineReached(at:_:)`` must be called.
    package var deadline: Instant? {
        let reminder = unprocessed?.reminder(every: configuration.acknowledgementReminder)
        let own = earlier(reminder, connection == 0 ? nil : retransmission)
        guard age != nil, !outbox.isEmpty || !waiting.isEmpty else { return own }
        return earlier(own, earlier(outbox.nextExpiry, waiting.first?.expiry ?? nil))
    }

    /// Ends messages that are too old, and sends lost messages again.
    package mutating func deadlineReached(at now: Instant, _ actions: inout [SupervisorAction]) {
        while let message = waiting.first, let expiry = message.expiry, expiry <= now {
            _ = removeWaiting(at: 0)
            actions.append(.finish(message.id, .expired))
        }
        var position = 0
        while position < outbox.count, let expiry = outbox[position].expiry, expiry <= now {
            if outbox[position].payload == nil {
                position += 1
            } else if outbox[position].isRemovable {
                outbox.remove(at: position).finish(.expired, &actions)
            } else {
                let outcome = outbox[position].isUnsent ? SendOutcome.expired : .unknown(.acknowledgementMissing)
                giveUp(position, outcome, at: now, &actions)
                if position < outbox.count, outbox[position].payload == nil { position += 1 }
            }
        }
        if let retransmission, retransmission <= now, connection != 0 { retransmit(at: now, &actions) }
        if let held = unprocessed?.remind(at: now, every: configuration.acknowledgementReminder) {
            actions.append(.note(.unacknowledged(held)))
        }
        flush(at: now, &actions)
    }

    /// Ends a message that may have been sent. In a session its number must still be skipped.
    private mutating func giveUp(
        _ position: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard style == .session else {
            let removed = outbox.remove(at: position)
            forget(removed.id, &actions)
            return removed.finish(outcome, &actions)
        }
        if outbox[position].isAwaited { actions.append(.finish(outbox[position].id, outcome)) }
        outbox.giveUp(position)
        if connection != 0, position < outbox.sentCount { transmitAgain(position, at: now, &actions) }
    }

    /// Lets no transport complete a message that has ended otherwise.
    private func forget(_ id: MessageID, _ actions: inout [SupervisorAction]) {
        if leavesMessages { actions.append(.forget(id)) }
    }

    private mutating func retransmit(at now: Instant, _ actions: inout [SupervisorAction]) {
        roundTrip.timedOut()
        retransmission = now.advanced(by: roundTrip.timeout)
        // The peer keeps early messages, so it most likely lacks the oldest few.
        guard outbox.sentCount > 0 else { return }
        recovery = (lastSequence, acknowledged, isPrompted: false)
        sendAgain(8, at: now, &actions)
    }

    /// The peer has acknowledged nothing new. So it lacks the oldest message in flight, which was lost or overtaken, or
    /// which it has dropped because it had no room. It may have room now, so the message is sent again without waiting
    /// for the timer: once, until the timer fires or a message is acknowledged.
    private mutating func prompted(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard isLossy, style == .session, connection != 0, recovery?.isPrompted != true else { return }
        recovery = (lastSequence, acknowledged, isPrompted: true)
        sendAgain(1, at: now, &actions)
    }

    /// An acknowledgement has arrived for messages that were sent again, so the rest can arrive too. For each
    /// acknowledged message two are sent, without waiting for the timer (the slow start after a timeout of RFC 5681,
    /// section 3.1).
    private mutating func recover(_ count: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        guard acknowledged < recovery.end else { return self.recovery = nil }
        self.recovery = (recovery.end, max(acknowledged, recovery.sentAgain), isPrompted: false)
        sendAgain(2 * min(count, 32), at: now, &actions)
    }

    private mutating func sendAgain(_ most: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        // Messages in flight have consecutive numbers that start after the last acknowledged one.
        let first = Int(clamping: recovery.sentAgain - acknowledged)
        var position = first
        while position < min(first + most, outbox.sentCount), outbox[position].sequence <= recovery.end {
            transmitAgain(position, at: now, &actions)
            position += 1
        }
        self.recovery?.sentAgain += UInt64(max(0, position - first))
    }

    private mutating func rearmRetransmission(at now: Instant) {
        guard isLossy, style == .session else { return }
        retransmission = outbox.sentCount > 0 ? now.advanced(by: roundTrip.timeout) : nil
    }
}

extension TransportError {
    static let tooMuchEarly = TransportError(
        .resourcesExhausted,
        .open,
        "more early messages arrived than the message buffer holds"
    )
    static let cancelledSend = TransportError(.cancelled, .open, "the task that sent the message was cancelled")
    static let acknowledgementMissing = TransportError(
        .acknowledgementTimeout,
        .open,
        "the message expired before the peer acknowledged it"
    )
}

// MARK: Frames

extension Delivery {
    /// Takes a frame of an open session that concerns messages.
    package mutating func take(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        let verdict: SessionReceiver.Verdict
        switch frame {
        case .message(let sequence, let payload):
            try checkWindow(sequence)
            if let key = unprocessed?.giveAgain(sequence, at: now) {
                return actions.append(.deliverUnprocessed(key, payload))
            }
            // There is no room, and the peer repeats the message.
            if isLossy, !isTaking, sequence > receiver.received { return owesAcknowledgement = true }
            verdict = try receive(sequence, payload, at: now, &actions)
        case .skip(let sequence): verdict = try receive(sequence, nil, at: now, &actions)
        case .acknowledge(let sequence): return try acknowledge(through: sequence, at: now, &actions)
        default: return
        }
        switch verdict {
        case .new: break
        case .duplicate: actions.append(.note(.duplicate))
        // A connection that loses messages brings the message again.
        case .noRoom where isLossy: return
        // A reliable connection does not. The next connection brings all messages again, in order.
        case .noRoom: throw .tooMuchEarly
        }
        // Messages that the app has not processed are acknowledged later.
        if verdict == .new, unprocessed != nil, processed <= lastConfirmed { return }
        acknowledge(&actions)
    }

    private mutating func receive(
        _ sequence: UInt64,
        _ payload: Payload?,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) -> SessionReceiver.Verdict {
        guard unprocessed != nil else {
            return try receiver.receive(sequence, payload) { actions.append(.deliver($1)) }
        }
        var given: [(sequence: UInt64, payload: Payload)] = []
        let verdict = try receiver.receive(sequence, payload) { given.append(($0, $1)) }
        for message in given { give(message.payload, sequence: message.sequence, at: now, &actions) }
        return verdict
    }
}
