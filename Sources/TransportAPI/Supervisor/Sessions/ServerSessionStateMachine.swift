/// The server's side of one client: the session that outlives its connections, or a single connection in plain style. A
/// value that does no I/O, like ``SupervisorStateMachine``.
package struct ServerSessionStateMachine: Sendable {
    let configuration: SupervisorConfiguration
    /// Distinguishes this session from one that the server has forgotten.
    package private(set) var incarnation: UInt64
    package private(set) var delivery: Delivery
    /// The number of the client's attempt that opened the latest connection.
    private var attempt: UInt32 = 0
    /// The client's current connection; 0 if there is none.
    package private(set) var connection = 0
    private var capabilities = Capabilities(maximumMessageSize: 0)
    private var keepalive: Keepalive?
    private var isReading = true
    /// Whether a message has come, in plain style.
    private var hasReceived = false
    private var pingToken: UInt32 = 0
    private var pingSentAt: Instant?
    /// When a session without a connection is forgotten.
    private var forgottenAt: Instant?
    private let lifetime: Duration
    /// Since when and why the session has no connection, if it had one.
    package private(set) var absence: (start: Instant, reason: CloseReason)?
    /// Why the session has ended, if it has.
    package private(set) var endReason: CloseReason?
    /// Whether the session has ended.
    package var isOver: Bool { endReason != nil }

    /// Creates a new session.
    ///
    /// - Parameters:
    ///   - incarnation: A random number, never 0.
    ///   - lifetime: How long the session waits for its client's next connection.
    package init(
        _ configuration: SupervisorConfiguration,
        incarnation: UInt64,
        lifetime: Duration,
        at now: Instant
    ) {
        self.configuration = configuration
        self.incarnation = incarnation
        self.lifetime = lifetime
        delivery = Delivery(configuration, identity: SessionID(high: incarnation, low: 0))
        forgottenAt = now.advanced(by: lifetime)
    }

    /// Whether a client's hello refers to this session. If the client has been with another server since, both sides
    /// count from one again. Then this session is only usable if nothing has been counted in it, because its welcome
    /// was lost.
    package func isMeant(by hello: ClientHello) -> Bool {
        // A client that had a session and knows of none has restarted.
        if hello.incarnation == 0 { return true }
        // A connection that was slower than its successor has no effect, because ``attach(_:_:hello:at:_:)`` ends it.
        return hello.incarnation == incarnation || isUntouched || hello.attempt < attempt
    }

    /// Whether nothing has been counted in the session.
    private var isUntouched: Bool {
        delivery.receiver.received == 0 && delivery.receiver.earlyCount == 0 && delivery.acknowledged == 0
    }

    /// Restarts the session for a client whose process has restarted and does not know the session. Unacknowledged
    /// messages are sent again, and both sides count from one.
    private mutating func restart() {
        incarnation = incarnation &+ 2 | 1
        delivery.renumber()
    }

    /// From now on the app acknowledges each message once it has processed it.
    package mutating func acknowledgeAfterProcessing() {
        delivery.acknowledgeAfterProcessing()
    }

    /// The app has processed the message of this key, or has released it unprocessed.
    package mutating func processed(_ key: UInt64, isAbandoned: Bool, _ actions: inout [SupervisorAction]) {
        delivery.processed(key, isAbandoned: isAbandoned, &actions)
    }

    /// How many messages the app was given and has not processed in their order. `mutating` for the same reason as
    /// ``deadline``.
    package var unprocessedCount: Int {
        mutating get { delivery.unprocessed?.count ?? 0 }
    }

    /// Whether an acknowledgement of the message of this key still has an effect.
    func isUnprocessed(_ key: UInt64) -> Bool { delivery.unprocessed?.contains(key) ?? false }

    /// Ends the session and its connection, because the client has begun another session.
    package mutating func supersede(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard !isOver else { return }
        if connection != 0 { actions.append(.abandon(connection: connection)) }
        end(CloseReason(.peer, text: "the client has begun another session"), at: now, &actions)
    }

    /// Attaches a new connection of the client, which replaces the one before.
    ///
    /// - Parameter hello: The client's knowledge of the session; `nil` in plain style.
    package mutating func attach(
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
        delivery.detach(at: now, &actions)
        if hello?.incarnation == 0, !isUntouched { restart() }
        self.connection = connection
        self.capabilities = capabilities
        (forgottenAt, absence) = (nil, nil)
        let canProbe = capabilities.hasNativePing || hello != nil
        keepalive =
            canProbe ? Keepalive(configuration.keepalive, over: capabilities, isAnswered: true, at: now) : nil
        if !isReading { keepalive?.reading(false, at: now) }
        if let hello {
            welcome(&actions)
            if hello.incarnation == incarnation {
                do throws(TransportError) {
                    try delivery.acknowledge(through: hello.received, at: now, &actions)
                } catch {
                    return fail(error, at: now, &actions)
                }
            }
        }
        delivery.attach(connection, capabilities, peerLimit: hello.map { Int(clamping: $0.limit) } ?? .max)
        delivery.flush(at: now, &actions)
    }

    private mutating func welcome(_ actions: inout [SupervisorAction]) {
        let frame = SessionFrame.welcome(
            incarnation: incarnation,
            received: delivery.tellReceived(),
            limit: SessionFrame.messageLimit(capabilities)
        )
        actions.append(.transmit(connection, nil, frame.payload))
    }

    /// Handles a message from the client's connection.
    package mutating func received(
        _ connection: Int,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, !isOver else { return }
        keepalive?.received(at: now)
        guard delivery.style == .session else {
            hasReceived = true
            return delivery.give(payload, at: now, &actions)
        }
        do throws(TransportError) {
            switch try SessionFrame(payload) {
            case .hello: welcome(&actions)
            case .ping(let token): actions.append(.transmit(connection, nil, SessionFrame.pong(token).payload))
            case .pong(let token):
                if token == pingToken, let pingSentAt {
                    actions.append(.note(.roundTrip(pingSentAt.duration(to: now))))
                }
            case .bye:
                actions.append(.close(connection: connection, CloseReason(.peer)))
                end(CloseReason(.peer), at: now, &actions)
            case .message, .acknowledge, .skip: try delivery.take(try SessionFrame(payload), at: now, &actions)
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

    /// Handles the end of a connection.
    package mutating func ended(
        _ connection: Int,
        _ reason: CloseReason,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, !isOver else { return }
        let isSession = delivery.style == .session
        self.connection = 0
        keepalive = nil
        delivery.detach(Blame.Evidence(reason), at: now, &actions)
        guard isSession else { return end(reason, at: now, &actions) }
        forgottenAt = now.advanced(by: lifetime)
        absence = (now, reason)
    }

    package mutating func settled(
        _ id: MessageID,
        on connection: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        delivery.settled(id, on: connection, outcome, at: now, &actions)
    }

    package mutating func pong(
        _ connection: Int,
        _ time: Duration,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection else { return }
        keepalive?.received(at: now)
        actions.append(.note(.roundTrip(time)))
    }

    /// Submits a message to the client.
    package mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard !isOver else {
            return actions.append(.finish(id, .rejected(TransportError(.closedByPeer, .open, "the session has ended"))))
        }
        delivery.submit(id, payload, at: now, &actions)
    }

    package mutating func cancel(_ id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        delivery.cancel(id, at: now, &actions)
    }

    /// Records how much of the connection is read.
    package mutating func reading(_ reading: Reading, at now: Instant, _ actions: inout [SupervisorAction]) {
        isReading = reading != .nothing
        keepalive?.reading(isReading, at: now)
        delivery.taking(reading == .all, &actions)
    }

    /// Ends the session on behalf of the server.
    package mutating func close(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard !isOver else { return }
        if connection != 0 {
            if delivery.style == .session { actions.append(.transmit(connection, nil, SessionFrame.bye.payload)) }
            actions.append(.close(connection: connection, reason))
        }
        end(reason, at: now, &actions)
    }

    /// Whether the client has sent or acknowledged a message.
    package var isUsed: Bool {
        mutating get { hasReceived || delivery.receiver.received > 0 || delivery.acknowledged > 0 }
    }

    /// How much memory the messages of the session take, in bytes.
    package var bufferedBytes: Int {
        // `mutating`, so that the access does not copy the session.
        mutating get { delivery.bufferedBytes }
    }

    /// When ``deadlineReached(_:at:_:)`` is due; `nil` for never.
    package var deadline: Instant? {
        // `mutating`, so that the access does not copy the session.
        mutating get {
            guard !isOver else { return nil }
            return earlier(earlier(forgottenAt, keepalive?.deadline), delivery.deadline)
        }
    }

    /// Handles the deadline. The connection shows these signs of life.
    package mutating func deadlineReached(
        _ signs: SignsOfLife,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard !isOver else { return }
        if let forgottenAt, forgottenAt <= now {
            return end(CloseReason(.network, text: "the client did not return"), at: now, &actions)
        }
        delivery.deadlineReached(at: now, &actions)
        switch keepalive?.deadlineReached(signs, at: now) {
        case .probe where delivery.style == .session:
            pingToken &+= 1
            pingSentAt = now
            actions.append(.transmit(connection, nil, SessionFrame.ping(pingToken).payload))
        case .probe: actions.append(.ping(connection: connection))
        case .dead:
            let error = TransportError(.keepaliveTimeout, .open, "the client did not answer")
            actions.append(.abandon(connection: connection))
            ended(connection, CloseReason(error), at: now, &actions)
        case .wait, nil: break
        }
    }

    private mutating func end(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        endReason = reason
        connection = 0
        keepalive = nil
        delivery.detach(at: now, &actions)
        delivery.finishAll(reason.asError, &actions)
        actions.append(.state(.closed(reason)))
    }
}
