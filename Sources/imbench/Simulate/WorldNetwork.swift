import TransportAPI

// The network of a world: attempts and packets.

extension World {
    mutating func connect(_ connection: Int, _ endpoint: Int, _ timeout: Duration, _ refreshing: Bool) {
        if live != 0 { fail(.oneConnection, "connection \(connection) is requested while \(live) exists") }
        guard connection == connections.count + 1 else {
            return fail(.oneConnection, "connection \(connection) follows \(connections.count)")
        }
        if !isPathUsable { fail(.oneConnection, "an attempt without a network") }
        connections.append(SimulatedConnection())
        live = connection
        attempts += 1
        if refreshing { triggers += 1 }
        let pause = scenario.shortestPause
        if pause > 0, attempts > scenario.endpoints.count * (Int(now / pause) + 2 + triggers) {
            fail(.progress, "\(attempts) attempts are more than the backoff allows")
        }
        if refreshing {
            queue.add(
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
            queue.add(.failed(connection, error), at: now + first + second)
        }
        if hopelessEndpoints.contains(endpoint) { return refuse(.certificateRejected) }
        if mode == .credentialsForever || credentials < requiredCredentials { return refuse(.authenticationFailed) }
        var slowness: Int64 = 0
        switch mode {
        case .captivePortal:
            if !openedEndpoints.contains(endpoint) { mistakenEndpoints.insert(endpoint) }
            let answer = Self.portalAnswers[roll(Self.portalAnswers.count)]
            // The client tolerates one refusal of its credentials until it has been connected again.
            if answer == .authenticationFailed { canExpire = false }
            return refuse(answer, origin: .path)
        case .serverDown: return refuse(.refused)
        case .busy: return refuse(.serverUnavailable, .seconds(roll(100)))
        case .serverSilent:
            if roll(2) == 0 { queue.add(.failed(connection, .timedOutInNetwork), at: now + timeout.wholeNanoseconds) }
            return
        case .slowConnect: slowness = span(timeout.wholeNanoseconds * 2)
        default: break
        }
        queue.add(.accepted(connection, closes: mode == .acceptAndClose), at: now + slowness + first)
        connections[connection - 1].isGranted = true
        connections[connection - 1].lastDown = now + slowness + first + second
        queue.add(.connected(connection), at: now + slowness + first + second)
    }

    /// The errors of a client behind a captive portal: HTTP answers, and a certificate of the portal.
    private static let portalAnswers: [TransportError.Code] = [
        .handshakeFailed, .forbidden, .notFound, .authenticationFailed, .certificateRejected, .secureHandshakeFailed,
    ]

    /// The client's connection accepts a message or a frame.
    mutating func sendUp(_ connection: Int, _ id: SentID?, _ payload: Payload) {
        let index = connection - 1
        if let id {
            if scenario.kind == .origin {
                connections[index].inFlight.append(id)
            } else {
                queue.add(.settled(connection, id, .written), at: now + Self.settling)
            }
        }
        guard !connections[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), connections[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, connections[index].lastUp) }
            connections[index].lastUp = max(connections[index].lastUp, arrival)
            queue.add(.serverReceived(connection, id, payload), at: arrival)
        }
    }

    /// The server's connection accepts a frame.
    mutating func sendDown(_ connection: Int, _ payload: Payload) {
        let index = connection - 1
        guard !connections[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), connections[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, connections[index].lastDown) }
            connections[index].lastDown = max(connections[index].lastDown, arrival)
            queue.add(.received(connection, payload), at: arrival)
        }
    }

    /// Whether a packet to the server arrives now.
    func arrivesUp(_ connection: Int) -> Bool {
        let index = connection - 1
        return connections[index].isServerUp && !connections[index].hasHoleUp && now <= connections[index].cutoffUp
    }

    /// Whether a packet to the client arrives now.
    func arrivesDown(_ connection: Int) -> Bool {
        !connections[connection - 1].hasHoleDown && now <= connections[connection - 1].cutoffDown
    }

    /// The network breaks a connection, and both peers are notified.
    mutating func cut(_ connection: Int, isAbrupt: Bool, losesSuffix: Bool) {
        // An attempt can fail, but not end.
        guard connection > 0, !connections[connection - 1].isCut, connections[connection - 1].isGranted else { return }
        let index = connection - 1
        connections[index].isCut = true
        if losesSuffix {
            connections[index].cutoffUp = now + span(scenario.latency * 2)
            connections[index].cutoffDown = now + span(scenario.latency * 2)
        }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        queue.add(.ended(connection, reason), at: max(connections[index].lastDown, now + trip()))
        queue.add(.serverEnded(connection, reason), at: max(connections[index].lastUp, now + trip()))
    }

    /// Notifies both peers of the end of a connection, in spite of the network's faults.
    mutating func breakOff(_ connection: Int) {
        connections[connection - 1].isCut = true
        queue.add(
            .ended(connection, CloseReason(.network)),
            at: max(connections[connection - 1].lastDown, now + trip())
        )
        queue.add(.serverEnded(connection, CloseReason(.network)), at: now + trip())
    }

    /// The connection accepts packets again.
    mutating func unblock(_ connection: Int) {
        guard connections[connection - 1].isBlocked else { return }
        connections[connection - 1].isBlocked = false
        let pending = connections[connection - 1].pending
        connections[connection - 1].pending = []
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
        for _ in 0..<roll(25) { queue.add(.submit(.client), at: moment(time)) }
        for _ in 0..<roll(16) { queue.add(.submit(.server), at: moment(time)) }
        // Many messages at the same time reach the limits.
        if roll(4) == 0 {
            let burst = span(time)
            for index in 0..<roll(40) {
                queue.add(.submit(roll(3) == 0 ? .server : .client), at: burst + Int64(index))
            }
        }
        for _ in 0..<scenario.faults {
            var fault = Fault(rawValue: roll(Fault.allCases.count)) ?? .reset
            let isRare = fault == .credentialsForever || fault == .endpointHopeless
            if isRare, roll(8) > 0 { fault = .reset }
            queue.add(.fault(fault), at: moment(time))
        }
        queue.add(.calm, at: time)
    }

    /// A random time in the time of faults, more often early than late.
    private mutating func moment(_ time: Int64) -> Int64 {
        roll(2) == 0 ? span(min(time, 5_000_000_000)) : span(time)
    }

    mutating func begin(_ fault: Fault) {
        let connection = live
        // An attempt that still waits for its credentials uses no network that could fail.
        let hasConnection =
            connection > 0 && !connections[connection - 1].isCut && connections[connection - 1].isGranted
        var duration = roll(3) == 0 ? span(60_000_000_000) : span(5_000_000_000)
        // A client without pauses would make too many attempts.
        if scenario.client.backoff == .immediate { duration = min(duration, 2_000_000_000) }
        duration = min(duration, scenario.faultTime - now)
        switch fault {
        case .fin: cut(connection, isAbrupt: false, losesSuffix: false)
        case .reset: cut(connection, isAbrupt: true, losesSuffix: false)
        case .resetWithLoss: cut(connection, isAbrupt: true, losesSuffix: true)
        case .hole where hasConnection:
            connections[connection - 1].hasHoleUp = true
            connections[connection - 1].hasHoleDown = true
            expectDeath(of: connection)
            if scenario.client.keepalive.interval == .off { queue.add(.breaks(connection), at: now + 60_000_000_000) }
        case .holeUp where hasConnection: halfHole(connection, isUp: true)
        case .holeDown where hasConnection: halfHole(connection, isUp: false)
        case .stall where hasConnection: stall(connection, duration)
        case .block where hasConnection:
            connections[connection - 1].isBlocked = true
            queue.add(.unblock(connection), at: now + duration)
        case .partial where hasConnection:
            for index in 1...3 { queue.add(.partial(connection), at: now + Int64(index) * duration / 3) }
        case .hole, .holeUp, .holeDown, .stall, .block, .partial: break
        case .serverDown, .serverSilent, .slowConnect, .acceptAndClose, .full, .busy, .captivePortal:
            mode = mode == .credentialsForever ? mode : fault
            queue.add(.over(fault), at: now + duration)
            // This fault affects only new connections.
            if roll(2) == 0 { cut(connection, isAbrupt: true, losesSuffix: true) }
        case .restartKeeping: restart(isForgetting: false)
        case .restartForgetting: restart(isForgetting: true)
        case .kick:
            feedServer(.close(CloseReason(.peer)))
        case .credentialsExpired:
            guard canExpire else { return }
            canExpire = false
            requiredCredentials += 1
            if roll(2) == 0 { cut(connection, isAbrupt: true, losesSuffix: false) }
        case .credentialsForever:
            mode = .credentialsForever
            cut(connection, isAbrupt: true, losesSuffix: false)
        case .endpointHopeless:
            hopelessEndpoints.insert(roll(scenario.endpoints.count))
            cut(connection, isAbrupt: true, losesSuffix: false)
        case .pathDown:
            if hasConnection { stall(connection, duration) }
            if hasConnection, roll(2) == 0 {
                connections[connection - 1].hasHoleUp = true
                connections[connection - 1].hasHoleDown = true
            }
            changePath(isUsable: false)
            queue.add(.over(fault), at: now + duration)
        case .pathChanged:
            network += 1
            if hasConnection, roll(2) == 0 {
                connections[connection - 1].hasHoleUp = true
                connections[connection - 1].hasHoleDown = true
            }
            changePath(isUsable: isPathUsable)
        case .suspend:
            if clientState == .open { judgeStability() }
            feedClient(.suspend)
            queue.add(.over(fault), at: now + duration)
        case .connectNow:
            triggers += 1
            feedClient(.connect)
        case .clientPauses:
            readClient(false)
            queue.add(.over(fault), at: now + duration)
        case .serverPauses:
            readServer(false)
            queue.add(.over(fault), at: now + duration)
        case .clientFull:
            isClientFull = true
            feedClient(.reading(clientReading))
            queue.add(.over(fault), at: now + duration)
        case .serverFull:
            isServerFull = true
            tellServerReading()
            queue.add(.over(fault), at: now + duration)
        }
    }

    /// Ends a fault. Does nothing if it has ended.
    mutating func end(_ fault: Fault) {
        switch fault {
        case .serverDown, .serverSilent, .slowConnect, .acceptAndClose, .full, .busy, .captivePortal:
            if mode == fault { mode = nil }
        case .pathDown: if !isPathUsable { changePath(isUsable: true) }
        case .suspend:
            triggers += 1
            guard clientState == .suspended else { return }
            lostAt = now
            feedClient(.resume)
        case .clientPauses: readClient(true)
        case .serverPauses: readServer(true)
        case .clientFull:
            isClientFull = false
            feedClient(.reading(clientReading))
        case .serverFull:
            isServerFull = false
            tellServerReading()
        default: break
        }
    }

    /// Drops packets in one direction. If no peer would detect it, because the other direction works, it drops both.
    private mutating func halfHole(_ connection: Int, isUp: Bool) {
        let isNoticed = scenario.client.keepalive.interval != .off && scenario.server.keepalive.interval != .off
        if isUp || !isNoticed { connections[connection - 1].hasHoleUp = true }
        if !isUp || !isNoticed { connections[connection - 1].hasHoleDown = true }
        if !isNoticed { queue.add(.breaks(connection), at: now + 60_000_000_000) }
    }

    private mutating func stall(_ connection: Int, _ duration: Int64) {
        let index = connection - 1
        connections[index].stalledUntil = now + duration
        if scenario.kind != .lossy {
            connections[index].lastUp = max(connections[index].lastUp, now + duration)
            connections[index].lastDown = max(connections[index].lastDown, now + duration)
        }
    }

    private mutating func changePath(isUsable: Bool) {
        isPathUsable = isUsable
        clientPauses += 1
        if isUsable { triggers += 1 }
        feedClient(.path(NetworkPath(isUsable: isUsable, network: "\(network)")))
    }

    private var clientReading: Reading { isClientReading ? isClientFull ? .withoutRoom : .all : .nothing }

    /// Tells the server's session how much of its connection is read.
    mutating func tellServerReading() {
        let reading: Reading = isServerReading ? isServerFull ? .withoutRoom : .all : .nothing
        feedServer(.reading(reading))
    }

    mutating func readClient(_ isReading: Bool) {
        guard isReading != isClientReading else { return }
        isClientReading = isReading
        clientPauses += 1
        feedClient(.reading(clientReading))
        guard isReading else { return }
        let inbox = clientInbox
        clientInbox = []
        for event in inbox { arrive(event) }
    }

    mutating func readServer(_ isReading: Bool) {
        guard isReading != isServerReading else { return }
        isServerReading = isReading
        serverPauses += 1
        tellServerReading()
        guard isReading else { return }
        let inbox = serverInbox
        serverInbox = []
        for event in inbox { handleAtServer(event) }
    }

    private mutating func restart(isForgetting: Bool) {
        let isSilent = roll(3) == 0
        for index in connections.indices where connections[index].isServerUp {
            let connection = index + 1
            connections[index].isServerUp = false
            connections[index].isServed = false
            if isSilent || connections[index].isCut {
                connections[index].hasHoleUp = true
                connections[index].hasHoleDown = true
            } else {
                connections[index].isCut = true
                queue.add(.ended(connection, CloseReason(.network)), at: max(connections[index].lastDown, now + trip()))
            }
            let reason = arriving(CloseReason(.network), at: .server)
            feedServer(.ended(connection, reason))
        }
        serverInbox = []
        guard isForgetting, session != nil, scenario.kind != .plain else { return }
        session = nil
        sessionDeadline = nil
        if let client = registry.sessions.keys.first { registry.remove(client) }
        serverChecker.forget()
    }

    /// Both peers must detect that packets are dropped, if they have a keepalive and read.
    private mutating func expectDeath(of connection: Int) {
        let isClientAsking =
            scenario.canClientAsk && clientState == .open && client.connection == connection && isPathUsable
        if isClientAsking, isClientReading,
            let interval = scenario.client.keepalive.interval.duration(over: scenario.capabilities)
        {
            let limit = (interval + scenario.client.keepalive.timeout).wholeNanoseconds
            queue.add(.mustBeDead(connection, pauses: clientPauses, serverPauses: -1), at: now + limit + 1_000_000)
        }
        if scenario.canClientAsk, session?.connection == connection, isServerReading,
            let interval = scenario.server.keepalive.interval.duration(over: scenario.capabilities)
        {
            let limit = (interval + scenario.server.keepalive.timeout).wholeNanoseconds
            queue.add(.mustBeDead(connection, pauses: -1, serverPauses: serverPauses), at: now + limit + 1_000_000)
        }
    }
}
