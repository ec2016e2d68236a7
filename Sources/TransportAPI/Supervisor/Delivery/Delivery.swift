/// Both halves of one conversation, whichever connection carries it now: what is to be sent and is not acknowledged
/// yet, and what has been received.
package struct Delivery: Sendable {
    /// What the present connection asks for.
    package enum Style: Sendable, Hashable {
        /// Payloads as they are.
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
    /// Bytes of their payloads.
    package internal(set) var waitingBytes = 0
    package internal(set) var receiver: SessionReceiver
    private let earlyLimit: Int
    /// Frames of a connection without an order that have overtaken the welcome, and how much memory they take.
    private var overtaking: (frames: [SessionFrame], bytes: Int) = ([], 0)
    /// `nil` until a message has come from another client of a broker.
    var origins: OriginFilter?
    /// What the app was given and has not processed; `nil` while messages are acknowledged as soon as they are received.
    package internal(set) var unprocessed: UnprocessedMessages?
    /// Of messages from other clients of a broker: those that the app was given over the present connection, and over
    /// the one before.
    private var givenMarks: Set<OriginFilter.Mark> = []
    private var lateMarks: [UInt64: OriginFilter.Mark] = [:]
    /// Whether the app takes what is received. While it does not, nothing is acknowledged, so that the peer's
    /// window bounds what comes; yet it is read, because what the peer acknowledges comes in between.
    private(set) var isTaking = true
    private var owesAcknowledgement = false
    /// What the peer was told to have been received.
    private(set) var told: UInt64 = 0
    /// Who this side is, to other clients of a broker.
    let identity: SessionID
    /// The sequence number given out last.
    var lastSequence: UInt64 = 0
    /// What the peer has acknowledged.
    var acknowledged: UInt64 = 0
    /// The connection that may be used now; 0 if there is none.
    package internal(set) var connection = 0
    package internal(set) var style = Style.plain
    /// Whether the connection loses messages, so that they must be sent again on it.
    var isLossy = false
    /// Whether the connection completes what one before it has left (``Capabilities/completesSends``).
    var completesSends = false
    /// The connection that messages were handed to last, how many of them it has not settled, and whether the next one
    /// completes those.
    var handedTo = 0
    var unsettled = 0
    var isCompletedByNext = false
    /// The connection gave a message back or has ended: nothing more is handed over until it has settled all.
    var isHolding = false
    /// When the oldest messages under way are sent again.
    var retransmission: Instant?
    package internal(set) var roundTrip = RoundTripTime()
    /// Since the timer rang: the last message that was under way then, and how far they have been sent again.
    var recovery: (end: UInt64, sentAgain: UInt64)?

    package init(_ configuration: SupervisorConfiguration, identity: SessionID) {
        self.configuration = configuration.delivery
        age = configuration.outbox.maximumAge
        policy = configuration.outbox.whenFull
        waitingLimit = configuration.outbox.maximumCount
        outbox = Outbox(configuration.outbox)
        earlyLimit = configuration.messageBufferBytes
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        self.identity = identity
    }

    /// The style that a connection of these capabilities asks for.
    package static func style(_ configuration: DeliveryConfiguration, _ capabilities: Capabilities) -> Style {
        guard configuration.mode == .session else { return .plain }
        return capabilities.acknowledgesMessages || capabilities.routesByTopic ? .origin : .session
    }

    // MARK: The connection

    /// Messages may flow over `connection` from now on.
    package mutating func attach(_ connection: Int, _ capabilities: Capabilities) {
        self.connection = connection
        let former = style
        style = Self.style(configuration, capabilities)
        // What came over a connection of a session is not acknowledged over one of another style.
        if former == .session, style != .session { forgetUnprocessed() }
        isLossy = !capabilities.isReliable
        completesSends = capabilities.completesSends
        retransmission = nil
        recovery = nil
        roundTrip.answered()
    }

    /// Keeps a frame that has come before the welcome.
    ///
    /// - Throws: `.resourcesExhausted` if there is no room; the next connection brings the message again.
    mutating func keepOvertaking(_ frame: SessionFrame) throws(TransportError) {
        var size = Payload.bookkeeping
        if case .message(_, let payload) = frame { size = payload.bufferedBytes }
        guard overtaking.frames.count < SessionReceiver.window, size <= earlyLimit - overtaking.bytes else {
            throw .tooMuchEarly
        }
        overtaking.frames.append(frame)
        overtaking.bytes += size
    }

    /// A new connection is there: what came over the one before does not count for it.
    mutating func forgetOvertaking() {
        overtaking = ([], 0)
    }

    /// Takes the frames that have overtaken the welcome.
    mutating func takeOvertaking(at now: Instant, _ actions: inout [SupervisorAction]) throws(TransportError) {
        let frames = overtaking.frames
        forgetOvertaking()
        for frame in frames { try take(frame, at: now, &actions) }
    }

    /// The app takes what is received, or does not for now.
    package mutating func taking(_ isTaking: Bool, _ actions: inout [SupervisorAction]) {
        self.isTaking = isTaking
        if owesAcknowledgement { acknowledge(&actions) }
    }

    /// What is to be said of what was received, in a greeting.
    mutating func tellReceived() -> UInt64 {
        told = processed
        owesAcknowledgement = false
        return told
    }

    /// Tells the peer what has been received, now or when the app takes more.
    mutating func acknowledge(_ actions: inout [SupervisorAction]) {
        owesAcknowledgement = !isTaking
        guard isTaking, connection != 0, style == .session else { return }
        actions.append(.transmit(connection, nil, SessionFrame.acknowledge(tellReceived()).payload))
    }

    /// - Throws: `.protocolViolation` if a message of this number can't come yet: no window is so large.
    func checkWindow(_ sequence: UInt64) throws(TransportError) {
        guard sequence <= told || sequence - told <= SessionReceiver.window else {
            throw .envelope("more messages came than a window holds without an acknowledgement")
        }
    }

    /// How much memory all messages that it holds take, in bytes.
    package var bufferedBytes: Int {
        outbox.bytes + waitingBytes + (outbox.count + waiting.count) * 2 * Payload.bookkeeping + receiver.earlyBytes
            + overtaking.bytes
    }

    /// The payloads of all messages that were submitted and not settled, the oldest first.
    var pendingPayloads: [Payload] { outbox.payloads + waiting.map(\.payload) }

    // MARK: Acknowledgement after processing

    /// The app acknowledges each message from now on, once it has processed it.
    package mutating func acknowledgeAfterProcessing() {
        if unprocessed == nil { unprocessed = UnprocessedMessages() }
    }

    /// Up to which number all messages of the session were received and, where the app acknowledges them, processed.
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

    /// Whether a message of another client of a broker has come before; if not, it is given to the app.
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
        // One that the app still processes is acknowledged before this one, because it came over the same connection.
        guard !filter.contains(mark), !givenMarks.contains(mark) else {
            actions.append(.note(.duplicate))
            return leaveOut(at: now, &actions)
        }
        if unprocessed == nil { filter.insert(mark) }
        give(payload, mark: mark, at: now, &actions)
    }

    /// A message that came over the connection is none for the app.
    mutating func leaveOut(at now: Instant, _ actions: inout [SupervisorAction]) {
        // In a session it has no number, so that nothing is to be acknowledged.
        guard style != .session, let released = unprocessed?.addProcessed(at: now) else { return }
        confirm(released, &actions)
    }

    /// The app has processed the message of this key, or has let go of it without doing so.
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
            if processed > told { acknowledge(&actions) }
        } else {
            confirm(released, &actions)
        }
    }

    private func confirm(_ count: Int, _ actions: inout [SupervisorAction]) {
        if count > 0, connection != 0, style != .session { actions.append(.confirm(connection: connection, count)) }
    }

    /// The connection has ended, over which what was not acknowledged would have been: the next one brings it again.
    private mutating func forgetUnprocessed() {
        guard let marks = unprocessed?.removeAll() else { return }
        lateMarks = marks
        givenMarks = []
    }

    /// The peer counts from one again.
    mutating func receiveAnew() {
        unprocessed?.removeAll()
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        (told, owesAcknowledgement) = (0, false)
    }

    /// The connection has ended. What was under way in a session will be sent again; otherwise the connection says of
    /// each message what became of it, and until then nothing may overtake it.
    package mutating func detach() {
        connection = 0
        retransmission = nil
        receiver.forgetEarly()
        if style != .session { forgetUnprocessed() }
        if style == .session || unsettled == 0 { takeBack() } else { isHolding = true }
    }

    mutating func takeBack() {
        outbox.takeBackAll()
        isHolding = false
        handedTo = 0
        unsettled = 0
    }

    // MARK: Sending

    /// Takes a message into the outbox, or says why not.
    package mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let expiry = age.map { now.advanced(by: $0) }
        guard waiting.isEmpty else { return wait(id, payload, expiry, &actions) }
        switch outbox.append(id, payload, expiry: expiry) {
        case .accepted: actions.append(.accepted(id))
        case .acceptedInPlaceOf(let oldest):
            actions.append(.accepted(id))
            actions.append(.finish(oldest, .rejected(.outboxFull)))
        case .full: wait(id, payload, expiry, &actions)
        case .tooLarge: actions.append(.finish(id, .rejected(.outboxTooSmall)))
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
        guard size <= outbox.maximumBytes else { return actions.append(.finish(id, .rejected(.outboxTooSmall))) }
        guard policy == .wait, waiting.count < waitingLimit, size <= outbox.maximumBytes - waitingBytes else {
            return actions.append(.finish(id, .rejected(.outboxFull)))
        }
        waiting.append((id, payload, expiry))
        waitingBytes += size
    }

    /// Takes out a message that waits for room.
    mutating func removeWaiting(at index: Int) -> (id: MessageID, payload: Payload, expiry: Instant?) {
        let message = waiting.remove(at: index)
        waitingBytes -= message.payload.bytes.count
        return message
    }

    /// Hands over to the connection what the window allows.
    package mutating func flush(at now: Instant, _ actions: inout [SupervisorAction]) {
        admitWaiting(&actions)
        while connection != 0, !isHolding, outbox.sentCount < configuration.window,
            let entry = outbox.takeNext(at: now, sequence: style == .session ? lastSequence + 1 : 0)
        {
            lastSequence = max(lastSequence, entry.sequence)
            transmit(entry, &actions)
            if isLossy, style == .session, retransmission == nil {
                retransmission = now.advanced(by: roundTrip.timeout)
            }
        }
    }

    /// Hands a message to the connection, or word that it was given up.
    mutating func transmit(_ entry: Outbox.Entry, _ actions: inout [SupervisorAction]) {
        guard let payload = entry.payload else {
            return actions.append(.transmit(connection, nil, SessionFrame.skip(entry.sequence).payload))
        }
        if handedTo != connection {
            handedTo = connection
            unsettled = 0
            isCompletedByNext = completesSends
        }
        unsettled += 1
        switch style {
        case .plain where entry.isRepeated: actions.append(.complete(connection, entry.id, payload, orSend: false))
        case .plain: actions.append(.transmit(connection, entry.id, payload))
        case .session:
            actions.append(.transmit(connection, entry.id, SessionFrame.message(entry.sequence, payload).payload))
        case .origin:
            let frame = SessionFrame.origin(identity, entry.id.number, payload).payload
            // The receiver drops what comes twice.
            guard entry.isRepeated, completesSends else {
                return actions.append(.transmit(connection, entry.id, frame))
            }
            actions.append(.complete(connection, entry.id, frame, orSend: true))
        }
    }

    mutating func admitWaiting(_ actions: inout [SupervisorAction]) {
        while let next = waiting.first, outbox.hasRoom(for: next.payload.bytes.count) || outbox.isEmpty {
            _ = removeWaiting(at: 0)
            switch outbox.append(next.id, next.payload, expiry: next.expiry) {
            case .accepted, .acceptedInPlaceOf: actions.append(.accepted(next.id))
            case .full, .tooLarge: actions.append(.finish(next.id, .rejected(.outboxTooSmall)))
            }
        }
    }
}

