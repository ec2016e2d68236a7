import TransportAPI

// The rules of a world, and the checks at its end.

extension World {
    /// Checks the limits of the client's queues.
    mutating func checkClient() {
        if let text = client.machine.link.delivery.brokenBound(scenario.client) { fail(.bounds, text) }
    }

    /// Checks the limits of the server's queues.
    mutating func checkServer() {
        if let text = server.session?.link.delivery.brokenBound(scenario.server) { fail(.bounds, text) }
    }

    /// The actions that a closed client may still request.
    mutating func checkAfterEnd(_ action: SupervisorAction) {
        switch action {
        case .abandon, .finish: break
        default: fail(.end, "after the end: \(action)")
        }
    }

    mutating func checkDead(_ connection: Int, _ pauses: Int, _ serverPauses: Int) {
        if pauses == client.inbox.pauses, client.state == .open, client.machine.connection == connection {
            fail(.liveness, "the client has not detected the loss of connection \(connection)")
        }
        if serverPauses == server.inbox.pauses, server.session?.connection == connection {
            fail(.liveness, "the server has not detected the loss of connection \(connection)")
        }
    }

    /// A client gives up only because of its limits, or of errors that a retry cannot solve.
    mutating func checkGivingUp(_ reason: CloseReason) {
        if let most = scenario.client.maximumAttempts, client.retries.failures >= most { return }
        // The client ends before a pause that would reach beyond the limit. No pause here is longer than 100 s.
        if let most = scenario.client.maximumElapsed,
            now - client.retries.lostAt + 100_000_000_000 > most.wholeNanoseconds
        {
            return
        }
        if case .schedule(let delays, givesUp: true) = scenario.client.backoff, client.retries.failures >= delays.count
        {
            return
        }
        if admission.fault == .credentialsForever, reason.error?.code == .authenticationFailed { return }
        if admission.hopeless.union(admission.mistaken).count == scenario.endpoints.count { return }
        // Over a path without encryption, a client that has never worked takes the second refusal of its credentials for
        // final.
        if admission.opened.isEmpty, !admission.mistaken.isEmpty, reason.error?.code == .authenticationFailed { return }
        fail(.recovery, "gave up without a permitted reason: \(reason)")
    }

    // MARK: The calm

    /// Ends all faults.
    mutating func calm() {
        stage = .calming
        admission.calm()
        if client.state == .closed { return enough() }
        if !client.path.isUsable { end(.pathDown) }
        end(.suspend)
        readClient(true)
        readServer(true)
        end(.clientFull)
        end(.serverFull)
        let (own, other) = (scenario.client.keepalive.interval, scenario.server.keepalive.interval)
        (scenario.path.loss, scenario.path.duplication) = (0, 0)
        for connection in 1..<network.connections.count + 1 {
            network[connection].up.path.parameters = scenario.path
            network[connection].down.path.parameters = scenario.path
            unblock(connection)
            // The network ends a connection whose black hole no peer would detect.
            let (up, down) = (network[connection].up.hasHole, network[connection].down.hasHole)
            let isNoticed = scenario.canClientAsk && own != .off && (up == down || other != .off)
            guard up || down, !isNoticed else { continue }
            breakOff(connection)
        }
        clock.add(.submit(.client), at: now + 1_000_000)
        clock.add(.submit(.server), at: now + 1_000_000)
        clock.add(.look, at: scenario.faultTime + Self.restTime)
        clock.add(.enough, at: now + 6 * 3600 * 1_000_000_000)
    }

    /// How long a probe that was lost before the calm may still end a connection.
    private static let restTime: Int64 = 15_000_000_000

    /// Ends the calm if the connection is open and all messages have arrived.
    mutating func checkWell() {
        guard stage == .calming, now >= scenario.faultTime + Self.restTime || client.state == .closed else { return }
        if client.state == .closed { return enough() }
        guard isWell else { return }
        let isWitnessed = scenario.lingerTime > 0
        let witnesses = Witnesses(client: client.checker.records.count, server: server.checker.records.count)
        stage = .lingering(witnesses: isWitnessed ? witnesses : nil)
        record.log.write(now, "recovered")
        if isWitnessed {
            submit(.client, size: 3)
            submit(.server, size: 3)
        }
        clock.add(.enough, at: now + scenario.lingerTime)
    }

    private var isWell: Bool {
        guard client.state == .open, network.live > 0, !network[network.live].isCut,
            client.machine.link.delivery.outbox.isEmpty,
            !network[network.live].up.hasHole, !network[network.live].down.hasHole,
            client.machine.link.delivery.waiting.isEmpty
        else { return false }
        if scenario.kind == .origin { return broker.queue.isEmpty && broker.peer.link.delivery.outbox.isEmpty }
        guard let session = server.session, session.connection == network.live else { return false }
        return session.link.delivery.outbox.isEmpty && session.link.delivery.waiting.isEmpty
    }

    mutating func enough() {
        if stage == .calming, client.state != .closed {
            return fail(
                .recovery,
                "not recovered after the calm: \(client.state), \(client.machine.link.delivery.outbox.count) left"
            )
        }
        if case .lingering(let witnesses?) = stage {
            checkWitness(client.checker.records[witnesses.client].outcome)
            checkWitness(server.checker.records[witnesses.server].outcome)
        }
        stage = .closing
    }

    /// Messages that are sent in the calm arrive in it.
    private mutating func checkWitness(_ outcome: SendOutcome?) {
        let wanted = scenario.kind == .plain ? SendOutcome.written : .acknowledged
        if outcome != wanted { fail(.recovery, "in the calm a message ended \(outcome.map { "\($0)" } ?? "never")") }
    }

    // MARK: The end

    /// Closes both peers and lets the packets in flight arrive.
    mutating func close() {
        stage = .closing
        feedClient(.close(.user))
        let id = client.checker.submit()
        feedClient(.submit(id, DeliveryChecker.payload(id, size: 3)))
        guard case .rejected? = client.checker.records[Int(id.number) - 1].outcome else {
            return fail(.end, "a message was accepted after the end")
        }
        for event in client.inbox.release() { clock.add(event, at: now) }
        // Connections end within a minute. Later events only end faults.
        let end = now + 120_000_000_000
        while record.violation == nil, let next = clock.next, next < end, step() {
            if client.deadline != nil { fail(.end, "a deadline after the end") }
        }
        feedServer(.close(.user))
        if scenario.kind == .origin { feedPeer(.close(.user)) }
        while record.violation == nil, let next = clock.next, next < end, step() {}
        note(client.checker.final(acknowledgedMustArrive: scenario.kind != .plain))
        note(server.checker.final(acknowledgedMustArrive: false))
    }
}

extension Delivery {
    /// The broken bound, if there is one.
    fileprivate func brokenBound(_ configuration: SupervisorConfiguration) -> String? {
        let (most, bytes) = (configuration.outbox.maximumCount, configuration.outbox.maximumBytes)
        if outbox.count > most { return "\(outbox.count) messages in the outbox" }
        if outbox.bytes > bytes { return "\(outbox.bytes) bytes in the outbox" }
        if outbox.bytes < 0 { return "a negative number of bytes in the outbox" }
        if waiting.count > most { return "\(waiting.count) messages wait" }
        if outbox.sentCount > configuration.delivery.window { return "\(outbox.sentCount) messages in flight" }
        if receiver.earlyCount > 1024 { return "\(receiver.earlyCount) messages arrived early" }
        return nil
    }
}
