/// The server's side of one client: the session that outlives its connections, or a single connection in plain style. A
/// value that does no I/O, like ``SupervisorStateMachine``.
package struct ServerSessionStateMachine: Sendable {
    /// Whether the session has a connection.
    private enum Phase: Sendable {
        case connected
        /// The session is forgotten at the end of its lifetime. The absence is that since its last connection, if it has had
        /// one.
        case absent(Absence?, forgottenAt: Instant)
        case ended(CloseReason)
    }

    /// A time without a connection.
    package struct Absence: Sendable, Hashable {
        package let start: Instant
        package let reason: CloseReason
    }

    /// An event that only a server has. The others are those of a ``ConversationEvent``.
    package enum Event: Sendable {
        /// The client has a new connection of these capabilities, which replaces the one before. In a session the hello
        /// says what the client knows; it is `nil` in plain style.
        case attach(Int, Capabilities, ClientHello?)
        /// The client has begun another session.
        case supersede
    }

    let configuration: SupervisorConfiguration
    /// Distinguishes this session from one that the server has forgotten.
    package private(set) var incarnation: UInt64
    package internal(set) var link: PeerLink
    private var phase: Phase
    /// The number of the client's attempt that opened the latest connection.
    private var attempt: UInt32 = 0
    /// Whether a message has come, in plain style.
    private var hasReceived = false
    private let lifetime: Duration

    /// The client's current connection; 0 if there is none.
    package var connection: Int { link.connection }
    /// Since when and why the session has no connection, if it had one.
    package var absence: Absence? {
        if case .absent(let absence, _) = phase { absence } else { nil }
    }
    /// Why the session has ended, if it has.
    package var endReason: CloseReason? {
        if case .ended(let reason) = phase { reason } else { nil }
    }
    /// Whether the session has ended.
    package var isOver: Bool {
        if case .ended = phase { true } else { false }
    }

    /// Creates a new session.
    ///
    /// - Parameters:
    ///   - incarnation: A random number, never 0.
    ///   - sender: The sender of the session's messages, a random number.
    ///   - lifetime: How long the session waits for its client's next connection.
    package init(
        _ configuration: SupervisorConfiguration,
        incarnation: UInt64,
        sender: UInt64 = 0,
        lifetime: Duration,
        at now: Instant
    ) {
        self.configuration = configuration
        self.incarnation = incarnation
        self.lifetime = lifetime
        link = PeerLink(configuration, identity: SessionID(high: incarnation, low: 0), sender: sender)
        phase = .absent(nil, forgottenAt: now.advanced(by: lifetime))
    }

    /// Whether a client's hello refers to this session. A client that names another incarnation has been with another server
    /// since. Then this session is only usable if nothing has arrived in it, because its welcome
    /// was lost.
    package func isMeant(by hello: ClientHello) -> Bool {
        // A client that had a session and knows of none has restarted.
        if hello.incarnation == 0 { return true }
        // A connection that was slower than its successor has no effect, because `attach` ends it.
        return hello.incarnation == incarnation || isUntouched || hello.attempt < attempt
    }

    /// Whether nothing has been received or acknowledged in the session.
    private var isUntouched: Bool { link.delivery.isUntouched }

    /// Handles an event that only a server has, and appends the actions that follow from it.
    package mutating func handle(_ event: Event, at now: Instant, _ actions: inout [SupervisorAction]) {
        switch event {
        case .attach(let connection, let capabilities, let hello):
            attach(connection, capabilities, hello: hello, at: now, &actions)
        case .supersede: supersede(at: now, &actions)
        }
    }

    /// Handles one event of the conversation, and appends the actions that follow from it.
    package mutating func handle(
        _ event: ConversationEvent,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        switch event {
        case .received(let connection, let payload): received(connection, payload, at: now, &actions)
        case .pong(let connection, let time):
            guard connection == self.connection else { return }
            link.keepalive?.received(at: now)
            actions.append(.note(.roundTrip(time)))
        case .ended(let connection, let reason): ended(connection, reason, at: now, &actions)
        case .submit(let id, let payload):
            guard !isOver else {
                let error = TransportError(.closedByPeer, .open, "the session has ended")
                return actions.append(.finish(id, .rejected(error)))
            }
            link.delivery.submit(id, payload, at: now, &actions)
        case .close(let reason): close(reason, at: now, &actions)
        case .deadlineReached(let signs): deadlineReached(signs, at: now, &actions)
        case .settled, .reading, .discarded, .stored, .storedSession, .storedMarks, .notStored, .cancel,
            .acknowledgesAfterProcessing,
            .processed:
            link.handle(event, at: now, &actions)
        }
    }

    private mutating func supersede(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard !isOver else { return }
        if connection != 0 { actions.append(.abandon(connection: connection)) }
        end(CloseReason(.peer, text: "the client has begun another session"), at: now, &actions)
    }

    private mutating func attach(
        _ connection: Int,
        _ capabilities: Capabilities,
        hello: ClientHello?,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        if let hello, self.connection != connection {
            guard hello.attempt >= attempt else { return actions.append(.abandon(connection: connection)) }
            attempt = hello.attempt
        }
        if self.connection != 0, self.connection != connection { actions.append(.abandon(connection: self.connection)) }
        guard self.connection != connection else {
            // A second hello on the same connection means that the welcome was lost.
            return welcome(&actions)
        }
        link.delivery.detach(at: now, &actions)
        if let hello { begin(hello) }
        link.connected(connection, capabilities)
        phase = .connected
        link.watch(by: hello != nil ? .frame : capabilities.hasNativePing ? .native : nil, at: now)
        if let hello {
            welcome(&actions)
            if hello.incarnation == incarnation {
                do throws(TransportError) {
                    try link.delivery.acknowledge(through: hello.received, at: now, &actions)
                } catch {
                    return fail(error, at: now, &actions)
                }
            }
        }
        link.delivery.attach(connection, capabilities, peerLimit: hello.map { Int(clamping: $0.limit) } ?? .max)
        link.delivery.flush(at: now, &actions)
    }

    /// Continues the session, or begins it for a client whose process does not know it. Then unacknowledged messages are sent
    /// again.
    private mutating func begin(_ hello: ClientHello) {
        if hello.incarnation == incarnation { return link.delivery.resume(hello.numbering) }
        if hello.incarnation == 0, !isUntouched { incarnation = incarnation &+ 2 | 1 }
        link.delivery.restart(hello.numbering)
    }

    private mutating func welcome(_ actions: inout [SupervisorAction]) {
        let frame = SessionFrame.welcome(
            incarnation: incarnation,
            received: link.delivery.tellReceived(),
            limit: SessionFrame.messageLimit(link.capabilities),
            numbering: link.delivery.numbering
        )
        actions.append(.transmit(connection, nil, frame.payload))
    }

    private mutating func received(
        _ connection: Int,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, !isOver else { return }
        link.keepalive?.received(at: now)
        guard link.delivery.style == .session else {
            hasReceived = true
            return link.delivery.give(payload, at: now, &actions)
        }
        do throws(TransportError) {
            let frame = try SessionFrame(payload)
            switch frame {
            case .hello: welcome(&actions)
            case .bye:
                actions.append(.close(connection: connection, CloseReason(.peer)))
                end(CloseReason(.peer), at: now, &actions)
            case .ping, .pong, .message, .acknowledge, .skip: try link.take(frame, at: now, &actions)
            case .welcome, .refused, .origin: throw .envelope("a client does not send this frame")
            }
        } catch  where error.code == .resourcesExhausted {
            // The session continues. Its next connection delivers the messages that this one could not.
            actions.append(.close(connection: connection, CloseReason(error)))
            ended(connection, CloseReason(error), at: now, &actions)
        } catch {
            fail(error, at: now, &actions)
        }
    }

    private mutating func fail(_ error: TransportError, at now: Instant, _ actions: inout [SupervisorAction]) {
        actions.append(.transmit(connection, nil, SessionFrame.refused(.broken).payload))
        actions.append(.close(connection: connection, CloseReason(error)))
        end(CloseReason(error), at: now, &actions)
    }

    private mutating func ended(
        _ connection: Int,
        _ reason: CloseReason,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, !isOver else { return }
        let isSession = link.delivery.style == .session
        link.connection = 0
        link.detach(Blame.Evidence(reason), at: now, &actions)
        guard isSession else { return end(reason, at: now, &actions) }
        phase = .absent(Absence(start: now, reason: reason), forgottenAt: now.advanced(by: lifetime))
    }

    private mutating func close(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard !isOver else { return }
        if connection != 0 {
            if link.delivery.style == .session { actions.append(.transmit(connection, nil, SessionFrame.bye.payload)) }
            actions.append(.close(connection: connection, reason))
        }
        end(reason, at: now, &actions)
    }

    /// Whether the client has sent or acknowledged a message.
    package var isUsed: Bool {
        mutating get { hasReceived || !link.delivery.isUntouched }
    }

    /// How much memory the messages of the session take, in bytes.
    package var bufferedBytes: Int {
        // `mutating`, so that the access does not copy the session.
        mutating get { link.delivery.bufferedBytes }
    }

    /// When ``ConversationEvent/deadlineReached(_:)`` is due; `nil` for never.
    package var deadline: Instant? {
        // `mutating`, so that the access does not copy the session.
        mutating get {
            switch phase {
            case .ended: nil
            case .absent(_, let forgottenAt): earlier(forgottenAt, link.delivery.deadline)
            case .connected: earlier(link.keepalive?.deadline, link.delivery.deadline)
            }
        }
    }

    private mutating func deadlineReached(
        _ signs: SignsOfLife,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        if isOver { return }
        if case .absent(_, let forgottenAt) = phase, forgottenAt <= now {
            return end(CloseReason(.network, text: "the client did not return"), at: now, &actions)
        }
        link.delivery.deadlineReached(at: now, &actions)
        switch link.keepalive?.deadlineReached(signs, at: now) {
        case .probe: link.sendProbe(at: now, &actions)
        case .dead:
            let error = TransportError(.keepaliveTimeout, .open, "the client did not answer")
            actions.append(.abandon(connection: connection))
            ended(connection, CloseReason(error), at: now, &actions)
        case .wait, nil: break
        }
    }

    private mutating func end(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        phase = .ended(reason)
        link.connection = 0
        link.detach(at: now, &actions)
        link.delivery.finishAll(reason.asError, &actions)
        actions.append(.state(.closed(reason)))
    }
}
