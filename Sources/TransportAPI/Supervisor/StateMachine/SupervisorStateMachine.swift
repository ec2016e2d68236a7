/// Keeps one connection alive over a list of endpoints. It is a value that does no I/O: it takes events and returns
/// actions and the next deadline. Time and random numbers are arguments, so a test can run it for simulated years.
///
/// Each attempt and its connection have a number. Events of an older number have no effect.
package struct SupervisorStateMachine: Sendable {
    enum Phase: Sendable, Hashable {
        case idle
        /// An attempt is in progress, until the deadline.
        case connecting(Instant)
        /// The connection is open, and the peer has not answered the hello yet.
        case awaitingWelcome(AwaitedWelcome)
        case open
        /// The next attempt starts at this time.
        case waiting(Instant)
        case offline, suspended
        case closed
    }

    /// The wait for the answer to the hello.
    struct AwaitedWelcome: Sendable, Hashable {
        /// The limit of this phase.
        let deadline: Instant
        /// When the hello is repeated, over a connection that can lose it.
        var helloRetry: Instant?
        /// The time of the ping that tests the peer. A peer that answers pings but not the hello probably has no sessions. It
        /// can also be overloaded, so this never ends the supervisor.
        var ping: Instant?
        /// Whether the peer has answered a ping.
        var isAlive = false
    }

    /// The report that a message waits although the app has not called `connect`.
    enum IdleReport: Sendable, Hashable {
        /// No message was submitted yet.
        case none
        /// The report is due at this time, unless the app connects before.
        case due(Instant)
        /// The report was made.
        case made
    }

    /// How long a message may wait before that report.
    static let idleReportTime = Duration.seconds(1)

    /// The part of an attempt that is in progress. It decides what the error says when the attempt takes too long.
    package enum AttemptStep: Sendable, Hashable {
        /// The app prepares the endpoint.
        case preparation
        /// The transport connects.
        case transport
        /// The connection is open, and the app's greeting runs on it.
        case greeting
    }

    let configuration: SupervisorConfiguration
    let endpoints: [Endpoint]
    var phase = Phase.idle
    private var idleReport = IdleReport.none
    var attemptStep = AttemptStep.transport
    /// The number of the current attempt or connection.
    package internal(set) var connection = 0
    var rotation: EndpointRotation
    var budget: RetryBudget
    var credentials: Credentials
    var openedAt = Instant.zero
    var path = NetworkPath(isUsable: true)
    var capabilities = Capabilities(maximumMessageSize: 0)
    var keepalive: Keepalive?
    package internal(set) var adaptive: AdaptiveKeepalive?
    /// The time at which a frame other than a probe was last handed to the connection. Sent frames keep a NAT from
    /// forgetting the connection.
    var lastSent = Instant.zero
    /// The time at which a probe was last handed to the connection.
    var lastProbed = Instant.zero
    /// The time since which the connection has carried only probes, in both directions.
    var idleSince = Instant.zero
    package internal(set) var delivery: Delivery
    /// The incarnation of the session that the server has; 0 if none is known.
    var incarnation: UInt64 = 0
    /// The number of launches of the session's client.
    let launch: UInt16
    /// In plain style: whether the only message of the connection was a session server's refusal.
    var wasRefusedAsPlain = false
    /// Whether the certificate of the connection's peer was verified.
    var isPeerVerified = false
    /// In plain style: whether another message has arrived over the connection.
    var hasReceivedPlain = false
    /// The reason for which it has ended. Later messages are rejected with it.
    private var endReason: CloseReason?
    var pingToken: UInt32 = 0
    var pingSentAt: Instant?
    var isReading = true

    /// Creates a machine for these endpoints. There must be at least one.
    ///
    /// - Parameters:
    ///   - configuration: The settings.
    ///   - endpoints: The endpoints in order of preference.
    ///   - intervals: The keepalive intervals that an earlier supervisor has measured.
    ///   - client: The client's identity towards a session server. `nil` means a random one.
    ///   - canRefresh: Whether an attempt with other credentials is possible.
    ///   - random: The source of the random identity.
    package init(
        _ configuration: SupervisorConfiguration,
        endpoints: [Endpoint],
        intervals: AdaptiveInterval? = nil,
        client: SessionClient? = nil,
        canRefresh: Bool = true,
        using random: inout RandomSource
    ) {
        self.configuration = configuration
        self.endpoints = endpoints
        credentials = canRefresh ? .usual : .fixed
        rotation = EndpointRotation(count: endpoints.count)
        budget = RetryBudget(configuration)
        delivery = Delivery(configuration, identity: client?.id ?? SessionID(using: &random))
        launch = client?.launch ?? 0
        if configuration.keepalive.interval != .off, let adaptive = configuration.keepalive.adaptive {
            self.adaptive = AdaptiveKeepalive(adaptive, knowing: intervals)
        }
    }

    /// The number of messages that the app was given and has not processed in their order. The getter is `mutating` for
    /// the same reason as that of ``deadline``.
    package var unprocessedCount: Int {
        mutating get { delivery.unprocessed?.count ?? 0 }
    }

    /// Whether an acknowledgement of the message of this key still has an effect.
    func isUnprocessed(_ key: UInt64) -> Bool { delivery.unprocessed?.contains(key) ?? false }

    /// The endpoint of the current attempt or connection.
    var endpoint: Int { rotation.current }

    /// Whether it has ended for good.
    package var isOver: Bool { phase == .closed }

    /// An event of a state machine.
    package enum Event: Sendable {
        /// Start, or connect now instead of waiting.
        case connect
        /// The app goes to the background. The connection is closed, and nothing is attempted.
        case suspend
        /// The app is in the foreground again.
        case resume
        /// The network path has changed.
        case path(NetworkPath)
        /// The attempt has reached this step. An attempt without the app's hooks has only one, so it reports none.
        case reached(Int, AttemptStep)
        /// The attempt has opened a connection, and the app's greeting has ended. If its peer is verified, the peer has
        /// proved its identity by a certificate.
        case connected(Int, Capabilities, isVerified: Bool = false)
        /// The attempt has failed.
        case failed(Int, TransportError)
        /// The connection has received a message.
        case received(Int, Payload)
        /// The connection's own ping was answered.
        case pong(Int, Duration)
        /// The connection has ended.
        case ended(Int, CloseReason)
        /// A message that the connection was handed has this outcome.
        case settled(Int, MessageID, SendOutcome)
        /// How much of the connection is read.
        case reading(Reading)
        /// From now on the app acknowledges messages after it has processed them.
        case acknowledgesAfterProcessing
        /// The app has processed the message of this key, or has released it without processing it.
        case processed(UInt64, isAbandoned: Bool)
        /// The app submits a message.
        case submit(MessageID, Payload)
        /// The caller of a message was cancelled.
        case cancel(MessageID)
        /// The app closes the supervisor.
        case close(CloseReason)
        /// The deadline has been reached, and the connection shows these signs of life.
        case deadlineReached(SignsOfLife)
    }

    /// Handles one event, and appends the actions that follow from it.
    package mutating func handle(
        _ event: Event,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        let count = actions.count
        defer { if adaptive != nil { noteSending(actions[count...], at: now) } }
        if case .submit(let id, let payload) = event { return submit(id, payload, at: now, &actions) }
        if phase == .closed { return afterEnd(event, at: now, &actions) }
        switch event {
        case .connect: connectNow(at: now, &actions)
        case .suspend: suspend(at: now, &actions)
        case .resume: resume(at: now, &actions)
        case .path(let path): changed(path, at: now, &actions)
        case .reached(let connection, let step): if connection == self.connection { attemptStep = step }
        case .connected(let connection, let capabilities, let isVerified):
            connected(connection, capabilities, isVerified: isVerified, at: now, using: &random, &actions)
        case .failed(let connection, let error):
            guard connection == self.connection, case .connecting = phase else { return }
            attemptFailed(error, at: now, using: &random, &actions)
        case .received(let connection, let payload): received(connection, payload, at: now, using: &random, &actions)
        case .pong(let connection, let time):
            guard connection == self.connection else { return }
            if case .awaitingWelcome(var welcome) = phase {
                welcome.isAlive = true
                phase = .awaitingWelcome(welcome)
            }
            alive(at: now, &actions)
            actions.append(.note(.roundTrip(time)))
        case .ended(let connection, let reason): ended(connection, reason, at: now, using: &random, &actions)
        case .settled(let connection, let id, let outcome):
            delivery.settled(id, on: connection, outcome, at: now, &actions)
        case .reading(let reading):
            isReading = reading != .nothing
            keepalive?.reading(isReading, at: now)
            delivery.taking(reading == .all, &actions)
        case .acknowledgesAfterProcessing: delivery.acknowledgeAfterProcessing()
        case .processed(let key, let isAbandoned): delivery.processed(key, isAbandoned: isAbandoned, &actions)
        case .cancel(let id): delivery.cancel(id, at: now, &actions)
        case .close(let reason): close(reason, at: now, &actions)
        case .deadlineReached(let signs): deadlineReached(signs, at: now, using: &random, &actions)
        case .submit: break
        }
    }

    /// The time at which ``Event/deadlineReached(_:)`` is due, or `nil` for never. The getter is `mutating`, because
    /// reading it from a machine in a class would otherwise copy the machine.
    package var deadline: Instant? {
        mutating get {
            let own: Instant?
            switch phase {
            case .closed: return nil
            case .idle: if case .due(let due) = idleReport { own = due } else { own = nil }
            case .offline, .suspended: own = nil
            case .connecting(let deadline), .waiting(let deadline): own = deadline
            case .awaitingWelcome(let welcome):
                own = earlier(welcome.deadline, earlier(welcome.helloRetry, welcome.ping))
            case .open: own = keepalive?.deadline
            }
            return earlier(own, delivery.deadline)
        }
    }

    /// Handles an event after the end. A connection that opens after the end must still be closed, and messages that a
    /// connection had not settled still end.
    private mutating func afterEnd(_ event: Event, at now: Instant, _ actions: inout [SupervisorAction]) {
        switch event {
        case .connected(let connection, _, _): actions.append(.abandon(connection: connection))
        case .settled(let connection, let id, let outcome):
            delivery.settled(id, on: connection, outcome, at: now, &actions)
        case .cancel(let id): delivery.cancel(id, at: now, &actions)
        default: break
        }
    }

    /// Whether it has ended for good, and all messages with it. The getter is `mutating` for the same reason as that of
    /// ``deadline``.
    package var hasFinishedAll: Bool {
        mutating get { delivery.hasFinishedAll }
    }

    private mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard phase != .closed else {
            let failure = endReason.flatMap { $0.initiator == .user ? nil : $0.asError }
            let error = failure ?? TransportError(.closedByUser, .open, "the supervisor has ended")
            return actions.append(.finish(id, .rejected(error)))
        }
        if case .idle = phase, case .none = idleReport { idleReport = .due(now.advanced(by: Self.idleReportTime)) }
        delivery.submit(id, payload, at: now, &actions)
    }

    private mutating func deadlineReached(
        _ signs: SignsOfLife,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        delivery.deadlineReached(at: now, &actions)
        switch phase {
        case .idle:
            guard case .due(let due) = idleReport, due <= now else { return }
            idleReport = .made
            actions.append(.note(.notConnecting))
        case .connecting(let deadline) where deadline <= now:
            actions.append(.abandon(connection: connection))
            attemptFailed(.timedOut(in: attemptStep), at: now, using: &random, &actions)
        case .awaitingWelcome(let welcome) where welcome.deadline <= now:
            actions.append(.abandon(connection: connection))
            attemptFailed(.noWelcome(isAlive: welcome.isAlive), at: now, using: &random, &actions)
        case .awaitingWelcome(var welcome):
            if let ping = welcome.ping, ping <= now {
                welcome.ping = nil
                actions.append(.ping(connection: connection))
            }
            if let retry = welcome.helloRetry, retry <= now { sendHello(&welcome, at: now, &actions) }
            phase = .awaitingWelcome(welcome)
        case .waiting(let time) where time <= now: attempt(at: now, &actions)
        case .open:
            // A connection that dies while this side does not run has not been idle for its interval only.
            if let due = keepalive?.deadline, GracePeriod.isLate(due, at: now) { idleSince = now }
            switch keepalive?.deadlineReached(signs, at: now) {
            case .probe: probe(at: now, &actions)
            case .dead:
                let error = TransportError(.keepaliveTimeout, .open, "the peer did not answer")
                actions.append(.abandon(connection: connection))
                ended(connection, CloseReason(error), at: now, using: &random, &actions)
            case .wait, nil: break
            }
        default: break
        }
    }
}

