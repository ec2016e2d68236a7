import CommandSupport
import Primitives
import TransportAPI

/// The connections of a world, by their numbers from 1 on.
struct NetworkState {
    private(set) var connections: [SimulatedConnection] = []
    /// The attempt or connection that the client has; 0 if none.
    private(set) var live = 0
    /// How often the network has ended a connection with only this message in flight.
    var aloneAtEnd: [UInt64: Int] = [:]

    subscript(connection: Int) -> SimulatedConnection {
        // Reading copies no connection.
        _read { yield connections[connection - 1] }
        _modify { yield &connections[connection - 1] }
    }

    /// The next attempt, which the client has now.
    mutating func begin(_ path: PathModel.Parameters) {
        connections.append(SimulatedConnection(path))
        live = connections.count
    }

    /// The client's end of a connection has ended.
    mutating func endAtClient(_ connection: Int) {
        self[connection].isClientUp = false
        if live == connection { live = 0 }
    }

    /// Whether the client still has this connection.
    func isLive(_ connection: Int) -> Bool {
        connection > 0 && connection <= connections.count && self[connection].isClientUp
    }

    /// Whether a packet to the server arrives now.
    func arrivesUp(_ connection: Int, at now: Int64) -> Bool {
        self[connection].isServerUp && self[connection].up.arrives(at: now)
    }

    /// Whether a packet to the client arrives now.
    func arrivesDown(_ connection: Int, at now: Int64) -> Bool { self[connection].down.arrives(at: now) }
}

/// The state of the endpoints and of the credentials, which decides the outcome of attempts.
struct Admission {
    /// The fault of new attempts.
    private(set) var fault: Fault?
    /// The versions of the credentials that the client has, and that the servers require.
    private var credentials = 0
    private var requiredCredentials = 0
    private(set) var hopeless: Set<Int> = []
    /// The endpoints that the client has opened a connection to.
    private(set) var opened: Set<Int> = []
    /// The endpoints that a captive portal has answered for before the client had ever opened a connection to them. The
    /// client may take them for wrong.
    private(set) var mistaken: Set<Int> = []

    var hasCredentials: Bool { credentials >= requiredCredentials }

    /// Begins a fault, unless the credentials are wrong for ever.
    mutating func begin(_ fault: Fault) {
        if self.fault != .credentialsForever { self.fault = fault }
    }

    mutating func end(_ fault: Fault) {
        if self.fault == fault { self.fault = nil }
    }

    /// Ends the fault of new attempts, unless the credentials are wrong for ever.
    mutating func calm() {
        if fault != .credentialsForever { fault = nil }
    }

    mutating func renewCredentials() { credentials = requiredCredentials }
    mutating func expireCredentials() { requiredCredentials += 1 }
    mutating func makeHopeless(_ endpoint: Int) { hopeless.insert(endpoint) }

    /// The client has opened a connection to an endpoint.
    mutating func open(_ endpoint: Int) {
        opened.insert(endpoint)
        mistaken.remove(endpoint)
    }

    /// A captive portal answers for an endpoint.
    mutating func answerFalsely(for endpoint: Int) {
        if !opened.contains(endpoint) { mistaken.insert(endpoint) }
    }
}

// The network of a world: attempts and packets.

extension World {
    mutating func connect(_ connection: Int, _ endpoint: Int, _ timeout: Duration, _ refreshing: Bool) {
        if network.live != 0 {
            fail(.oneConnection, "connection \(connection) is requested while \(network.live) exists")
        }
        guard connection == network.connections.count + 1 else {
            return fail(.oneConnection, "connection \(connection) follows \(network.connections.count)")
        }
        if !client.path.isUsable { fail(.oneConnection, "an attempt without a network") }
        network.begin(scenario.path)
        client.retries.attempts += 1
        if refreshing { client.retries.triggers += 1 }
        let pause = scenario.shortestPause
        if pause > 0,
            client.retries.attempts > scenario.endpoints.count * (Int(now / pause) + 2 + client.retries.triggers)
        {
            fail(.progress, "\(client.retries.attempts) attempts are more than the backoff allows")
        }
        if refreshing {
            clock.add(
                .refreshed(connection, endpoint: endpoint, timeout: timeout),
                at: now + 50_000_000 + span(500_000_000)
            )
        } else {
            attempt(connection, endpoint, timeout)
        }
    }

