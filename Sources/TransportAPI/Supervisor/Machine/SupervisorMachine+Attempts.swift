// From nothing to a link, and from a lost link to the next.

extension SupervisorMachine {
    mutating func connectNow(at now: Instant, _ actions: inout [SupervisorAction]) {
        switch phase {
        case .idle, .waiting, .offline: attempt(at: now, &actions)
        case .connecting, .greeting, .open, .suspended, .closed: break
        }
    }

    /// Makes the next attempt, if there is a network.
    mutating func attempt(at now: Instant, _ actions: inout [SupervisorAction]) {
        if lostAt == nil { lostAt = now }
        guard path.isUsable else { return enter(.offline, .offline, &actions) }
        link += 1
        enter(
            .connecting(now.advanced(by: configuration.connectTimeout)),
            .connecting(attempt: failures + 1, endpoints[endpoint]),
            &actions
        )
        actions.append(
            .connect(link: link, endpoint: endpoint, timeout: configuration.connectTimeout, refreshing: mustRefresh)
        )
    }

    mutating func connected(
        _ link: Int,
        _ capabilities: Capabilities,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard link == self.link, case .connecting(let deadline) = phase else {
            // Of an attempt that was given up: never two live links.
            return actions.append(.abandon(link: link))
        }
        self.capabilities = capabilities
        mustRefresh = false
        guard Delivery.style(configuration.delivery, capabilities) == .session else {
            return opened(isResumed: false, at: now, &actions)
        }
        phase = .greeting(deadline)
        delivery.forgetOvertaking()
        // That nothing came back over the link before says nothing of this one.
        delivery.roundTrip.answered()
        greet(at: now, &actions)
    }

    /// Says who we are, and says it again where it may have got lost.
    mutating func greet(at now: Instant, _ actions: inout [SupervisorAction]) {
        helloRetry = capabilities.isReliable ? nil : now.advanced(by: delivery.roundTrip.timeout)
        let hello = SessionFrame.hello(
            delivery.identity,
            incarnation: incarnation,
            received: delivery.tellReceived(),
            attempt: UInt32(launch) << 16 | UInt32(min(link, 0xffff))
        )
        actions.append(.transmit(link, nil, hello.payload))
    }

    /// Messages may flow.
    mutating func opened(isResumed: Bool, at now: Instant, _ actions: inout [SupervisorAction]) {
        openedAt = now
        goodEndpoint = endpoint
        failedInRound = []
        notBefore[endpoint] = nil
        hopeless = []
        // Without anything to ask with there is no keepalive, not even after a change of the network.
        keepalive =
            canProbe
            ? Keepalive(configuration.keepalive, over: capabilities, isAnswered: isProbeAnswered, at: now) : nil
        idleSince = now
        lastSent = now
        adaptInterval(&actions)
        if !isReading { keepalive?.reading(false, at: now) }
        delivery.attach(link, capabilities)
        enter(.open, .open(endpoints[endpoint], isResumed: isResumed), &actions)
        delivery.flush(at: now, &actions)
    }

    mutating func attemptFailed(
        _ error: TransportError,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        actions.append(.note(.attemptFailed(endpoints[endpoint], error)))
        failures += 1
        if error.code == .authenticationFailed {
            guard hasRefreshed else {
                (hasRefreshed, mustRefresh) = (true, true)
                return attempt(at: now, &actions)
            }
            return giveUp(CloseReason(error), &actions)
        }
        if error.isRetryable { failedInRound.insert(endpoint) } else { hopeless.insert(endpoint) }
        guard hopeless.count < endpoints.count else { return giveUp(CloseReason(error), &actions) }
        noteWish(of: error, at: now)
        // All endpoints are tried before the first pause, but for those that want to be left alone.
        let isRoundOver = endpoints.indices.allSatisfy {
            hopeless.contains($0) || failedInRound.contains($0) || notBefore[$0, default: now] > now
        }
        endpoint = nextEndpoint(at: now)
        retry(CloseReason(error), after: isRoundOver ? nil : .zero, at: now, using: &random, &actions)
    }

    /// A server may ask to be left alone for a while (Retry-After).
    private mutating func noteWish(of error: TransportError, at now: Instant) {
        guard let asked = error.retryAfter else { return }
        notBefore[endpoint] = now.advanced(by: min(asked, Self.longestRetryAfter))
    }

    /// The first in turn that does not want to be left alone, or else the one that wants it for the shortest time.
    private func nextEndpoint(at now: Instant) -> Int {
        let turn = (1...endpoints.count).map { (endpoint + $0) % endpoints.count }.filter { !hopeless.contains($0) }
        func time(_ endpoint: Int) -> Instant { max(now, notBefore[endpoint, default: now]) }
        return turn.min { time($0) < time($1) } ?? endpoint
    }

    /// Plans the next attempt, unless a limit says that there is none.
    private mutating func retry(
        _ reason: CloseReason,
        after given: Duration?,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        if let most = configuration.maximumAttempts, failures >= most { return giveUp(reason, &actions) }
        guard path.isUsable else { return enter(.offline, .offline, &actions) }
        var delay = Duration.zero
        if let given {
            delay = given
        } else {
            failedInRound = []
            guard let next = backoff.next(using: &random) else { return giveUp(reason, &actions) }
            delay = next
        }
        if let time = notBefore[endpoint] { delay = max(delay, now.duration(to: time)) }
        if let most = configuration.maximumElapsed, let lostAt, lostAt.duration(to: now.advanced(by: delay)) > most {
            return giveUp(reason, &actions)
        }
        enter(.waiting(now.advanced(by: delay)), .waiting(delay, reason), &actions)
    }

    /// A server may ask for no longer than this.
    static let longestRetryAfter = Duration.seconds(3600)

    mutating func ended(
        _ link: Int,
        _ reason: CloseReason,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard link == self.link else { return }
        switch phase {
        case .greeting:
            return attemptFailed(reason.asError, at: now, using: &random, &actions)
        case .open: break
        case .idle, .connecting, .waiting, .offline, .suspended, .closed: return
        }
        actions.append(.note(.linkEnded(endpoints[endpoint], reason)))
        noteDeath(at: now)
        leaveLink(&actions)
        endpoint = goodEndpoint
        failures += 1
        judgeStability(at: now)
        guard let error = reason.error else {
            return retry(reason, after: nil, at: now, using: &random, &actions)
        }
        noteWish(of: error, at: now)
        if notBefore[endpoint, default: now] > now { endpoint = nextEndpoint(at: now) }
        switch error.code {
        case .authenticationFailed where !hasRefreshed:
            (hasRefreshed, mustRefresh) = (true, true)
            attempt(at: now, &actions)
        // What an open link breaks by may go well on the next one, but for these.
        case .authenticationFailed, .forbidden, .certificateRejected, .invalidConfiguration, .unsupported:
            giveUp(reason, &actions)
        default: retry(reason, after: nil, at: now, using: &random, &actions)
        }
    }

    /// The open link is over: if it was stable, everything is counted anew.
    mutating func judgeStability(at now: Instant) {
        guard openedAt.duration(to: now) >= configuration.stableAfter else { return }
        backoff.reset()
        failures = 0
        hasRefreshed = false
        lostAt = now
    }

    mutating func leaveLink(_ actions: inout [SupervisorAction]) {
        keepalive = nil
        helloRetry = nil
        delivery.detach()
    }

    mutating func enter(_ phase: Phase, _ state: SupervisorState, _ actions: inout [SupervisorAction]) {
        self.phase = phase
        actions.append(.state(state))
    }
}
