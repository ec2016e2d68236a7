import TransportAPI

// The rules.

extension World {
    /// The bounds of the client's queues.
    mutating func checkClient() {
        if let text = client.delivery.brokenBound(scenario.client) { fail(.bounds, text) }
    }

    /// The bounds of the server's queues.
    mutating func checkServer() {
        if let text = session?.delivery.brokenBound(scenario.server) { fail(.bounds, text) }
    }

    /// What a client that has ended may still ask for.
    mutating func checkAfterEnd(_ action: SupervisorAction) {
        switch action {
        case .abandon, .finish: break
        default: fail(.end, "after the end: \(action)")
        }
    }

    mutating func checkDead(_ link: Int, _ pauses: Int, _ serverPauses: Int) {
        if pauses == clientPauses, clientState == .open, client.link == link {
            fail(.liveness, "the client still takes link \(link) for alive")
        }
        if serverPauses == self.serverPauses, session?.link == link {
            fail(.liveness, "the server still takes link \(link) for alive")
        }
    }

    /// A client gives up for its limits, for what retrying can't mend, and for nothing else.
    mutating func checkGivingUp(_ reason: CloseReason) {
        if let most = scenario.client.maximumAttempts, failures >= most { return }
        // Where the next pause would reach beyond the limit, the end comes before it; no pause here is longer than 100 s.
        if let most = scenario.client.maximumElapsed, now - lostAt + 100_000_000_000 > most.wholeNanoseconds { return }
        if case .schedule(let delays, givesUp: true) = scenario.client.backoff, failures >= delays.count { return }
        if mode == .credentialsForever, reason.error?.code == .authenticationFailed { return }
        if hopelessEndpoints.count == scenario.endpoints.count { return }
        fail(.recovery, "gave up for no good reason: \(reason)")
    }

    // MARK: The calm

    /// Nothing goes wrong from now on.
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
        for index in links.indices {
            unblock(index + 1)
            // What nobody would ever notice, the network ends.
            let (up, down) = (links[index].hasHoleUp, links[index].hasHoleDown)
            let isNoticed = scenario.canClientAsk && client != .off && (up == down || server != .off)
            guard up || down, !isNoticed else { continue }
            breakOff(index + 1)
        }
        queue.add(.submit(.client), at: now + 1_000_000)
        queue.add(.submit(.server), at: now + 1_000_000)
        queue.add(.look, at: scenario.faultTime + Self.restTime)
        queue.add(.enough, at: now + 6 * 3600 * 1_000_000_000)
    }

    /// So long into the calm a probe that was lost before it may still end a link.
    private static let restTime: Int64 = 15_000_000_000

    /// Whether the link is open and everything has arrived; if so, the calm may end.
    mutating func checkWell() {
        guard stage == .calming, now >= scenario.faultTime + Self.restTime || clientState == .closed else { return }
        if clientState == .closed { return enough() }
        guard isWell else { return }
        stage = .lingering
        log.write(now, "all is well")
        if scenario.lingerTime > 0 {
            witnesses = [clientLedger.records.count, serverLedger.records.count]
            submit(.client, size: 3)
            submit(.server, size: 3)
        }
        queue.add(.enough, at: now + scenario.lingerTime)
    }

    private var isWell: Bool {
        guard clientState == .open, live > 0, !links[live - 1].isCut, client.delivery.outbox.isEmpty,
            !links[live - 1].hasHoleUp, !links[live - 1].hasHoleDown,
            client.delivery.waiting.isEmpty
        else { return false }
        if scenario.kind == .origin { return brokerQueue.isEmpty && peer.delivery.outbox.isEmpty }
        guard let session, session.link == live else { return false }
        return session.delivery.outbox.isEmpty && session.delivery.waiting.isEmpty
    }

    mutating func enough() {
        if stage == .calming, clientState != .closed {
            return fail(
                .recovery,
                "after the calm not all is well: \(clientState), \(client.delivery.outbox.count) left"
            )
        }
        if stage == .lingering, let first = witnesses.first, let second = witnesses.last {
            checkWitness(clientLedger.records[first].outcome)
            checkWitness(serverLedger.records[second].outcome)
        }
        stage = .closing
    }

    /// What was sent in the calm has arrived in it.
    private mutating func checkWitness(_ outcome: SendOutcome?) {
        let wanted = scenario.kind == .plain ? SendOutcome.written : .acknowledged
        if outcome != wanted { fail(.recovery, "in the calm a message ended \(outcome.map { "\($0)" } ?? "never")") }
    }

    // MARK: The end

    /// Closes both sides and lets all that is under way arrive.
    mutating func close() {
        stage = .closing
        tellClient(.close(.user))
        let id = clientLedger.submit()
        tellClient(.submit(id, Ledger.payload(id, size: 3)))
        guard case .rejected? = clientLedger.records[Int(id.number) - 1].outcome else {
            return fail(.end, "a message was taken after the end")
        }
        for event in clientInbox { queue.add(event, at: now) }
        clientInbox = []
        // Links end within a minute; what is planned for later was for a world that is over.
        let end = now + 120_000_000_000
        while violation == nil, let next = queue.next, next < end, step() {
            if clientDeadline != nil { fail(.end, "a deadline after the end") }
        }
        tellServer { session, _, actions in session.close(.user, &actions) }
        if scenario.kind == .origin { tellPeer(.close(.user)) }
        while violation == nil, let next = queue.next, next < end, step() {}
        note(clientLedger.final(acknowledgedMustArrive: scenario.kind != .plain))
        note(serverLedger.final(acknowledgedMustArrive: false))
    }
}

extension Delivery {
    /// Which bound is not kept.
    fileprivate func brokenBound(_ configuration: SupervisorConfiguration) -> String? {
        let (most, bytes) = (configuration.outbox.maximumCount, configuration.outbox.maximumBytes)
        if outbox.count > most { return "\(outbox.count) messages in the outbox" }
        if outbox.bytes > bytes { return "\(outbox.bytes) bytes in the outbox" }
        if outbox.bytes < 0 { return "fewer bytes than none in the outbox" }
        if waiting.count > most { return "\(waiting.count) messages wait" }
        if outbox.sentCount > configuration.delivery.window { return "\(outbox.sentCount) messages under way" }
        if receiver.earlyCount > 1024 { return "\(receiver.earlyCount) messages came early" }
        return nil
    }
}
