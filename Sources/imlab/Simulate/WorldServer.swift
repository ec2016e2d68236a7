import Primitives
import TransportAPI

/// The server of a world, with the session of its only client, and its app.
struct ServerSide {
    var session: ServerSessionStateMachine?
    var deadline: Instant?
    /// The sessions by their clients.
    var registry = SessionRegistry<UInt64>(capacity: 1)
    var inbox = Inbox()
    /// When its app has processed its messages.
    var busyUntil: Int64 = 0
    /// The fate of its messages.
    var checker = DeliveryChecker()
    /// Those that the client refuses.
    var refused: Set<UInt64> = []

    /// Drops the session, which has ended, or whose process has lost its memory.
    mutating func forgetSession() {
        session = nil
        if let client = registry.sessions.keys.first { registry.remove(client) }
    }
}

// The server's driver: sessions that outlive their connections, or one session for each connection.

extension World {
    /// Feeds the session an event and executes its actions.
    mutating func feedServer(_ event: ConversationEvent) {
        feedServer { session, now, actions in session.handle(event, at: now, &actions) }
    }

    /// Feeds the session an event and executes its actions.
    mutating func feedServer(_ event: ServerSessionStateMachine.Event) {
        feedServer { session, now, actions in session.handle(event, at: now, &actions) }
    }

    private mutating func feedServer(
        _ event: (inout ServerSessionStateMachine, Instant, inout [SupervisorAction]) -> Void
    ) {
        guard server.session != nil else { return }
        var actions = self.actions
        self.actions = []
        let epoch = scenario.kind == .plain ? 1 : server.session?.incarnation ?? 0
        server.session?.take(event, at: Instant(nanoseconds: clock.now), &actions)
        checkServer()
        for action in actions { applyAtServer(action, epoch) }
        if server.session?.isOver == true {
            settleRest(epoch)
            if server.session?.deadline != nil { fail(.end, "an ended session has a deadline") }
            server.forgetSession()
        }
        actions.removeAll(keepingCapacity: true)
        self.actions = actions
        server.deadline = server.session?.deadline
    }

    /// Reports the outcomes of the messages that the connections of an ended session still have.
    private mutating func settleRest(_ epoch: UInt64) {
        guard let outbox = server.session?.link.delivery.outbox else { return }
        var actions: [SupervisorAction] = []
        for position in 0..<outbox.count where outbox[position].handedTo != 0 {
            let entry = outbox[position]
            server.session?.handle(
                .settled(entry.handedTo, entry.id, .written),
                at: Instant(nanoseconds: clock.now),
                &actions
            )
        }
        for action in actions { applyAtServer(action, epoch) }
    }

    mutating func tickServer() {
        let connection = server.session?.connection ?? 0
        let bytes: UInt64 = connection == 0 ? 0 : network[connection].up.bytes
        feedServer(.deadlineReached(SignsOfLife(bytesReceived: bytes)))
    }