extension TransportError {
    static let outboxFull = TransportError(.bufferFull, .open, "the outbox is full")
    static let outboxTooSmall = TransportError(.messageTooLarge, .open, "the message is larger than the whole outbox")
}

// How messages end.

extension Delivery {
    /// The connection has said what became of a message that it was handed.
    package mutating func settled(
        _ id: MessageID,
        on connection: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == handedTo else { return }
        unsettled -= 1
        if let position = outbox.position(of: id), position < outbox.sentCount {
            switch (style, outcome) {
            case (.session, .rejected(let error)) where error.isFinal:
                // On a connection before it may have left.
                let isUnknown = outbox[position].isRepeated
                giveUp(position, isUnknown ? .unknown(error) : outcome, at: now, &actions)
            case (.session, _):
                // Written or not, the peer's acknowledgement is what counts.
                break
            case (_, .rejected(let error)) where !error.isFinal:
                // The connection has ended under it, and nothing of it has left, unless on a connection before. It
                // waits for the next one, if anybody waits for it.
                outbox[position].mayHaveLeft = outbox[position].isRepeated
                if outbox[position].isTold, !outbox[position].mayHaveLeft { outbox.remove(at: position) }
                isHolding = true
            case (_, .unknown(let error)) where isCompletedByNext && error.code != .notFound:
                // The connection has ended, and the next one completes the message, also one that no caller waits for.
                isHolding = true
            case (.origin, .unknown):
                // The connection has ended, whatever it ended by. The receiver drops the message if it comes twice.
                isHolding = true
            default:
                // Not within the call, which would copy all of this value first.
                let entry = outbox.remove(at: position)
                finish(entry, outcome, &actions)
            }
        }
        if isHolding, unsettled == 0, self.connection != handedTo { takeBack() }
        flush(at: now, &actions)
    }

