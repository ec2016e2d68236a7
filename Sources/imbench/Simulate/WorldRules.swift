import TransportAPI

// The rules of a world, and the checks at its end.

extension World {
    /// Checks the limits of the client's queues.
    mutating func checkClient() {
        if let text = client.link.delivery.brokenBound(scenario.client) { fail(.bounds, text) }
    }

    /// Checks the limits of the server's queues.
    mutating func checkServer() {
        if let text = session?.link.delivery.brokenBound(scenario.server) { fail(.bounds, text) }
    }

    /// The actions that a closed client may still request.
    mutating func checkAfterEnd(_ action: SupervisorAction) {
        switch action {
        case .abandon, .finish: break
        default: fail(.end, "after the end: \(action)")
        }
    }

    mutating func checkDead(_ connection: Int, _ pauses: Int, _ serverPauses: Int) {
        if pauses == clientPauses, clientState == .open, client.connection == connection {
            fail(.liveness, "the client has not detected the loss of connection \(connection)")
        }
        if serverPauses == self.serverPauses, session?.connection == connection {
            fail(.liveness, "the server has not detected the loss of connection \(connection)")
        }
    }

    /// A client gives up only because of its limits, or of errors that a retry cannot solve.
    mutating func checkGivingUp(_ reason: CloseReason) {
        if let most = scenario.client.maximumAttempts, failures >= most { return }
        // The client ends before a pause that would reach beyond the limit. No pause here is longer than 100 s.
        if let most = scenario.client.maximumElapsed, now - lostAt + 100_000_000_000 > most.wholeNanoseconds { return }
        if case .schedule(let delays, givesUp: true) = scenario.client.backoff, failures >= delays.count { return }
        if mode == .credentialsForever, reason.error?.code == .authenticationFailed { return }
        if hopelessEndpoints.union(mistakenEndpoints).count == scenario.endpoints.count { return }
        // Over a path without encryption, a client that has never worked takes the second refusal of its credentials for
        // final.
        if openedEndpoints.isEmpty, !mistakenEndpoints.isEmpty, reason.error?.code == .authenticationFailed { return }
        fail(.recovery, "gave up without a permitted reason: \(reason)")
    }

    // MARK: The calm

    /// Ends all faults.
    mutating func calm() {
        stage = .calming
        mode = mode == .credentialsForever ? mode : nil
        if clientState == .closed { return enough() }
        if !isPathUsable { end(.pathDown) }
        end(.suspend)
        readClient(true)
        readServer(true)
        end(.clientFull)
        end(.serverFull)
        let (client, server) = (scenario.client.keepalive.interval, scenario.server.keepalive.interval)
        for index in connections.indices {
            unblock(index + 1)
            // The network ends a connection whose black hole no peer would detect.
            let (up, down) = (connections[index].hasHoleUp, connections[index].hasHoleDown)
            let isNoticed = scenario.canClientAsk && client != .off && (up == down || server != .off)
            guard up || down, !isNoticed else { continue }
            breakOff(index + 1)
        }
        queue.add(.submit(.client), at: now + 1_000_000)
        queue.add(.submit(.server), at: now + 1_000_000)
        queue.add(.look, at: scenario.faultTime + Self.restTime)
        queue.add(.enough, at: now + 6 * 3600 * 1_000_000_000)
    }

    /// How long a probe that was lost before the calm may still end a connection.
    private static let restTime: Int64 = 15_000_000_000

    /// Ends the calm if the connection is open and all messages have arrived.
    mutating func checkWell() {
        guard stage == .calming, now >= scenario.faultTime + Self.restTime || clientState == .closed else { return }
        if clientState == .closed { return enough() }
        guard isWell else { return }
        stage = .lingering
        log.write(now, "recovered")
        if scenario.lingerTime > 0 {
            witnesses = [clientChecker.records.count, serverChecker.records.count]
            submit(.client, size: 3)
            submit(.server, size: 3)
        }
        queue.add(.enough, at: now + scenario.lingerTime)
    }

    private var isWell: Bool {
        guard clientState == .open, live > 0, !connections[live - 1].isCut, client.link.delivery.outbox.isEmpty,
            !connections[live - 1].hasHoleUp, !connections[live - 1].hasHoleDown,
            client.link.delivery.waiting.isEmpty
        else { return false }
        if scenario.kind == .origin { return brokerQueue.isEmpty && peer.link.delivery.outbox.isEmpty }
        guard let session, session.connection == live else { return false }
        return session.link.delivery.outbox.isEmpty && session.link.delivery.waiting.isEmpty
    }

    mutating func enough() {
        if stage == .calming, clientState != .closed {
            return fail(
                .recovery,
                "not recovered after the calm: \(clientState), \(client.link.delivery.outbox.count) left"
            )
        }
        if stage == .lingering, let first = witnesses.first, let second = witnesses.last {
            checkWitness(clientChecker.records[first].outcome)
            checkWitness(serverChecker.records[second].outcome)
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
        let id = clientChecker.submit()
        feedClient(.submit(id, DeliveryChecker.payload(id, size: 3)))
        guard case .rejected? = clientChecker.records[Int(id.number) - 1].outcome else {
            return fail(.end, "a message was accepted after the end")
        }
        for event in clientInbox { queue.add(event, at: now) }
        clientInbox = []
        // Connections end within a minute. Later events only end faults.
        let end = now + 120_000_000_000
        while violation == nil, let next = queue.next, next < end, step() {
            if clientDeadline != nil { fail(.end, "a deadline after the end") }
        }
        feedServer(.close(.user))
        if scenario.kind == .origin { feedPeer(.close(.user)) }
        while violation == nil, let next = queue.next, next < end, step() {}
        note(clientChecker.final(acknowledgedMustArrive: scenario.kind != .plain))
        note(serverChecker.final(acknowledgedMustArrive: false))
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
