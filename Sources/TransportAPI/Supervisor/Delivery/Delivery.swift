/// Both halves of one conversation, whichever link carries it now: what is to be sent and is not acknowledged yet, and what
/// has been received.
package struct Delivery: Sendable {
    /// What the present link asks for.
    package enum Style: Sendable, Hashable {
        /// Payloads as they are.
        case plain
        /// Each payload in an envelope, acknowledged by the far side's supervisor.
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
    /// `nil` until a message has come from another client of a broker.
    var origins: OriginFilter?
    /// Whether the app takes what is received. While it does not, nothing is acknowledged, so that the far side's window bounds what
    /// comes; yet it is read, because what the far side acknowledges comes in between.
    private(set) var isTaking = true
    private var owesAcknowledgement = false
    /// What the far side was told to have been received.
    private var told: UInt64 = 0
    /// Who this side is, to other clients of a broker.
    let identity: SessionID
    /// The sequence number given out last.
    var lastSequence: UInt64 = 0
    /// What the far side has acknowledged.
    var acknowledged: UInt64 = 0
    /// The link that may be used now; 0 if there is none.
    package internal(set) var link = 0
    package internal(set) var style = Style.plain
    /// Whether the link loses messages, so that they must be sent again on it.
    var isLossy = false
    /// Whether the link completes what one before it has left (``Capabilities/completesSends``).
    var completesSends = false
    /// The link that messages were handed to last, how many of them it has not settled, and whether the next one completes those.
    var handedTo = 0
    var unsettled = 0
    var isCompletedByNext = false
    /// The link gave a message back or has ended: nothing more is handed over until it has settled all.
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

    /// The style that a link of these capabilities asks for.
    package static func style(_ configuration: DeliveryConfiguration, _ capabilities: Capabilities) -> Style {
        guard configuration.mode == .session else { return .plain }
        return capabilities.acknowledgesMessages || capabilities.routesByTopic ? .origin : .session
    }

    // MARK: The link

    /// Messages may flow over `link` from now on.
    package mutating func attach(_ link: Int, _ capabilities: Capabilities) {
        self.link = link
        style = Self.style(configuration, capabilities)
        isLossy = !capabilities.isReliable
        completesSends = capabilities.completesSends
        retransmission = nil
        recovery = nil
        roundTrip.answered()
    }

    /// The app takes what is received, or does not for now.
    package mutating func taking(_ isTaking: Bool, _ actions: inout [SupervisorAction]) {
        self.isTaking = isTaking
        if owesAcknowledgement { acknowledge(&actions) }
    }

    /// What is to be said of what was received, in a greeting.
    mutating func tellReceived() -> UInt64 {
        told = receiver.received
        owesAcknowledgement = false
        return told
    }

    /// Tells the far side what has been received, now or when the app takes more.
    mutating func acknowledge(_ actions: inout [SupervisorAction]) {
        owesAcknowledgement = !isTaking
        guard isTaking, link != 0, style == .session else { return }
        actions.append(.transmit(link, nil, SessionFrame.acknowledge(tellReceived()).payload))
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
    }

    /// The far side counts from one again.
    mutating func receiveAnew() {
        receiver = SessionReceiver(earlyLimit: earlyLimit)
        (told, owesAcknowledgement) = (0, false)
    }

    /// The link has ended. What was under way in a session will be sent again; otherwise the link says of each message what
    /// became of it, and until then nothing may overtake it.
    package mutating func detach() {
        link = 0
        retransmission = nil
        receiver.forgetEarly()
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

    /// Hands over to the link what the window allows.
    package mutating func flush(at now: Instant, _ actions: inout [SupervisorAction]) {
        admitWaiting(&actions)
        while link != 0, !isHolding, outbox.sentCount < configuration.window,
            let entry = outbox.takeNext(at: now, sequence: style == .session ? lastSequence + 1 : 0)
        {
            lastSequence = max(lastSequence, entry.sequence)
            transmit(entry, &actions)
            if isLossy, style == .session, retransmission == nil {
                retransmission = now.advanced(by: roundTrip.timeout)
            }
        }
    }

    /// Hands a message to the link, or word that it was given up.
    mutating func transmit(_ entry: Outbox.Entry, _ actions: inout [SupervisorAction]) {
        guard let payload = entry.payload else {
            return actions.append(.transmit(link, nil, SessionFrame.skip(entry.sequence).payload))
        }
        if handedTo != link {
            handedTo = link
            unsettled = 0
            isCompletedByNext = completesSends
        }
        unsettled += 1
        switch style {
        case .plain where entry.isRepeated: actions.append(.complete(link, entry.id, payload, orSend: false))
        case .plain: actions.append(.transmit(link, entry.id, payload))
        case .session: actions.append(.transmit(link, entry.id, SessionFrame.message(entry.sequence, payload).payload))
        case .origin:
            let frame = SessionFrame.origin(identity, entry.id.number, payload).payload
            // The receiver drops what comes twice.
            guard entry.isRepeated, completesSends else { return actions.append(.transmit(link, entry.id, frame)) }
            actions.append(.complete(link, entry.id, frame, orSend: true))
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
