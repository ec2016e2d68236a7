/// The part of a conversation that is alike for both sides: the messages of both directions, the connection that carries
/// them, and the checks that its peer is alive. A value that does no I/O; both state machines contain one.
///
/// The machine decides which connection is used and when it has ended. For a new one it calls ``connected(_:_:)``, then
/// ``watch(by:at:)`` and `delivery.attach`, and at its end ``detach(_:at:_:)``.
package struct PeerLink: Sendable {
    /// The message that asks the peer for a sign of life.
    enum Probe: Sendable, Hashable {
        /// The ping frame of the session.
        case frame
        /// The ping of the connection's protocol.
        case native
        /// A message of the app's own heartbeat. Without an answer, it only keeps the path open.
        case payload(Payload, isAnswered: Bool)

        /// Whether the peer answers it, so that silence afterwards has a meaning.
        var isAnswered: Bool {
            if case .payload(_, let isAnswered) = self { isAnswered } else { true }
        }
    }

    private let configuration: KeepaliveConfiguration
    package internal(set) var delivery: Delivery
    /// The number of the current connection; 0 if there is none.
    package internal(set) var connection = 0
    private(set) var capabilities = Capabilities(maximumMessageSize: 0)
    /// The keepalive of the open connection, unless there is no probe.
    var keepalive: Keepalive?
    /// The probe of the open connection.
    private(set) var probe: Probe?
    private var pings = SessionPings()
    private var isReading = true

    init(_ configuration: SupervisorConfiguration, identity: SessionID, sender: UInt64, isStored: Bool = false) {
        self.configuration = configuration.keepalive
        delivery = Delivery(configuration, identity: identity, sender: sender, isStored: isStored)
    }

    // MARK: The connection

    /// A connection of these capabilities has opened. It carries no messages yet.
    mutating func connected(_ connection: Int, _ capabilities: Capabilities) {
        self.connection = connection
        self.capabilities = capabilities
    }

    /// From now on the peer is probed. Without a probe there is no keepalive, not even after a change of the network.
    mutating func watch(by probe: Probe?, at now: Instant) {
        self.probe = probe
        keepalive = probe.map {
            Keepalive(configuration, over: capabilities, isAnswered: $0.isAnswered, at: now)
        }
        if !isReading { keepalive?.reading(false, at: now) }
    }

    /// The connection has ended or is given up.
    ///
    /// - Parameter evidence: The conclusion from the end about the messages in flight.
    mutating func detach(
        _ evidence: Blame.Evidence = .none,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        (keepalive, probe) = (nil, nil)
        delivery.detach(evidence, at: now, &actions)
    }

    /// Sends a probe.
    mutating func sendProbe(at now: Instant, _ actions: inout [SupervisorAction]) {
        switch probe {
        case .frame: actions.append(.transmit(connection, nil, SessionFrame.ping(pings.next(at: now)).payload))
        case .native: actions.append(.ping(connection: connection))
        case .payload(let payload, _): actions.append(.transmit(connection, nil, payload))
        case nil: break
        }
    }

    // MARK: Events

    /// Takes a frame that both sides of a session send.
    mutating func take(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch frame {
        case .ping(let token): actions.append(.transmit(connection, nil, SessionFrame.pong(token).payload))
        case .pong(let token):
            if let time = pings.answered(token, at: now) { actions.append(.note(.roundTrip(time))) }
        case .message, .acknowledge, .skip: try delivery.take(frame, at: now, &actions)
        case .hello, .welcome, .refused, .bye, .origin: break
        }
    }

    /// Handles an event on which both sides act alike. The machine handles the others, which depend on its state.
    mutating func handle(_ event: ConversationEvent, at now: Instant, _ actions: inout [SupervisorAction]) {
        switch event {
        case .settled(let connection, let id, let outcome):
            delivery.settled(id, on: connection, outcome, at: now, &actions)
        case .reading(let reading):
            isReading = reading != .nothing
            keepalive?.reading(isReading, at: now)
            delivery.taking(reading == .all, &actions)
        case .discarded(let message): actions.append(.note(.discarded(message)))
        case .stored(let id): delivery.stored(through: id, at: now, &actions)
        case .notStored(let ids, let error): delivery.notStored(ids, error, at: now, &actions)
        case .cancel(let id): delivery.cancel(id, at: now, &actions)
        case .acknowledgesAfterProcessing: delivery.acknowledgeAfterProcessing()
        case .processed(let key, let isAbandoned): delivery.processed(key, isAbandoned: isAbandoned, &actions)
        case .received, .pong, .ended, .submit, .storedSession, .storedMarks, .close, .deadlineReached: break
        }
    }

    /// The number of messages that the app was given and has not processed in their order. The getter is `mutating`,
    /// because reading it from a value in a class would otherwise copy the value.
    var unprocessedCount: Int {
        mutating get { delivery.unprocessed?.count ?? 0 }
    }

    /// Whether an acknowledgement of the message of this key still has an effect.
    func isUnprocessed(_ key: UInt64) -> Bool { delivery.unprocessed?.contains(key) ?? false }
}

/// The ping of a session that is in flight. The peer answers with the ping's number, so the answer to an earlier ping gives
/// no round trip that is too short.
struct SessionPings: Sendable {
    private var last: UInt32 = 0
    private var sentAt: Instant?

    /// Returns the number of a ping that is sent now.
    mutating func next(at now: Instant) -> UInt32 {
        last &+= 1
        sentAt = now
        return last
    }

    /// Returns the round-trip time if this number is that of the last ping.
    func answered(_ number: UInt32, at now: Instant) -> Duration? {
        number == last ? sentAt?.duration(to: now) : nil
    }
}