    private mutating func applyAtServer(_ action: SupervisorAction, _ epoch: UInt64) {
        record.log.write(now, "server -> \(action)")
        switch action {
        case .abandon(let connection):
            record.log.note(now, 40, connection)
            disconnectServer(connection, isAbrupt: true)
        case .transmit(let connection, let id, let payload):
            record.log.note(now, 41, connection, id?.number ?? 0)
            guard connection > 0, network[connection].isServerUp else {
                return fail(.oneConnection, "the server sends on connection \(connection), which is over")
            }
            if let id { clock.add(.serverSettled(connection, id, .written), at: now + Self.settling) }
            sendDown(connection, payload)
        case .complete(let connection, _, _, _):
            fail(
                .oneConnection,
                "the server requests the sends of another connection from \(connection), which completes none"
            )
        case .ping(let connection):
            record.log.note(now, 42, connection)
            if !scenario.capabilities.hasNativePing { fail(.oneConnection, "a ping on a connection without pings") }
            clock.add(.serverPong(connection), at: now + trip() + trip())
        case .close(let connection, let reason):
            record.log.note(now, 43, connection)
            if reason.error?.code == .protocolViolation { fail(.honesty, "the server: \(reason)") }
            disconnectServer(connection, isAbrupt: false)
        case .deliver(let payload):
            record.log.note(now, 44, payload.bytes.count)
            if mutation == .loseDelivery, roll(20) == 0 { return }
            if scenario.serverProcesses { return processAtServer(payload, 0, epoch) }
            note(client.checker.delivered(payload, epoch: epoch))
            answer(.server)
        case .deliverUnprocessed(let key, let payload, _, _):
            record.log.note(now, 46, payload.bytes.count, key)
            if mutation == .loseDelivery, roll(20) == 0 { return }
            processAtServer(payload, key, epoch)
        case .storeProcessed, .storeMark: fail(.honesty, "a server has no store")
        case .confirm: fail(.honesty, "a session confirms nothing to its connection")
        case .accepted(let id): note(server.checker.accepted(id))
        case .finish(let id, let outcome):
            record.log.note(now, 45, outcome.code, id.number)
            note(server.checker.finished(id, outcome, checksAcknowledgement: scenario.kind != .plain))
            checkSetAside(.server, id, outcome)
        case .connect: fail(.oneConnection, "a server does not connect")
        case .forget: fail(.honesty, "a server has no transport that completes messages")
        case .state, .note: break
        }
    }

    mutating func disconnectServer(_ connection: Int, isAbrupt: Bool) {
        guard connection > 0, network[connection].isServerUp else { return }
        network[connection].server = .gone
        guard !network[connection].isCut else { return }
        network[connection].isCut = true
        let reason = isAbrupt ? CloseReason(.network) : CloseReason(.peer, code: 1000)
        guard !network[connection].down.hasHole else { return }
        clock.add(.ended(connection, reason), at: max(network[connection].down.last, now + trip()))
    }

    mutating func handleAtServer(_ event: SimulatedEvent) {
        switch event {
        case .accepted(let connection, let closes):
            record.log.note(now, 50, connection)
            accept(connection, closes)
        case .serverReceived(let connection, let id, let payload):
            record.log.note(now, 51, connection, UInt64(payload.bytes.count))
            guard network.arrivesUp(connection, at: now) else { return }
            guard server.inbox.isRead || stage == .closing else { return server.inbox.hold(event) }
            if refusesUp(connection, payload) { return }
            network[connection].up.bytes += UInt64(payload.bytes.count)
            if scenario.kind == .origin { return publish(connection, id, payload) }
            if network[connection].server == .serving || scenario.kind == .plain {
                repeatOnPurpose(payload)
                feedServer(.received(connection, payload))
            } else {
                answerHello(connection, payload)
            }
        case .serverEnded(let connection, let reason):
            record.log.note(now, 52, connection)
            guard network[connection].isServerUp else { return }
            guard server.inbox.isRead || stage == .closing else { return server.inbox.hold(event) }
            network[connection].server = .gone
            let reason = arriving(reason, at: .server)
            feedServer(.ended(connection, reason))
        case .serverPong(let connection):
            guard network.arrivesUp(connection, at: now), network.arrivesDown(connection, at: now), server.inbox.isRead,
                network[connection].isClientUp
            else { return }
            feedServer(.pong(connection, .milliseconds(1)))
        case .serverSettled(let connection, let id, let outcome):
            feedServer(.settled(connection, id, outcome))
        case .brokerAcknowledged(let connection, let key):
            if network.arrivesUp(connection, at: now) { broker.queue.removeAll { $0.key == key } }
        default: break
        }
    }

    /// The server's app processes one message after the other. Each takes a random time.
    private mutating func processAtServer(_ payload: Payload, _ key: UInt64, _ epoch: UInt64) {
        server.busyUntil = max(server.busyUntil, now) + span(200_000_000)
        clock.add(.processed(.server, key, payload, epoch: epoch), at: server.busyUntil)
    }