extension TransportError {
    /// Returns the error for an attempt that was not over at the connect timeout.
    static func timedOut(in step: SupervisorStateMachine.AttemptStep) -> TransportError {
        switch step {
        case .preparation:
            let sentence = "the app's preparation did not return within the connect timeout"
            return TransportError(.timedOut, .configure, "\(sentence): return sooner, or raise the timeout")
        case .transport:
            let sentence =
                "the attempt took too long: the host may be down, or the port may belong to another protocol"
            return TransportError(.timedOut, .connect, sentence)
        case .greeting:
            let sentence =
                "the app's greeting did not end within the connect timeout: the server may not answer it, "
                + "or it waits for the supervisor, which sends nothing before the greeting has ended"
            return TransportError(.timedOut, .handshake, sentence)
        }
    }

    /// The sentence about a session through a broker that acknowledges nothing, without its subject.
    package static let sessionWithoutAcknowledgements =
        "is 0, at which a broker acknowledges nothing, but the delivery mode session needs acknowledgements: write qos=1 "
        + "into the URL, or set delivery.mode to plain"

    /// Returns the error for a server that has not answered the hello.
    ///
    /// - Parameter isAlive: Whether it has answered a ping in the meantime.
    static func noWelcome(isAlive: Bool) -> TransportError {
        let sentence = "the server does not answer the session hello\(isAlive ? ", but answers pings" : "")"
        return TransportError(.timedOut, .handshake, "\(sentence): \(maybeWithoutSessions)")
    }

