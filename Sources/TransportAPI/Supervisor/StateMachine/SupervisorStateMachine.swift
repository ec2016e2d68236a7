import Primitives

/// Keeps one connection alive over a list of endpoints. It is a value that does no I/O: it takes events and returns
/// actions and the next deadline. Time and random numbers are arguments, so a test can run it for simulated years.
///
/// Each attempt and its connection have a number. Events of an older number have no effect.
package struct SupervisorStateMachine: Sendable {
    /// The states. Each one has the data that exists only in it.
    enum Phase: Sendable, Hashable {
        case idle(IdleReport)
        case connecting(Attempt)
        /// The connection is open, and the peer has not answered the hello yet.
        case awaitingWelcome(AwaitedWelcome)
        case open(OpenConnection)
        /// The next attempt starts at this time.
        case waiting(Instant)
        case offline
        /// The app has suspended it. Whether it connects when it is resumed: not if the app has never asked it to.
        case suspended(connects: Bool)
        /// It has ended for this reason. Later messages are rejected with it.
        case closed(CloseReason)
    }

    /// An attempt in progress.
    struct Attempt: Sendable, Hashable {
        /// The limit of the attempt, including the wait for the welcome.
        let deadline: Instant
        var step = AttemptStep.transport
    }

    /// The wait for the answer to the hello.
    struct AwaitedWelcome: Sendable, Hashable {
        /// The limit of this phase.
        let deadline: Instant
        /// Whether the certificate of the peer was verified.
        let isPeerVerified: Bool
        /// When the hello is repeated, over a connection that can lose it.
        var helloRetry: Instant?
        /// The time of the ping that tests the peer. A peer that answers pings but not the hello probably has no sessions. It
        /// can also be overloaded, so this never ends the supervisor.
        var ping: Instant?
        /// Whether the peer has answered a ping.
        var isAlive = false
        /// The token for the login, if there is one.
        @Secret var token: String? = nil
    }

    /// A connection that carries messages.
    struct OpenConnection: Sendable, Hashable {
        let since: Instant
        var peer: Peer
    }

    /// The evidence that the peer of an open connection speaks with this client.
    enum Peer: Sendable, Hashable {
        /// There is none, in plain style.
        case silent
        /// The only message of the connection was the refusal of a session server, in plain style.
        case expectsSession
        /// The welcome of a session, the handshake of a broker, or a message.
        case speaks
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
        /// The store is opened, which knows the session.
        case store
        /// The app prepares the endpoint.
        case preparation
        /// The transport connects.
        case transport
        /// The connection is open, and the app's greeting runs on it.
        case greeting
    }

    let configuration: SupervisorConfiguration
    let endpoints: [Endpoint]
    var phase = Phase.idle(.none)
    package internal(set) var link: PeerLink
    var rotation: EndpointRotation
    var budget: RetryBudget
    var credentials: Credentials
    var path = NetworkPath(isUsable: true)
    package internal(set) var adaptive: AdaptiveKeepalive?
    /// The incarnation of the session that the server has; 0 if none is known.
    var incarnation: UInt64 = 0
    /// The number of launches of the session's client.
    private var launch: UInt16

    /// Creates a machine for these endpoints. There must be at least one.
    ///
    /// - Parameters:
    ///   - configuration: The settings.
    ///   - endpoints: The endpoints in order of preference.
    ///   - intervals: The keepalive intervals that an earlier supervisor has measured.
    ///   - client: The client's identity towards a session server. `nil` means a random one.
    ///   - isStored: Whether a message is sent only once the store has it (``ConversationEvent/stored(_:)``).
    ///   - canRefresh: Whether an attempt with other credentials is possible.
    ///   - random: The source of the random identity.
    package init(
        _ configuration: SupervisorConfiguration,
        endpoints: [Endpoint],
        intervals: AdaptiveInterval? = nil,
        client: SessionClient? = nil,
        isStored: Bool = false,
        canRefresh: Bool = true,
        using random: inout RandomSource
    ) {
        self.configuration = configuration
        self.endpoints = endpoints
        credentials = canRefresh ? .usual : .fixed
        rotation = EndpointRotation(count: endpoints.count)
        budget = RetryBudget(configuration)
        link = PeerLink(
            configuration,
            identity: client?.id ?? SessionID(using: &random),
            sender: random.next(),
            isStored: isStored
        )
        launch = client?.launch ?? 0
        if configuration.keepalive.interval != .off, let adaptive = configuration.keepalive.adaptive {
            self.adaptive = AdaptiveKeepalive(adaptive, knowing: intervals)
        }
    }

    /// The number of the current attempt or connection.
    package var connection: Int { link.connection }

    /// The endpoint of the current attempt or connection.
    var endpoint: Int { rotation.current }

    /// Whether it has ended for good.
    package var isOver: Bool {
        if case .closed = phase { true } else { false }
    }

    /// Whether a connection carries messages.
    var isOpen: Bool {
        if case .open = phase { true } else { false }
    }

    /// An event that only a client has. The others are those of a ``ConversationEvent``.
    package enum Event: Sendable {
        /// Start, or connect now instead of waiting.
        case connect
        /// The app goes to the background. The connection is closed, and nothing is attempted.
        case suspend
        /// The app is in the foreground again.
        case resume
        /// The network path has changed.
        case path(NetworkPath)
        /// The store has this session of an earlier process, all of whose messages up to this number have ended, and these
        /// marks of messages of brokers that its app has processed. It comes before the first connection.
        case restored(StoredSession, after: UInt64, [OriginFilter.Mark])
        /// The attempt has reached this step. An attempt without the app's hooks has only one, so it reports none.
        case reached(Int, AttemptStep)
        /// The attempt has opened a connection, and the app's greeting has ended. If its peer is verified, the peer has
        /// proved its identity by a certificate. With the token the client logs in to a session.
        case connected(Int, Capabilities, isVerified: Bool = false, token: String? = nil)
        /// The attempt has failed.
        case failed(Int, TransportError)
    }

    /// Handles an event that only a client has, and appends the actions that follow from it.
    package mutating func handle(
        _ event: Event,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        let count = actions.count
        defer { adaptive?.noteSending(actions[count...], at: now) }
        guard !isOver else {
            // A connection that opens after the end must still be closed.
            if case .connected(let connection, _, _, _) = event { actions.append(.abandon(connection: connection)) }
            return
        }
        switch event {
        case .connect: connectNow(at: now, &actions)
        case .suspend: suspend(at: now, &actions)
        case .resume: resume(at: now, &actions)
        case .path(let path): changed(path, at: now, &actions)
        case .restored(let session, let ended, let marks):
            (launch, incarnation) = (session.launch, session.incarnation)
            link.delivery.restore(session, after: ended, marks)
        case .reached(let connection, let step):
            guard connection == self.connection, case .connecting(var attempt) = phase else { return }
            attempt.step = step
            phase = .connecting(attempt)
        case .connected(let connection, let capabilities, let isVerified, let token):
            connected(connection, capabilities, isVerified: isVerified, token: token, at: now, using: &random, &actions)
        case .failed(let connection, let error):
            guard connection == self.connection, case .connecting = phase else { return }
            attemptFailed(error, at: now, using: &random, &actions)
        }
    }

    /// Handles one event of the conversation, and appends the actions that follow from it.
    package mutating func handle(
        _ event: ConversationEvent,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        let count = actions.count
        defer { adaptive?.noteSending(actions[count...], at: now) }
        if case .closed(let reason) = phase { return afterEnd(event, reason, at: now, &actions) }
        switch event {
        case .received(let connection, let payload): received(connection, payload, at: now, using: &random, &actions)
        case .submit(let id, let payload): submit(id, payload, at: now, &actions)
        case .pong(let connection, let time):
            guard connection == self.connection else { return }
            if case .awaitingWelcome(var welcome) = phase {
                welcome.isAlive = true
                phase = .awaitingWelcome(welcome)
            }
            alive(at: now, &actions)
            actions.append(.note(.roundTrip(time)))
        case .ended(let connection, let reason): ended(connection, reason, at: now, using: &random, &actions)
        case .close(let reason): close(reason, at: now, &actions)
        case .deadlineReached(let signs): deadlineReached(signs, at: now, using: &random, &actions)
        case .storedSession(let incarnation, let processed):
            guard incarnation == self.incarnation else { return }
            link.delivery.storedSession(processed: processed, at: now, &actions)
        case .storedMarks(let count): link.delivery.storedMarks(count, &actions)
        case .settled, .reading, .discarded, .stored, .notStored, .cancel, .acknowledgesAfterProcessing, .processed:
            link.handle(event, at: now, &actions)
        }
    }

    /// The time at which ``ConversationEvent/deadlineReached(_:)`` is due, or `nil` for never. The getter is `mutating`, because
    /// reading it from a machine in a class would otherwise copy the machine.
    package var deadline: Instant? {
        mutating get {
            let own: Instant?
            switch phase {
            case .closed: return nil
            case .idle(.due(let due)): own = due
            case .idle, .offline, .suspended: own = nil
            case .connecting(let attempt): own = attempt.deadline
            case .waiting(let deadline): own = deadline
            case .awaitingWelcome(let welcome):
                own = earlier(welcome.deadline, earlier(welcome.helloRetry, welcome.ping))
            case .open: own = link.keepalive?.deadline
            }
            return earlier(own, link.delivery.deadline)
        }
    }

    /// Handles an event after the end. Messages that a connection had not settled still end.
    private mutating func afterEnd(
        _ event: ConversationEvent,
        _ reason: CloseReason,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        switch event {
        case .submit(let id, _):
            let failure = reason.initiator == .user ? nil : reason.asError
            let error = failure ?? TransportError(.closedByUser, .open, "the supervisor has ended")
            actions.append(.finish(id, .rejected(error)))
        case .settled, .cancel: link.handle(event, at: now, &actions)
        default: break
        }
    }

    /// Whether it has ended for good, and all messages with it. The getter is `mutating` for the same reason as that of
    /// ``deadline``.
    package var hasFinishedAll: Bool {
        mutating get { link.delivery.hasFinishedAll }
    }

    private mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        if case .idle(.none) = phase { phase = .idle(idleReport(due: now)) }
        link.delivery.submit(id, payload, at: now, &actions)
    }

    private mutating func deadlineReached(
        _ signs: SignsOfLife,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        link.delivery.deadlineReached(at: now, &actions)
        switch phase {
        case .idle(.due(let due)) where due <= now:
            phase = .idle(.made)
            actions.append(.note(.notConnecting))
        case .connecting(let attempt) where attempt.deadline <= now:
            actions.append(.abandon(connection: connection))
            attemptFailed(.timedOut(in: attempt.step), at: now, using: &random, &actions)
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
            if let due = link.keepalive?.deadline, GracePeriod.isLate(due, at: now) { adaptive?.disturbed(at: now) }
            switch link.keepalive?.deadlineReached(signs, at: now) {
            case .probe:
                adaptive?.probed(at: now)
                link.sendProbe(at: now, &actions)
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

// Requests of the app and changes of the network: pause, another path, end.

extension SupervisorStateMachine {
    mutating func suspend(at now: Instant, _ actions: inout [SupervisorAction]) {
        var connects = true
        switch phase {
        case .suspended: return
        case .idle: connects = false
        case .open(let open):
            accepted()
            judgeStability(since: open.since, at: now)
        case .connecting, .awaitingWelcome, .waiting, .offline, .closed: break
        }
        dropConnection(CloseReason(.user, text: "suspended"), at: now, &actions)
        enter(.suspended(connects: connects), .suspended, &actions)
    }

    mutating func resume(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard case .suspended(let connects) = phase else { return }
        budget.resumed(at: now)
        guard connects else {
            let report = link.delivery.hasFinishedAll ? IdleReport.none : idleReport(due: now)
            return enter(.idle(report), .idle, &actions)
        }
        attempt(at: now, &actions)
    }

    private func idleReport(due now: Instant) -> IdleReport { .due(now.advanced(by: Self.idleReportTime)) }

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
            link.keepalive?.online(path.isUsable, at: now)
            link.delivery.networkChanged()
            adaptive?.disturbed(at: now)
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
        link.detach(at: now, &actions)
    }

    // MARK: The end

    mutating func close(_ reason: CloseReason, at now: Instant, _ actions: inout [SupervisorAction]) {
        // The next process continues a session that is stored.
        if isOpen, link.delivery.style == .session, !link.delivery.isStored {
            actions.append(.transmit(connection, nil, SessionFrame.bye.payload))
        }
        dropConnection(reason, at: now, &actions)
        end(reason, &actions)
    }

    mutating func giveUp(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        end(reason, &actions)
    }

    private mutating func end(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        link.delivery.finishAll(reason.asError, &actions)
        enter(.closed(reason), .closed(reason), &actions)
    }
}

// Attempts: the first connection, and reconnecting after a loss.

extension SupervisorStateMachine {
    mutating func connectNow(at now: Instant, _ actions: inout [SupervisorAction]) {
        switch phase {
        case .idle, .waiting, .offline: attempt(at: now, &actions)
        case .suspended: phase = .suspended(connects: true)
        case .connecting, .awaitingWelcome, .open, .closed: break
        }
    }

    /// Makes the next attempt, if there is a network.
    mutating func attempt(at now: Instant, _ actions: inout [SupervisorAction]) {
        budget.begins(at: now)
        guard path.isUsable else { return enter(.offline, .offline, &actions) }
        link.connection += 1
        enter(
            .connecting(Attempt(deadline: now.advanced(by: configuration.connectTimeout))),
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
        token: String?,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard connection == self.connection, case .connecting(let attempt) = phase else {
            // The attempt was given up. There are never two live connections.
            return actions.append(.abandon(connection: connection))
        }
        link.connected(connection, capabilities)
        if credentials == .refused { credentials = .fresh }
        let style = Delivery.style(configuration.delivery, capabilities)
        if style == .origin, !capabilities.acknowledgesMessages {
            actions.append(.abandon(connection: connection))
            let error = TransportError.configuration("endpoint", TransportError.sessionWithoutAcknowledgements)
            return attemptFailed(error, at: now, using: &random, &actions)
        }
        guard style == .session else {
            let peer = capabilities.acknowledgesMessages ? Peer.speaks : .silent
            return opened(peer, isResumed: false, at: now, &actions)
        }
        link.delivery.forgetOvertaking()
        // Missing answers over the connection before do not apply to this one.
        link.delivery.roundTrip.answered()
        var welcome = AwaitedWelcome(deadline: attempt.deadline, isPeerVerified: isVerified, token: token)
        if capabilities.hasNativePing { welcome.ping = now.advanced(by: now.duration(to: attempt.deadline) / 2) }
        sendHello(&welcome, at: now, &actions)
        phase = .awaitingWelcome(welcome)
    }

    /// Sends the hello, and schedules its repetition if the connection can lose it.
    private mutating func sendHello(
        _ welcome: inout AwaitedWelcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        welcome.helloRetry =
            link.capabilities.isReliable ? nil : now.advanced(by: link.delivery.roundTrip.timeout)
        let hello = ClientHello(
            incarnation: incarnation,
            received: link.delivery.tellReceived(),
            attempt: UInt32(launch) << 16 | UInt32(min(connection, 0xffff)),
            limit: SessionFrame.messageLimit(link.capabilities),
            numbering: link.delivery.numbering,
            token: welcome.token
        )
        actions.append(.transmit(connection, nil, SessionFrame.hello(link.delivery.identity, hello).payload))
    }

    /// The connection is open for messages.
    ///
    /// - Parameter peerLimit: In a session, the largest message that the server accepts, in bytes of its payload.
    mutating func opened(
        _ peer: Peer,
        isResumed: Bool,
        peerLimit: Int = .max,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        rotation.opened()
        link.watch(by: probe, at: now)
        adaptive?.opened(at: now)
        adaptInterval(&actions)
        link.delivery.attach(connection, link.capabilities, peerLimit: peerLimit)
        let state = SupervisorState.open(endpoints[endpoint], isResumed: isResumed)
        enter(.open(OpenConnection(since: now, peer: peer)), state, &actions)
        link.delivery.flush(at: now, &actions)
    }

    /// The probe of a connection of these capabilities, if there is one.
    private var probe: PeerLink.Probe? {
        switch configuration.keepalive.probe {
        case .payload(let payload, let answer): .payload(payload, isAnswered: answer != nil)
        case .automatic where Delivery.style(configuration.delivery, link.capabilities) == .session: .frame
        case .automatic: link.capabilities.hasNativePing ? .native : nil
        }
    }

    mutating func attemptFailed(
        _ error: TransportError,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        var error = error
        // The state machine itself makes the errors for a peer that does not answer the hello as a session server does.
        if case .awaitingWelcome(let welcome) = phase, error.origin == .unstated {
            error.origin = welcome.isPeerVerified ? .peer : .path
        }
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
        let open: OpenConnection
        switch phase {
        case .awaitingWelcome:
            return attemptFailed(reason.asError.insteadOfWelcome, at: now, using: &random, &actions)
        case .open(let now): open = now
        case .idle, .connecting, .waiting, .offline, .suspended, .closed: return
        }
        var reason = reason
        if open.peer == .expectsSession, reason.initiator == .peer, reason.error == nil, reason.code == nil {
            reason = CloseReason(.sessionsOnly)
        }
        actions.append(.note(.connectionEnded(endpoints[endpoint], reason)))
        if link.probe?.isAnswered == true { adaptive?.ended(link.keepalive, on: path.network, at: now) }
        let evidence = Blame.Evidence(reason)
        link.detach(evidence, at: now, &actions)
        rotation.ended()
        budget.failed()
        let stage: RetryPolicy.Stage =
            if evidence.namesMessage && open.peer == .speaks { .refusedMessage } else {
                // A connection can open before the peer has accepted it (MQTT with `early-publish=on`).
                reason.error?.phase == .handshake ? .early : .open
            }
        if stage != .early { accepted(hasRefused: reason.error?.code == .authenticationFailed) }
        let decision = decision(reason.error, stage)
        if stage != .early {
            judgeStability(since: open.since, at: now, keepsSetAside: decision == .setAside(.untilAnotherIsStable))
        }
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
    private mutating func judgeStability(since openedAt: Instant, at now: Instant, keepsSetAside: Bool = false) {
        guard openedAt.duration(to: now) >= configuration.stableAfter else { return }
        if !keepsSetAside { rotation.wasStable() }
        budget.wasStable(at: now)
    }

    mutating func enter(_ phase: Phase, _ state: SupervisorState, _ actions: inout [SupervisorAction]) {
        self.phase = phase
        actions.append(.state(state))
    }
}

// Events of an open connection.

extension SupervisorStateMachine {
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
            return link.delivery.leaveOut(at: now, &actions)
        }
        let style = Delivery.style(configuration.delivery, link.capabilities)
        do throws(TransportError) {
            switch style {
            case .plain: receivedPlain(payload, at: now, &actions)
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

    private mutating func receivedPlain(_ payload: Payload, at now: Instant, _ actions: inout [SupervisorAction]) {
        let isRefusal =
            payload.bytes.count == SessionFrame.helloExpected.count && payload.bytes == SessionFrame.helloExpected
        if case .open(var open) = phase, open.peer != .speaks {
            open.peer = isRefusal ? .expectsSession : .speaks
            phase = .open(open)
        }
        if isRefusal {
            link.delivery.leaveOut(at: now, &actions)
        } else {
            link.delivery.give(payload, at: now, &actions)
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
            case .origin(let sender, let sequence, let content, let isRepeated) = try SessionFrame(payload)
        else { return link.delivery.give(payload, at: now, &actions) }
        link.delivery.giveUnlessRepeated(
            sender,
            sequence,
            content,
            isRepeated: isRepeated,
            at: now,
            using: &random,
            &actions
        )
    }

    private mutating func receivedFrame(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch frame {
        case .welcome(let incarnation, let received, let limit, let numbering):
            try welcomed(incarnation, received, limit, numbering, at: now, &actions)
        case .refused(let refusal): throw refusal.error
        case .bye: throw TransportError(.closedByPeer, .open, "the peer has ended the session")
        case .message, .acknowledge, .skip:
            if isOpen { return try link.take(frame, at: now, &actions) }
            // The frame has overtaken the welcome. A connection that loses messages brings it again.
            if link.capabilities.isReliable { try link.delivery.keepOvertaking(frame) }
        case .ping, .pong: try link.take(frame, at: now, &actions)
        case .hello, .origin: throw .envelope("a server does not send this frame")
        }
    }

    private mutating func welcomed(
        _ incarnation: UInt64,
        _ received: UInt64,
        _ limit: UInt64,
        _ numbering: SessionNumbering,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard case .awaitingWelcome = phase else { return }
        let isResumed = incarnation == self.incarnation
        if isResumed {
            link.delivery.resume(numbering)
            try link.delivery.acknowledge(through: received, at: now, &actions)
        } else {
            if self.incarnation != 0 { actions.append(.note(.sessionLost)) }
            link.delivery.restart(numbering)
            self.incarnation = incarnation
            if link.delivery.isStored { actions.append(.storeProcessed(numbering.ended)) }
        }
        opened(.speaks, isResumed: isResumed, peerLimit: Int(clamping: limit), at: now, &actions)
        try link.delivery.takeOvertaking(at: now, &actions)
    }
}

// The search for a longer keepalive interval.

extension SupervisorStateMachine {
    /// Sets the connection's interval to the one of the search. Without answers to probes there is no search.
    private mutating func adaptInterval(_ actions: inout [SupervisorAction]) {
        guard link.probe?.isAnswered == true, let interval = adaptive?.interval(on: path.network),
            interval != link.keepalive?.interval
        else { return }
        link.keepalive?.interval = interval
        actions.append(.note(.keepaliveInterval(interval)))
    }

    /// Records a sign of life of the connection.
    mutating func alive(at now: Instant, _ actions: inout [SupervisorAction]) {
        if adaptive?.alive(link.keepalive, on: path.network, at: now) == true { adaptInterval(&actions) }
        link.keepalive?.received(at: now)
    }
}