    /// The server's app has processed a message, unless it was killed before. It acknowledges messages after a short time, in
    /// any order.
    mutating func processedAtServer(_ key: UInt64, _ payload: Payload, _ epoch: UInt64) {
        guard server.session?.incarnation == epoch else { return }
        note(client.checker.delivered(payload, epoch: epoch))
        answer(.server)
        if key != 0 { clock.add(.acknowledges(.server, key, epoch: epoch), at: now + span(100_000_000)) }
    }

    private mutating func accept(_ connection: Int, _ closes: Bool) {
        guard !network[connection].isCut else { return }
        network[connection].server = .accepted
        if closes { return disconnectServer(connection, isAbrupt: false) }
        switch scenario.kind {
        case .plain:
            if server.session != nil {
                let old = server.session?.connection ?? 0
                disconnectServer(old, isAbrupt: true)
                feedServer(.ended(old, CloseReason(.network)))
            }
            begin(connection, hello: nil)
        case .origin:
            // A broker ends the connection that its client had before (MQTT 3.1.1, section 3.1.4).
            for old in 1..<connection { disconnectServer(old, isAbrupt: true) }
            for message in broker.queue { sendDown(connection, message.payload) }
        case .reliable, .lossy: break
        }
    }

    private mutating func begin(_ connection: Int, hello: ClientHello?) {
        let incarnation = random.next() | 1
        server.session = ServerSessionStateMachine(
            scenario.server,
            incarnation: incarnation,
            lifetime: scenario.lifetime,
            at: Instant(nanoseconds: now)
        )
        if scenario.serverProcesses, mutation != .acknowledgeOnReceipt {
            var actions: [SupervisorAction] = []
            server.session?.handle(.acknowledgesAfterProcessing, at: Instant(nanoseconds: clock.now), &actions)
        }
        attach(connection, hello)
    }

    private mutating func attach(_ connection: Int, _ hello: ClientHello?) {
        network[connection].server = .serving
        let (capabilities, mutation) = (scenario.capabilities, mutation)
        tellServerReading()
        feedServer { session, now, actions in
            session.handle(.attach(connection, capabilities, hello), at: now, &actions)
            if mutation == .keepOldConnection { actions.removeAll { if case .abandon = $0 { true } else { false } } }
        }
        let served = network.connections.count { $0.server == .serving }
        if served > 1 { fail(.oneConnection, "the session has \(served) connections") }
    }

    /// The first frame of a connection identifies the client.
    private mutating func answerHello(_ connection: Int, _ payload: Payload) {
        guard let frame = try? SessionFrame(payload), case .hello(let id, let hello) = frame else { return }
        if admission.fault == .full {
            sendDown(connection, SessionFrame.refused(.full).payload)
            return disconnectServer(connection, isAbrupt: false)
        }
        switch server.registry.decide(
            id,
            isMeant: { [session = server.session] _ in session?.isMeant(by: hello) != false }
        ) {
        case .resume: attach(connection, hello)
        case .replace:
            feedServer(.supersede)
            begin(connection, hello: hello)
            server.registry.insert(id, server.session?.incarnation ?? 0)
        case .begin:
            begin(connection, hello: hello)
            server.registry.insert(id, server.session?.incarnation ?? 0)
        case .refuse: fail(.honesty, "the only client was refused")
        }
    }

    private mutating func repeatOnPurpose(_ payload: Payload) {
        guard mutation == .dropDedupe, let frame = try? SessionFrame(payload), let session = server.session
        else { return }
        if case .message(let sequence, let content, _) = frame, sequence <= session.link.delivery.receiver.received {
            note(client.checker.delivered(content, epoch: session.incarnation))
        }
    }
}

extension ServerSessionStateMachine {
    /// Applies `event` to the session in place.
    fileprivate mutating func take(
        _ event: (inout ServerSessionStateMachine, Instant, inout [SupervisorAction]) -> Void,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        event(&self, now, &actions)
    }
}