    static let withoutSessions = "it has no sessions; set the delivery mode to plain, or use a session server"
    static let maybeWithoutSessions =
        "if it has no sessions, set the delivery mode to plain, or use a session server"

    /// Returns the error for a server that has sent another message instead of the welcome. A refusal is an answer to
    /// the hello. Any other message comes from a server without sessions.
    ///
    /// - Parameters:
    ///   - payload: The message.
    ///   - error: The error of its frame.
    static func noWelcome(_ payload: Payload, _ error: TransportError) -> TransportError {
        guard error.code == .protocolViolation else { return error }
        let sentence: String
        switch try? SessionFrame(payload) {
        case .refused: return error
        case .hello: sentence = "the server returned the session hello, as an echo server does"
        default: sentence = "the server sent a message that does not answer the session hello (\(error.reason))"
        }
        return TransportError(error.code, .handshake, "\(sentence): \(withoutSessions)")
    }

    /// The error for a server that has ended the connection instead of answering the hello.
    var insteadOfWelcome: TransportError {
        switch code {
        case .closedByPeer, .connectionLost, .connectionReset, .protocolViolation, .invalidText, .unsupported: break
        default: return self
        }
        let sentence = "the server ended the connection without an answer to the session hello (\(reason))"
        let text = "\(sentence): \(Self.maybeWithoutSessions)"
        return TransportError(code, .handshake, text, detail: detail, retryAfter: retryAfter)
    }
}

