/// Keeps one link alive over a list of endpoints, as a value that does no I/O: events in, actions out, next deadline out; the
/// time and random numbers come in as arguments, so that a test can run it for years.
///
/// Each attempt and the link that it gives carry a number; whatever an older number reports changes nothing.
package struct SupervisorMachine: Sendable {
    enum Phase: Sendable, Hashable {
        case idle
        /// An attempt is under way, until the deadline.
        case connecting(Instant)
        /// The link is there; the far side's answer to our hello is not, until the deadline.
        case greeting(Instant)
        case open
        /// The next attempt is at this time.
        case waiting(Instant)
        case offline, suspended
        case closed
    }

    let configuration: SupervisorConfiguration
    let endpoints: [Endpoint]
    var phase = Phase.idle
    /// The number of the present attempt or link.
    package internal(set) var link = 0
    /// Which endpoint the present attempt or link is to, and which worked last.
    var endpoint = 0
    var goodEndpoint = 0
    /// Endpoints that retrying can't mend.
    var hopeless: Set<Int> = []
    /// Until when endpoints want to be left alone.
    var notBefore: [Int: Instant] = [:]
    /// The endpoints that have failed in this round through them.
    var failedInRound: Set<Int> = []
    /// Attempts that have failed since the last stable link.
    var failures = 0
    var backoff: Backoff
    /// Since when there has been no stable link.
    var lostAt: Instant?
    var openedAt = Instant.zero
    /// The credentials were refused, and others have been asked for since.
    var hasRefreshed = false
    /// Others are still to be asked for: an attempt that was to do so may have ended before they came.
    var mustRefresh = false
    var path = NetworkPath(isUsable: true)
    var capabilities = Capabilities(maximumMessageSize: 0)
    var keepalive: Keepalive?
    package internal(set) var adaptive: AdaptiveKeepalive?
    /// When something other than a probe was handed to the link last, which keeps a NAT from forgetting it.
    var lastSent = Instant.zero
    /// When a probe was.
    var lastProbed = Instant.zero
    /// Since when nothing but a probe has gone over the link, either way.
    var idleSince = Instant.zero
    package internal(set) var delivery: Delivery
    /// Which incarnation of the session the server has; 0 if none is known.
    var incarnation: UInt64 = 0
    /// How often the session's client has been started.
    let launch: UInt16
    var helloRetry: Instant?
    var pingToken: UInt32 = 0
    var pingSentAt: Instant?
    var isReading = true

    /// A machine for these endpoints, of which there must be at least one.
    ///
    /// - Parameters:
    ///   - intervals: what was learned of networks before.
    ///   - client: its identity towards a session server; random if that is not given.
    package init(
        _ configuration: SupervisorConfiguration,
        endpoints: [Endpoint],
        intervals: AdaptiveInterval? = nil,
        client: SessionClient? = nil,
        using random: inout RandomSource
    ) {
        self.configuration = configuration
        self.endpoints = endpoints
        backoff = Backoff(configuration.backoff)
        delivery = Delivery(configuration, identity: client?.id ?? SessionID(using: &random))
        launch = client?.launch ?? 0
        if configuration.keepalive.interval != .off, let adaptive = configuration.keepalive.adaptive {
            self.adaptive = AdaptiveKeepalive(adaptive, knowing: intervals)
        }
    }

    /// How many messages the app was given and has not processed in their order. `mutating` as ``deadline`` is.
    package var unprocessedCount: Int {
        mutating get { delivery.unprocessed?.count ?? 0 }
    }

    /// Whether it has ended for good.
    package var isOver: Bool { phase == .closed }

    /// What can happen to a machine.
    package enum Event: Sendable {
        /// Start, or connect now instead of waiting.
        case connect
        /// The app goes to the background: the link is closed, nothing is tried.
        case suspend
        /// The app is back.
        case resume
        case path(NetworkPath)
        /// The attempt has given a link.
        case connected(Int, Capabilities)
        case failed(Int, TransportError)
        case received(Int, Payload)
        /// The link's own ping was answered.
        case pong(Int, Duration)
        case ended(Int, CloseReason)
        /// What became of a message that the link was handed.
        case settled(Int, MessageID, SendOutcome)
        /// The messages that were received are not taken, so that nothing is read; or they are again.
        case reading(Bool)
        /// There is no room for messages, which are read all the same; or there is again.
        case taking(Bool)
        /// The app acknowledges messages from now on, once it has processed them.
        case acknowledgesAfterProcessing
        /// It has processed the message of this key, or has let go of it without doing so.
        case processed(UInt64, isAbandoned: Bool)
        case submit(MessageID, Payload)
        case cancel(MessageID)
        case close(CloseReason)
        /// The time has come; the link has received so many bytes.
        case tick(bytesReceived: UInt64)
    }

    /// Takes one event; appends what is to be done.
    package mutating func handle(
        _ event: Event,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        let count = actions.count
        defer { if adaptive != nil { noteSending(actions[count...], at: now) } }
        if case .submit(let id, let payload) = event { return submit(id, payload, at: now, &actions) }
        if phase == .closed { return reject(event, &actions) }
        switch event {
        case .connect: connectNow(at: now, &actions)
        case .suspend: suspend(at: now, &actions)
        case .resume: resume(at: now, &actions)
        case .path(let path): changed(path, at: now, &actions)
        case .connected(let link, let capabilities): connected(link, capabilities, at: now, &actions)
        case .failed(let link, let error):
            guard link == self.link, case .connecting = phase else { return }
            attemptFailed(error, at: now, using: &random, &actions)
        case .received(let link, let payload): received(link, payload, at: now, using: &random, &actions)
        case .pong(let link, let time):
            guard link == self.link else { return }
            alive(at: now, &actions)
            actions.append(.note(.roundTrip(time)))
        case .ended(let link, let reason): ended(link, reason, at: now, using: &random, &actions)
        case .settled(let link, let id, let outcome): delivery.settled(id, on: link, outcome, at: now, &actions)
        case .reading(let isReading): reading(isReading, at: now)
        case .taking(let isTaking): delivery.taking(isTaking, &actions)
        case .acknowledgesAfterProcessing: delivery.acknowledgeAfterProcessing()
        case .processed(let key, let isAbandoned): delivery.processed(key, isAbandoned: isAbandoned, &actions)
        case .cancel(let id): delivery.cancel(id, at: now, &actions)
        case .close(let reason): close(reason, &actions)
        case .tick(let bytes): tick(bytes, at: now, using: &random, &actions)
        case .submit: break
        }
    }

    /// When ``Event/tick(bytesReceived:)`` is due; `nil`: never. `mutating`, so that it is asked where the machine lies: asking
    /// a machine in a class otherwise copies it.
    package var deadline: Instant? {
        mutating get {
            let own: Instant?
            switch phase {
            case .closed: return nil
            case .idle, .offline, .suspended: own = nil
            case .connecting(let deadline), .waiting(let deadline): own = deadline
            case .greeting(let deadline): own = earlier(deadline, helloRetry)
            case .open: own = keepalive?.deadline
            }
            return earlier(own, delivery.deadline)
        }
    }

    /// A link that reports to a machine that has closed must still be let go, and a caller still be told.
    private func reject(_ event: Event, _ actions: inout [SupervisorAction]) {
        if case .connected(let link, _) = event { actions.append(.abandon(link: link)) }
    }

    private mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard phase != .closed else {
            return actions.append(
                .finish(id, .rejected(TransportError(.closedByUser, .open, "the supervisor has ended")))
            )
        }
        delivery.submit(id, payload, at: now, &actions)
    }

    private mutating func reading(_ isReading: Bool, at now: Instant) {
        self.isReading = isReading
        keepalive?.reading(isReading, at: now)
    }

    private mutating func tick(
        _ bytes: UInt64,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        delivery.tick(at: now, &actions)
        switch phase {
        case .connecting(let deadline) where deadline <= now:
            actions.append(.abandon(link: link))
            attemptFailed(.timedOut(.connect), at: now, using: &random, &actions)
        case .greeting(let deadline) where deadline <= now:
            actions.append(.abandon(link: link))
            attemptFailed(.timedOut(.handshake), at: now, using: &random, &actions)
        case .greeting:
            if let helloRetry, helloRetry <= now { greet(at: now, &actions) }
        case .waiting(let time) where time <= now: attempt(at: now, &actions)
        case .open:
            switch keepalive?.tick(bytesReceived: bytes, at: now) {
            case .probe: probe(at: now, &actions)
            case .dead:
                let error = TransportError(.keepaliveTimeout, .open, "the far side did not answer")
                actions.append(.abandon(link: link))
                ended(link, CloseReason(error), at: now, using: &random, &actions)
            case .wait, nil: break
            }
        default: break
        }
    }
}

extension TransportError {
    static func timedOut(_ phase: Phase) -> TransportError {
        TransportError(.timedOut, phase, "the attempt took too long")
    }
}