    /// Decides the outcome of an attempt.
    mutating func attempt(_ connection: Int, _ endpoint: Int, _ timeout: Duration) {
        let (first, second) = (trip(), trip())
        func refuse(_ code: TransportError.Code, _ retryAfter: Duration? = nil, origin: TransportError.Origin = .peer) {
            var error = TransportError(code, .handshake, "simulated", retryAfter: retryAfter)
            error.origin = origin
            clock.add(.failed(connection, error), at: now + first + second)
        }
        if admission.hopeless.contains(endpoint) { return refuse(.certificateRejected) }
        if admission.fault == .credentialsForever || !admission.hasCredentials { return refuse(.authenticationFailed) }
        var slowness: Int64 = 0
        switch admission.fault {
        case .captivePortal:
            admission.answerFalsely(for: endpoint)
            let answer = Self.portalAnswers[roll(Self.portalAnswers.count)]
            // The client tolerates one refusal of its credentials until it has been connected again.
            if answer == .authenticationFailed { client.retries.canExpire = false }
            return refuse(answer, origin: .path)
        case .serverDown: return refuse(.refused)
        case .busy: return refuse(.serverUnavailable, .seconds(roll(100)))
        case .serverSilent:
            if roll(2) == 0 { clock.add(.failed(connection, .timedOutInNetwork), at: now + timeout.wholeNanoseconds) }
            return
        case .slowConnect: slowness = span(timeout.wholeNanoseconds * 2)
        default: break
        }
        clock.add(.accepted(connection, closes: admission.fault == .acceptAndClose), at: now + slowness + first)
        network[connection].isGranted = true
        network[connection].down.path.stall(until: now + slowness + first + second)
        clock.add(.connected(connection), at: now + slowness + first + second)
    }

    /// The errors of a client behind a captive portal: HTTP answers, and a certificate of the portal.
    private static let portalAnswers: [TransportError.Code] = [
        .handshakeFailed, .forbidden, .notFound, .authenticationFailed, .certificateRejected, .secureHandshakeFailed,
    ]

    /// The client's connection accepts a message or a frame.
    mutating func sendUp(_ connection: Int, _ id: MessageID?, _ payload: Payload) {
        if let id {
            if scenario.kind == .origin {
                network[connection].inFlight.append(id)
            } else {
                clock.add(.settled(connection, id, .written), at: now + Self.settling)
            }
        }
        guard !network[connection].isCut else { return }
        let draw = PathModel.Draw(using: &random)
        guard case .arrives(let first, let copy) = network[connection].up.path.admit(0, draw, at: now) else { return }
        clock.add(.serverReceived(connection, id, payload), at: first.arrival)
        if let copy { clock.add(.serverReceived(connection, id, payload), at: copy.arrival) }
    }

    /// The server's connection accepts a frame.
    mutating func sendDown(_ connection: Int, _ payload: Payload) {
        guard !network[connection].isCut else { return }
        let draw = PathModel.Draw(using: &random)
        guard case .arrives(let first, let copy) = network[connection].down.path.admit(0, draw, at: now) else { return }
        clock.add(.received(connection, payload), at: first.arrival)
        if let copy { clock.add(.received(connection, payload), at: copy.arrival) }
    }

    /// The network breaks a connection, and both peers are notified.
    mutating func cut(_ connection: Int, isAbrupt: Bool, losesSuffix: Bool) {
        // An attempt can fail, but not end.
        guard connection > 0, !network[connection].isCut, network[connection].isGranted else { return }
        network[connection].isCut = true
        if losesSuffix {
            network[connection].up.cutoff = now + span(scenario.path.delay * 2)
            network[connection].down.cutoff = now + span(scenario.path.delay * 2)
        }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        clock.add(.ended(connection, reason), at: max(network[connection].down.last, now + trip()))
        clock.add(.serverEnded(connection, reason), at: max(network[connection].up.last, now + trip()))
    }

    /// Notifies both peers of the end of a connection, in spite of the network's faults.
    mutating func breakOff(_ connection: Int) {
        network[connection].isCut = true
        clock.add(
            .ended(connection, CloseReason(.network)),
            at: max(network[connection].down.last, now + trip())
        )
        clock.add(.serverEnded(connection, CloseReason(.network)), at: now + trip())
    }

    /// The connection accepts packets again.
    mutating func unblock(_ connection: Int) {
        guard let pending = network[connection].blocked else { return }
        network[connection].blocked = nil
        for message in pending { sendUp(connection, message.id, message.payload) }
    }
}

extension TransportError {
    static let timedOutInNetwork = TransportError(.timedOut, .connect, "simulated")
}

// The faults of a world, and their durations.