// Requests of the app and changes of the network: pause, another path, end.

extension SupervisorStateMachine {
    mutating func suspend(at now: Instant, _ actions: inout [SupervisorAction]) {
        if phase == .open {
            accepted()
            judgeStability(at: now)
        }
        dropConnection(CloseReason(.user, text: "suspended"), at: now, &actions)
        enter(.suspended, .suspended, &actions)
    }

    mutating func resume(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard phase == .suspended else { return }
        budget.resumed(at: now)
        attempt(at: now, &actions)
    }

    mutating func changed(_ path: NetworkPath, at now: Instant, _ actions: inout [SupervisorAction]) {
        let isOther = path.network != self.path.network
        self.path = path
        if isOther { budget.pathChanged() }
        switch phase {
        case .connecting, .awaitingWelcome, .waiting:
            if !path.isUsable {
                dropConnection(.user, at: now, &actions)
                enter(.offline, .offline, &actions)
            } else if isOther, case .waiting = phase {
                attempt(at: now, &actions)
            }
        case .offline:
            if path.isUsable { attempt(at: now, &actions) }
        case .open:
            // The connection may survive a short absence of the network, and even another address.
            keepalive?.online(path.isUsable, at: now)
            delivery.networkChanged()
            // If the connection dies now, the reason is not that it was idle.
            idleSince = now
            if isOther { adaptInterval(&actions) }
        case .idle, .suspended, .closed: break
        }
    }