/// A broker that delivers at least once, and the other client behind it.
struct Broker {
    /// The other client, whose connection never fails.
    var peer: SupervisorStateMachine
    /// Messages that the client has not confirmed.
    var queue: [(key: UInt64, payload: Payload)] = []
    private var lastKey: UInt64 = 0

    init(_ peer: SupervisorStateMachine) { self.peer = peer }

    /// Keeps a message of the other client until the client has confirmed it. Returns it with a number of the broker, which
    /// the client does not see.
    mutating func keep(_ payload: Payload) -> Payload {
        lastKey += 1
        var stamped = payload
        stamped.topic = String(lastKey)
        queue.append((lastKey, stamped))
        return stamped
    }
}

extension World {
    mutating func openPeer() {
        let now = Instant(nanoseconds: now)
        var actions: [SupervisorAction] = []
        broker.peer.handle(.connect, at: now, using: &random, &actions)
        broker.peer.handle(.connected(1, scenario.capabilities), at: now, using: &random, &actions)
        applyAtPeer(actions)
    }

    mutating func feedPeer(_ event: ConversationEvent) {
        record.log.write(now, "peer \(event)")
        var actions: [SupervisorAction] = []
        broker.peer.handle(event, at: Instant(nanoseconds: clock.now), using: &random, &actions)
        applyAtPeer(actions)
    }

    private mutating func applyAtPeer(_ actions: [SupervisorAction]) {
        for action in actions {
            record.log.write(now, "peer -> \(action)")
            switch action {
            case .transmit(_, let id, let payload):
                let stamped = broker.keep(payload)
                if network.live > 0, network[network.live].isServerUp { sendDown(network.live, stamped) }
                if let id { feedPeer(.settled(1, id, .acknowledged)) }
            case .deliver(let payload):
                record.log.note(now, 60, payload.bytes.count)
                if Self.isForged(payload) { continue }
                if mutation == .loseDelivery, roll(20) == 0 { continue }
                note(client.checker.delivered(payload, epoch: 1))
            case .accepted(let id): note(server.checker.accepted(id))
            case .finish(let id, let outcome):
                record.log.note(now, 61, outcome.code, id.number)
                note(server.checker.finished(id, outcome, checksAcknowledgement: false))
            default: break
            }
        }
    }

    /// The broker receives a message. It passes it on, sometimes twice, and acknowledges it.
    mutating func publish(_ connection: Int, _ id: MessageID?, _ payload: Payload) {
        if roll(4) == 0 { feedPeer(.received(1, forged(payload))) }
        feedPeer(.received(1, payload))
        if stage != .calming, roll(8) == 0 { feedPeer(.received(1, payload)) }
        guard let id, !network[connection].isCut else { return }
        let draw = PathModel.Draw(using: &random)
        guard case .arrives(let way, _) = network[connection].down.path.admit(0, draw, at: now) else { return }
        clock.add(.confirmed(connection, id), at: way.arrival)
    }

    /// A message of another client of the broker that forges the sender's identifier, with the same number or with one that
    /// the sender has not reached. No message of the sender may count as a duplicate of it.
    private mutating func forged(_ payload: Payload) -> Payload {
        guard case .origin(let sender, let sequence, _, _)? = try? SessionFrame(payload) else { return payload }
        return SessionFrame.origin(sender, sequence &+ UInt64(roll(2000)), Payload([0xff, 0xff])).payload
    }

    static func isForged(_ payload: Payload) -> Bool { payload.bytes == [0xff, 0xff] }

    /// The client's connection acknowledges a message. If the connection ends before, the broker sends it again on the next
    /// one.
    mutating func confirm(_ connection: Int, _ payload: Payload) {
        guard let topic = payload.topic, let key = UInt64(topic), !network[connection].isCut else { return }
        let draw = PathModel.Draw(using: &random)
        guard case .arrives(let way, _) = network[connection].up.path.admit(0, draw, at: now) else { return }
        clock.add(.brokerAcknowledged(connection, key), at: way.arrival)
    }
}