extension World {
    /// Plans all events from outside.
    mutating func plan() {
        let time = scenario.faultTime
        for _ in 0..<roll(25) { clock.add(.submit(.client), at: moment(time)) }
        for _ in 0..<roll(16) { clock.add(.submit(.server), at: moment(time)) }
        // Many messages at the same time reach the limits.
        if roll(4) == 0 {
            let burst = span(time)
            for index in 0..<roll(40) {
                clock.add(.submit(roll(3) == 0 ? .server : .client), at: burst + Int64(index))
            }
        }
        for _ in 0..<scenario.faults {
            var fault = Fault(rawValue: roll(Fault.allCases.count)) ?? .reset
            let isRare = fault == .credentialsForever || fault == .endpointHopeless
            if isRare, roll(8) > 0 { fault = .reset }
            clock.add(.fault(fault), at: moment(time))
        }
        clock.add(.calm, at: time)
    }

    /// A random time in the time of faults, more often early than late.
    private mutating func moment(_ time: Int64) -> Int64 {
        roll(2) == 0 ? span(min(time, 5_000_000_000)) : span(time)
    }

    mutating func begin(_ fault: Fault) {
        let connection = network.live
        // An attempt that still waits for its credentials uses no network that could fail.
        let hasConnection =
            connection > 0 && !network[connection].isCut && network[connection].isGranted
        var duration = roll(3) == 0 ? span(60_000_000_000) : span(5_000_000_000)
        // A client without pauses would make too many attempts.
        if scenario.client.backoff == .immediate { duration = min(duration, 2_000_000_000) }
        duration = min(duration, scenario.faultTime - now)
        switch fault {
        case .fin: cut(connection, isAbrupt: false, losesSuffix: false)
        case .reset: cut(connection, isAbrupt: true, losesSuffix: false)
        case .resetWithLoss: cut(connection, isAbrupt: true, losesSuffix: true)
        case .hole where hasConnection:
            network[connection].dropAll()
            expectDeath(of: connection)
            if scenario.client.keepalive.interval == .off { clock.add(.breaks(connection), at: now + 60_000_000_000) }
        case .holeUp where hasConnection: halfHole(connection, isUp: true)
        case .holeDown where hasConnection: halfHole(connection, isUp: false)
        case .stall where hasConnection: stall(connection, duration)
        case .block where hasConnection:
            if network[connection].blocked == nil { network[connection].blocked = [] }
            clock.add(.unblock(connection), at: now + duration)
        case .partial where hasConnection:
            for index in 1...3 { clock.add(.partial(connection), at: now + Int64(index) * duration / 3) }
        case .hole, .holeUp, .holeDown, .stall, .block, .partial: break
        case .serverDown, .serverSilent, .slowConnect, .acceptAndClose, .full, .busy, .captivePortal:
            admission.begin(fault)
            clock.add(.over(fault), at: now + duration)
            // This fault affects only new connections.
            if roll(2) == 0 { cut(connection, isAbrupt: true, losesSuffix: true) }
        case .restartKeeping: restart(isForgetting: false)
        case .restartForgetting: restart(isForgetting: true)
        case .kick:
            feedServer(.close(CloseReason(.peer)))
        case .credentialsExpired:
            guard client.retries.canExpire else { return }
            client.retries.canExpire = false
            admission.expireCredentials()
            if roll(2) == 0 { cut(connection, isAbrupt: true, losesSuffix: false) }
        case .credentialsForever:
            admission.begin(.credentialsForever)
            cut(connection, isAbrupt: true, losesSuffix: false)
        case .endpointHopeless:
            admission.makeHopeless(roll(scenario.endpoints.count))
            cut(connection, isAbrupt: true, losesSuffix: false)
        case .pathDown:
            if hasConnection { stall(connection, duration) }
            if hasConnection, roll(2) == 0 {
                network[connection].dropAll()
            }
            changePath(isUsable: false)
            clock.add(.over(fault), at: now + duration)
        case .pathChanged:
            client.path.network += 1
            if hasConnection, roll(2) == 0 {
                network[connection].dropAll()
            }
            changePath(isUsable: client.path.isUsable)
        case .suspend:
            if client.state == .open { judgeStability() }
            feedClient(.suspend)
            clock.add(.over(fault), at: now + duration)
        case .connectNow:
            client.retries.triggers += 1
            feedClient(.connect)
        case .clientPauses:
            readClient(false)
            clock.add(.over(fault), at: now + duration)
        case .serverPauses:
            readServer(false)
            clock.add(.over(fault), at: now + duration)
        case .clientFull:
            client.inbox.isFull = true
            feedClient(.reading(client.inbox.reading))
            clock.add(.over(fault), at: now + duration)
        case .serverFull:
            server.inbox.isFull = true
            tellServerReading()
            clock.add(.over(fault), at: now + duration)
        }
    }