    /// Ends an attempt or a connection in any phase.
    private mutating func dropConnection(
        _ reason: CloseReason,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        switch phase {
        case .connecting, .awaitingWelcome: actions.append(.abandon(connection: connection))
        case .open: actions.append(.close(connection: connection, reason))
        case .idle, .waiting, .offline, .suspended, .closed: return
        }
        leaveConnection(.none, at: now, &actions)
    }

    // MARK: The end

    mutating func close(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        if phase == .open, delivery.style == .session {
            actions.append(.transmit(connection, nil, SessionFrame.bye.payload))
        }
        dropConnection(reason, at: now, &actions)
        end(reason, &actions)
    }

    mutating func giveUp(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        end(reason, &actions)
    }

    private mutating func end(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        endReason = reason
        delivery.finishAll(reason.asError, &actions)
        enter(.closed, .closed(reason), &actions)
    }
}

// Attempts: the first connection, and reconnecting after a loss.

extension SupervisorStateMachine {
    mutating func connectNow(at now: Instant, _ actions: inout [SupervisorAction]) {
        switch phase {
        case .idle, .waiting, .offline: attempt(at: now, &actions)
        case .connecting, .awaitingWelcome, .open, .suspended, .closed: break
        }
    }

    /// Makes the next attempt, if there is a network.
    mutating func attempt(at now: Instant, _ actions: inout [SupervisorAction]) {
        budget.begins(at: now)
        guard path.isUsable else { return enter(.offline, .offline, &actions) }
        connection += 1
        attemptStep = .transport
        enter(
            .connecting(now.advanced(by: configuration.connectTimeout)),
            .connecting(attempt: budget.failures + 1, endpoints[endpoint]),
            &actions
        )
        actions.append(
            .connect(
                connection: connection,
                endpoint: endpoint,
                timeout: configuration.connectTimeout,
                refreshing: credentials == .refused
            )
        )
    }

    mutating func connected(
        _ connection: Int,
        _ capabilities: Capabilities,
        isVerified: Bool,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, case .connecting(let deadline) = phase else {
            // The attempt was given up. There are never two live connections.
            return actions.append(.abandon(connection: connection))
        }
        self.capabilities = capabilities
        isPeerVerified = isVerified
        if credentials == .refused { credentials = .fresh }
        (wasRefusedAsPlain, hasReceivedPlain) = (false, false)
        let style = Delivery.style(configuration.delivery, capabilities)
        if style == .origin, !capabilities.acknowledgesMessages {
            actions.append(.abandon(connection: connection))
            let error = TransportError.configuration("qos", TransportError.sessionWithoutAcknowledgements)
            return attemptFailed(error, at: now, using: &random, &actions)
        }
        guard style == .session else {
            return opened(isResumed: false, at: now, &actions)
        }
        delivery.forgetOvertaking()
        // Missing answers over the connection before do not apply to this one.
        delivery.roundTrip.answered()
        var welcome = AwaitedWelcome(deadline: deadline)
        if capabilities.hasNativePing { welcome.ping = now.advanced(by: now.duration(to: deadline) / 2) }
        sendHello(&welcome, at: now, &actions)
        phase = .awaitingWelcome(welcome)
    }

    /// Sends the hello, and schedules its repetition if the connection can lose it.
    private mutating func sendHello(
        _ welcome: inout AwaitedWelcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        welcome.helloRetry = capabilities.isReliable ? nil : now.advanced(by: delivery.roundTrip.timeout)
        let hello = SessionFrame.hello(
            delivery.identity,
            incarnation: incarnation,
            received: delivery.tellReceived(),
            attempt: UInt32(launch) << 16 | UInt32(min(connection, 0xffff)),
            limit: SessionFrame.messageLimit(capabilities)
        )
        actions.append(.transmit(connection, nil, hello.payload))
    }