    /// The peer has received everything up to `sequence`.
    package mutating func acknowledge(
        through sequence: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard sequence <= lastSequence else { throw .envelope("an acknowledgement of what was never sent") }
        guard sequence > acknowledged else { return }
        let count = Int(clamping: sequence - acknowledged)
        acknowledged = sequence
        var sample: Duration?
        while let entry = outbox.first, entry.sequence != 0, entry.sequence <= sequence {
            outbox.remove(at: 0)
            // Karn: what was sent twice says nothing about the round trip.
            sample = entry.isRepeated ? nil : entry.sentAt.duration(to: now)
            finish(entry, .acknowledged, &actions)
        }
        // What a new connection's greeting acknowledges has waited for that connection.
        if connection != 0 {
            if let sample { roundTrip.measured(sample) } else { roundTrip.answered() }
            recover(count, at: now, &actions)
        }
        rearmRetransmission(at: now)
        flush(at: now, &actions)
    }

    /// The peer knows nothing of the session: what it has not acknowledged is sent again, counted from one.
    package mutating func renumber() {
        receiveAnew()
        outbox.forgetSequences()
        lastSequence = 0
        acknowledged = 0
        recovery = nil
    }

    /// The caller does not want the message sent any more. One that may have left already goes on being sent, but nobody waits
    /// for it.
    package mutating func cancel(_ id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            _ = removeWaiting(at: index)
        } else if let position = outbox.position(of: id), outbox[position].payload != nil, !outbox[position].isTold {
            guard !outbox[position].mayHaveLeft else {
                outbox[position].isTold = true
                return actions.append(.finish(id, .unknown(.cancelledSend)))
            }
            outbox.remove(at: position)
        } else {
            return
        }
        actions.append(.finish(id, .rejected(.cancelledSend)))
        flush(at: now, &actions)
    }

    /// Ends all messages, for a supervisor that has closed.
    package mutating func finishAll(_ error: TransportError, _ actions: inout [SupervisorAction]) {
        while let entry = outbox.first {
            outbox.remove(at: 0)
            finish(entry, entry.mayHaveLeft ? .unknown(error) : .rejected(error), &actions)
        }
        for message in waiting { actions.append(.finish(message.id, .rejected(error))) }
        (waiting, waitingBytes) = ([], 0)
        retransmission = nil
    }

    // MARK: Time

    /// When ``deadlineReached(at:_:)`` wants to be called.
    package var deadline: Instant? {
        let reminder = unprocessed?.reminder(every: configuration.acknowledgementReminder)
        let own = earlier(reminder, connection == 0 ? nil : retransmission)
        guard age != nil, !outbox.isEmpty || !waiting.isEmpty else { return own }
        // Those without a payload have ended already; they are few, and first.
        let oldest = (0..<outbox.count).first { outbox[$0].payload != nil }.map { outbox[$0].expiry } ?? nil
        return earlier(own, earlier(oldest, waiting.first?.expiry ?? nil))
    }

    /// Ends what has grown too old, and sends again what was lost.
    package mutating func deadlineReached(at now: Instant, _ actions: inout [SupervisorAction]) {
        while let message = waiting.first, let expiry = message.expiry, expiry <= now {
            _ = removeWaiting(at: 0)
            actions.append(.finish(message.id, .expired))
        }
        var position = 0
        while position < outbox.count, let expiry = outbox[position].expiry, expiry <= now {
            if outbox[position].payload == nil {
                position += 1
            } else if !outbox[position].mayHaveLeft && outbox[position].sequence == 0 {
                let entry = outbox.remove(at: position)
                finish(entry, .expired, &actions)
            } else {
                giveUp(position, .unknown(.acknowledgementMissing), at: now, &actions)
                if position < outbox.count, outbox[position].payload == nil { position += 1 }
            }
        }
        if let retransmission, retransmission <= now, connection != 0 { retransmit(at: now, &actions) }
        if let held = unprocessed?.remind(at: now, every: configuration.acknowledgementReminder) {
            actions.append(.note(.unacknowledged(held)))
        }
        flush(at: now, &actions)
    }

    /// Ends a message that has been sent. In a session its number must still be accounted for.
    private mutating func giveUp(
        _ position: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let entry = outbox[position]
        guard style == .session else {
            outbox.remove(at: position)
            return finish(entry, outcome, &actions)
        }
        finish(entry, outcome, &actions)
        outbox[position].payload = nil
        if connection != 0, position < outbox.sentCount {
            transmit(outbox[position], &actions)
        }
    }

    private mutating func retransmit(at now: Instant, _ actions: inout [SupervisorAction]) {
        roundTrip.timedOut()
        retransmission = now.advanced(by: roundTrip.timeout)
        // The peer keeps what came early, so the oldest few are what it most likely misses.
        guard outbox.sentCount > 0 else { return }
        recovery = (lastSequence, acknowledged)
        sendAgain(8, at: now, &actions)
    }

    /// Some of what was sent again has arrived, so the rest will too: for each message two go out, without waiting for
    /// the timer (the slow start after a timeout of RFC 5681, section 3.1).
    private mutating func recover(_ count: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        guard acknowledged < recovery.end else { return self.recovery = nil }
        self.recovery?.sentAgain = max(acknowledged, recovery.sentAgain)
        sendAgain(2 * min(count, 32), at: now, &actions)
    }

    private mutating func sendAgain(_ most: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        // Those under way bear the numbers behind what is acknowledged, in a row.
        let first = Int(clamping: recovery.sentAgain - acknowledged)
        var position = first
        while position < min(first + most, outbox.sentCount), outbox[position].sequence <= recovery.end {
            transmit(outbox.noteSending(position, at: now), &actions)
            position += 1
        }
        self.recovery?.sentAgain += UInt64(max(0, position - first))
    }

    private mutating func rearmRetransmission(at now: Instant) {
        guard isLossy, style == .session else { return }
        retransmission = outbox.sentCount > 0 ? now.advanced(by: roundTrip.timeout) : nil
    }

    private func finish(_ entry: Outbox.Entry, _ outcome: SendOutcome, _ actions: inout [SupervisorAction]) {
        // One without a payload has been told already.
        if entry.payload != nil, !entry.isTold { actions.append(.finish(entry.id, outcome)) }
    }
}