    /// Ends a fault. Does nothing if it has ended.
    mutating func end(_ fault: Fault) {
        switch fault {
        case .serverDown, .serverSilent, .slowConnect, .acceptAndClose, .full, .busy, .captivePortal:
            admission.end(fault)
        case .pathDown: if !client.path.isUsable { changePath(isUsable: true) }
        case .suspend:
            client.retries.triggers += 1
            guard client.state == .suspended else { return }
            client.retries.lostAt = now
            feedClient(.resume)
        case .clientPauses: readClient(true)
        case .serverPauses: readServer(true)
        case .clientFull:
            client.inbox.isFull = false
            feedClient(.reading(client.inbox.reading))
        case .serverFull:
            server.inbox.isFull = false
            tellServerReading()
        default: break
        }
    }

    /// Drops packets in one direction. If no peer would detect it, because the other direction works, it drops both.
    private mutating func halfHole(_ connection: Int, isUp: Bool) {
        let isNoticed = scenario.client.keepalive.interval != .off && scenario.server.keepalive.interval != .off
        if isUp || !isNoticed { network[connection].up.hasHole = true }
        if !isUp || !isNoticed { network[connection].down.hasHole = true }
        if !isNoticed { clock.add(.breaks(connection), at: now + 60_000_000_000) }
    }

    private mutating func stall(_ connection: Int, _ duration: Int64) {
        network[connection].up.path.stall(until: now + duration)
        network[connection].down.path.stall(until: now + duration)
    }

    private mutating func changePath(isUsable: Bool) {
        client.path.isUsable = isUsable
        client.inbox.pauses += 1
        if isUsable { client.retries.triggers += 1 }
        feedClient(.path(NetworkPath(isUsable: isUsable, network: "\(client.path.network)")))
    }

    /// Tells the server's session how much of its connection is read.
    mutating func tellServerReading() {
        feedServer(.reading(server.inbox.reading))
    }

    mutating func readClient(_ isReading: Bool) {
        guard client.inbox.read(isReading) else { return }
        feedClient(.reading(client.inbox.reading))
        guard isReading else { return }
        for event in client.inbox.release() { arrive(event) }
    }

    mutating func readServer(_ isReading: Bool) {
        guard server.inbox.read(isReading) else { return }
        tellServerReading()
        guard isReading else { return }
        for event in server.inbox.release() { handleAtServer(event) }
    }

    private mutating func restart(isForgetting: Bool) {
        let isSilent = roll(3) == 0
        for connection in 1..<network.connections.count + 1 where network[connection].isServerUp {
            network[connection].server = .gone
            if isSilent || network[connection].isCut {
                network[connection].dropAll()
            } else {
                network[connection].isCut = true
                clock.add(
                    .ended(connection, CloseReason(.network)),
                    at: max(network[connection].down.last, now + trip())
                )
            }
            let reason = arriving(CloseReason(.network), at: .server)
            feedServer(.ended(connection, reason))
        }
        server.inbox.release()
        guard isForgetting, server.session != nil, scenario.kind != .plain else { return }
        server.forgetSession()
        server.deadline = nil
        server.checker.forget()
    }

    /// Both peers must detect that packets are dropped, if they have a keepalive and read.
    private mutating func expectDeath(of connection: Int) {
        let isClientAsking =
            scenario.canClientAsk && client.state == .open && client.machine.connection == connection
            && client.path.isUsable
        if isClientAsking, client.inbox.isRead,
            let interval = scenario.client.keepalive.interval.duration(over: scenario.capabilities)
        {
            let limit = (interval + scenario.client.keepalive.timeout).wholeNanoseconds
            clock.add(
                .mustBeDead(connection, pauses: client.inbox.pauses, serverPauses: -1),
                at: now + limit + 1_000_000
            )
        }
        if scenario.canClientAsk, server.session?.connection == connection, server.inbox.isRead,
            let interval = scenario.server.keepalive.interval.duration(over: scenario.capabilities)
        {
            let limit = (interval + scenario.server.keepalive.timeout).wholeNanoseconds
            clock.add(
                .mustBeDead(connection, pauses: -1, serverPauses: server.inbox.pauses),
                at: now + limit + 1_000_000
            )
        }
    }
}