    /// The connection is open for messages.
    ///
    /// - Parameter peerLimit: In a session, the largest message that the server accepts, in bytes of its payload.
    mutating func opened(
        isResumed: Bool,
        peerLimit: Int = .max,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        openedAt = now
        rotation.opened()
        // Without a probe there is no keepalive, not even after a change of the network.
        keepalive =
            canProbe
            ? Keepalive(configuration.keepalive, over: capabilities, isAnswered: isProbeAnswered, at: now) : nil
        idleSince = now
        lastSent = now
        adaptInterval(&actions)
        if !isReading { keepalive?.reading(false, at: now) }
        delivery.attach(connection, capabilities, peerLimit: peerLimit)
        enter(.open, .open(endpoints[endpoint], isResumed: isResumed), &actions)
        delivery.flush(at: now, &actions)
    }

    mutating func attemptFailed(
        _ error: TransportError,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        var error = error
        // The state machine itself makes the errors for a peer that does not answer the hello as a session server does.
        if case .awaitingWelcome = phase, error.origin == .unstated { error.origin = isPeerVerified ? .peer : .path }
        actions.append(.note(.attemptFailed(endpoints[endpoint], error)))
        budget.failed()
        noteRetryAfter(of: error, at: now)
        carryOut(decision(error, .attempt), CloseReason(error), .attempt, at: now, using: &random, &actions)
    }

    private func decision(_ error: TransportError?, _ stage: RetryPolicy.Stage) -> RetryPolicy.Decision {
        RetryPolicy.decide(error, stage, rotation.history, canRefresh: credentials.canBeRefreshed)
    }

    /// Carries out the decision about ``endpoint``.
    private mutating func carryOut(
        _ decision: RetryPolicy.Decision,
        _ reason: CloseReason,
        _ stage: RetryPolicy.Stage,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        var reason = reason
        if rotation.hasWorked, reason.error?.mayComeFromPath ?? false { budget.wasDisturbed() }
        switch decision {
        case .refresh:
            credentials = .refused
            return attempt(at: now, &actions)
        case .giveUp: return giveUp(reason, &actions)
        case .retry:
            rotation.advanceIfPausing(at: now)
            return retry(reason, isRoundOver: true, at: now, using: &random, &actions)
        case .setAside(let time):
            guard rotation.setAside(time) else { return giveUp(reason, &actions) }
        case .tryNext: rotation.failed(isDisturbed: false)
        case .outlast:
            rotation.failed(isDisturbed: true)
            reason.error = reason.error?.onDisturbedPath
            reason.text = reason.error?.reason ?? reason.text
        }
        // All endpoints are tried before the first pause, except those with a Retry-After time in the future. After a
        // connection that opened there is a pause in any case.
        let isRoundOver = stage != .attempt || rotation.isRoundOver(at: now)
        rotation.advance(at: now)
        retry(reason, isRoundOver: isRoundOver, at: now, using: &random, &actions)
    }

    /// Records how long the server requests no further attempt (Retry-After).
    private mutating func noteRetryAfter(of error: TransportError, at now: Instant) {
        guard let asked = error.retryAfter else { return }
        rotation.pauses(for: asked, at: now)
    }

    /// Schedules the next attempt, after a pause if the round is over. Gives up at a limit.
    private mutating func retry(
        _ reason: CloseReason,
        isRoundOver: Bool,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        if budget.isUsedUp { return giveUp(reason, &actions) }
        guard path.isUsable else { return enter(.offline, .offline, &actions) }
        var delay = Duration.zero
        if isRoundOver {
            let isDisturbed = rotation.endRound()
            guard let next = budget.pause(isDisturbed: isDisturbed, using: &random) else {
                return giveUp(reason, &actions)
            }
            delay = next
        }
        delay = max(delay, rotation.pause(at: now))
        guard budget.allows(delay, at: now) else { return giveUp(reason, &actions) }
        enter(.waiting(now.advanced(by: delay)), .waiting(delay, reason), &actions)
    }