extension TransportError {
    /// Whether another connection would not take the message either.
    var isFinal: Bool {
        // What ended the connection says nothing of the message that came too late for it.
        guard phase != .closing else { return false }
        return fault == .local && code != .closedByUser && !isRetryable || code == .invalidText && detail == nil
    }

    static let tooMuchEarly = TransportError(
        .resourcesExhausted,
        .open,
        "more came before its turn than the message buffer holds"
    )
    static let cancelledSend = TransportError(.cancelled, .open, "the task that sent the message was cancelled")
    static let acknowledgementMissing = TransportError(
        .acknowledgementTimeout,
        .open,
        "the message grew too old before the peer acknowledged it"
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
            verdict = try receive(sequence, payload, at: now, &actions)
        case .skip(let sequence): verdict = try receive(sequence, nil, at: now, &actions)
        case .acknowledge(let sequence): return try acknowledge(through: sequence, at: now, &actions)
        default: return
        }
        switch verdict {
        case .new: break
        case .duplicate: actions.append(.note(.duplicate))
        // Over a connection that loses messages it is sent again.
        case .noRoom where isLossy: return
        // Over another one it is not: the next connection brings all of it, in its order.
        case .noRoom: throw .tooMuchEarly
        }
        // What the app still has to process is acknowledged later.
        if verdict == .new, unprocessed != nil, processed <= told { return }
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