    mutating func ended(
        _ connection: Int,
        _ reason: CloseReason,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection else { return }
        var reason = reason
        if wasRefusedAsPlain, reason.initiator == .peer, reason.error == nil, reason.code == nil {
            reason = CloseReason(.sessionsOnly)
        }
        switch phase {
        case .awaitingWelcome:
            return attemptFailed(reason.asError.insteadOfWelcome, at: now, using: &random, &actions)
        case .open: break
        case .idle, .connecting, .waiting, .offline, .suspended, .closed: return
        }
        actions.append(.note(.connectionEnded(endpoints[endpoint], reason)))
        noteDeath(at: now)
        let evidence = Blame.Evidence(reason)
        leaveConnection(evidence, at: now, &actions)
        rotation.ended()
        budget.failed()
        let stage: RetryPolicy.Stage =
            if evidence.namesMessage && hasWorked { .refusedMessage } else {
                // A connection can open before the peer has accepted it (MQTT with `early-publish=on`).
                reason.error?.phase == .handshake ? .early : .open
            }
        if stage != .early { accepted(hasRefused: reason.error?.code == .authenticationFailed) }
        let decision = decision(reason.error, stage)
        if stage != .early { judgeStability(at: now, keepsSetAside: decision == .setAside(.untilAnotherIsStable)) }
        if let error = reason.error { noteRetryAfter(of: error, at: now) }
        carryOut(decision, reason, stage, at: now, using: &random, &actions)
    }

    /// Records that the endpoint has accepted the connection that is or was open. It had accepted its credentials too, so
    /// the next ones may be refreshed once, unless the connection ended because of them.
    private mutating func accepted(hasRefused: Bool = false) {
        rotation.accepted()
        if !hasRefused { credentials.accepted() }
    }

    /// Starts the counts again if the connection that has ended was stable.
    mutating func judgeStability(at now: Instant, keepsSetAside: Bool = false) {
        guard openedAt.duration(to: now) >= configuration.stableAfter else { return }
        if !keepsSetAside { rotation.wasStable() }
        budget.wasStable(at: now)
    }

    mutating func leaveConnection(
        _ evidence: Blame.Evidence,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        keepalive = nil
        delivery.detach(evidence, at: now, &actions)
    }

    /// Whether the peer of the open connection has shown that it speaks with this client: by the welcome of a session, the
    /// handshake of a broker, or a message.
    private var hasWorked: Bool {
        delivery.style == .session || capabilities.acknowledgesMessages || hasReceivedPlain
    }

    mutating func enter(_ phase: Phase, _ state: SupervisorState, _ actions: inout [SupervisorAction]) {
        self.phase = phase
        actions.append(.state(state))
    }
}

// Events of an open connection.

extension SupervisorStateMachine {
    /// Whether there is a probe.
    var canProbe: Bool {
        switch configuration.keepalive.probe {
        case .payload: true
        case .automatic: capabilities.hasNativePing || Delivery.style(configuration.delivery, capabilities) == .session
        }
    }

    var isProbeAnswered: Bool {
        if case .payload(_, let answer) = configuration.keepalive.probe { answer != nil } else { canProbe }
    }

    mutating func probe(at now: Instant, _ actions: inout [SupervisorAction]) {
        lastProbed = now
        switch configuration.keepalive.probe {
        case .payload(let payload, _): actions.append(.transmit(connection, nil, payload))
        case .automatic where delivery.style == .session:
            pingToken &+= 1
            pingSentAt = now
            actions.append(.transmit(connection, nil, SessionFrame.ping(pingToken).payload))
        case .automatic: actions.append(.ping(connection: connection))
        }
    }

    mutating func received(
        _ connection: Int,
        _ payload: Payload,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection else { return }
        alive(at: now, &actions)
        switch phase {
        case .open, .awaitingWelcome: break
        case .idle, .connecting, .waiting, .offline, .suspended, .closed: return
        }
        if case .payload(_, let answer?) = configuration.keepalive.probe, payload.bytes == answer.bytes {
            return delivery.leaveOut(at: now, &actions)
        }
        let style = Delivery.style(configuration.delivery, capabilities)
        do throws(TransportError) {
            switch style {
            case .plain:
                if payload.bytes.count == SessionFrame.helloExpected.count, payload.bytes == SessionFrame.helloExpected
                {
                    wasRefusedAsPlain = !hasReceivedPlain
                    return delivery.leaveOut(at: now, &actions)
                }
                (hasReceivedPlain, wasRefusedAsPlain) = (true, false)
                delivery.give(payload, at: now, &actions)
            case .origin: try receivedOrigin(payload, at: now, using: &random, &actions)
            case .session: try receivedFrame(try SessionFrame(payload), at: now, &actions)
            }
        } catch {
            if case .awaitingWelcome = phase {
                let error = TransportError.noWelcome(payload, error)
                actions.append(.close(connection: connection, CloseReason(error)))
                return attemptFailed(error, at: now, using: &random, &actions)
            }
            actions.append(.close(connection: connection, CloseReason(error)))
            ended(connection, CloseReason(error), at: now, using: &random, &actions)
        }
    }

    private mutating func receivedOrigin(
        _ payload: Payload,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        // Other clients may publish to the same topics without an envelope.
        guard SessionFrame.isOrigin(payload),
            case .origin(let sender, let sequence, let content) = try SessionFrame(payload)
        else { return delivery.give(payload, at: now, &actions) }
        delivery.giveUnlessRepeated(sender, sequence, content, at: now, using: &random, &actions)
    }

    private mutating func receivedFrame(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch frame {
        case .welcome(let incarnation, let received, let limit):
            try welcomed(incarnation, received, limit, at: now, &actions)
        case .refused(let refusal): throw refusal.error
        case .ping(let token): actions.append(.transmit(connection, nil, SessionFrame.pong(token).payload))
        case .pong(let token):
            if token == pingToken, let asked = pingSentAt { actions.append(.note(.roundTrip(asked.duration(to: now)))) }
        case .bye: throw TransportError(.closedByPeer, .open, "the peer has ended the session")
        case .message, .acknowledge, .skip:
            if phase == .open { return try delivery.take(frame, at: now, &actions) }
            // The frame has overtaken the welcome. A connection that loses messages brings it again.
            if capabilities.isReliable { try delivery.keepOvertaking(frame) }
        case .hello, .origin: throw .envelope("a server does not send this frame")
        }
    }

    private mutating func welcomed(
        _ incarnation: UInt64,
        _ received: UInt64,
        _ limit: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard case .awaitingWelcome = phase else { return }
        let isResumed = incarnation == self.incarnation
        if isResumed {
            try delivery.acknowledge(through: received, at: now, &actions)
        } else {
            if self.incarnation != 0 { actions.append(.note(.sessionLost)) }
            delivery.renumber()
            self.incarnation = incarnation
        }
        opened(isResumed: isResumed, peerLimit: Int(clamping: limit), at: now, &actions)
        try delivery.takeOvertaking(at: now, &actions)
    }
}

// The search for a longer keepalive interval.

extension SupervisorStateMachine {
    /// The interval that the search has for the connection, or `nil` if it cannot search.
    mutating func adaptiveInterval() -> Duration? {
        guard keepalive != nil, isProbeAnswered else { return nil }
        return adaptive?.interval(on: path.network)
    }

    /// Sets the connection's interval to the one of the search.
    mutating func adaptInterval(_ actions: inout [SupervisorAction]) {
        guard let interval = adaptiveInterval(), interval != keepalive?.interval else { return }
        keepalive?.interval = interval
        actions.append(.note(.keepaliveInterval(interval)))
    }

    /// Whether the connection carried only probes during the interval before the last probe, and since.
    private var wasIdle: Bool {
        guard let asked = keepalive?.askedAt, let interval = keepalive?.interval else { return false }
        return lastSent <= asked && asked >= idleSince.advanced(by: interval)
    }

    /// Records a sign of life of the connection.
    mutating func alive(at now: Instant, _ actions: inout [SupervisorAction]) {
        if adaptive != nil, wasIdle, let interval = keepalive?.interval {
            adaptive?.survived(interval, on: path.network)
            adaptInterval(&actions)
        }
        keepalive?.received(at: now)
        idleSince = now
    }

    /// Records the end of the connection for the search, if the connection was idle for nearly its interval. A NAT that
    /// has forgotten the connection sends no packet or a reset. A proxy closes the connection itself.
    mutating func noteDeath(at now: Instant) {
        guard adaptive != nil, adaptiveInterval() != nil, let interval = keepalive?.interval else { return }
        let isOver = idleSince.duration(to: now) >= interval / 10 * 9
        if wasIdle || keepalive?.askedAt == nil && isOver { adaptive?.died(interval, on: path.network) }
    }

    /// Records the time at which a frame other than a probe was sent.
    mutating func noteSending(_ actions: ArraySlice<SupervisorAction>, at now: Instant) {
        let count = actions.count {
            switch $0 {
            case .transmit, .ping: true
            default: false
            }
        }
        guard count > (lastProbed == now ? 1 : 0) else { return }
        lastSent = now
        idleSince = now
    }
}
