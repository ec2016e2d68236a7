import TransportAPI

// Attempts, and what the network does to what is sent.

extension World {
    mutating func connect(_ link: Int, _ endpoint: Int, _ timeout: Duration, _ refreshing: Bool) {
        if live != 0 { fail(.oneLink, "link \(link) is asked for while \(live) lives") }
        guard link == links.count + 1 else { return fail(.oneLink, "link \(link) comes after \(links.count)") }
        if !isPathUsable { fail(.oneLink, "an attempt without a network") }
        links.append(SimulatedLink())
        live = link
        attempts += 1
        if refreshing { triggers += 1 }
        let pause = scenario.shortestPause
        if pause > 0, attempts > scenario.endpoints.count * (Int(now / pause) + 2 + triggers) {
            fail(.progress, "\(attempts) attempts are more than the backoff allows")
        }
        if refreshing {
            queue.add(.refreshed(link, endpoint: endpoint, timeout: timeout), at: now + 50_000_000 + span(500_000_000))
        } else {
            attempt(link, endpoint, timeout)
        }
    }

    /// What becomes of an attempt.
    mutating func attempt(_ link: Int, _ endpoint: Int, _ timeout: Duration) {
        let (first, second) = (trip(), trip())
        func refuse(_ code: TransportError.Code, _ retryAfter: Duration? = nil) {
            let error = TransportError(code, .connect, "simulated", retryAfter: retryAfter)
            queue.add(.failed(link, error), at: now + first + second)
        }
        if hopelessEndpoints.contains(endpoint) { return refuse(.certificateRejected) }
        if mode == .credentialsForever || credentials < requiredCredentials { return refuse(.authenticationFailed) }
        var slowness: Int64 = 0
        switch mode {
        case .serverDown: return refuse(.refused)
        case .busy: return refuse(.serverUnavailable, .seconds(roll(100)))
        case .serverSilent:
            if roll(2) == 0 { queue.add(.failed(link, .timedOutInNetwork), at: now + timeout.wholeNanoseconds) }
            return
        case .slowConnect: slowness = span(timeout.wholeNanoseconds * 2)
        default: break
        }
        queue.add(.accepted(link, closes: mode == .acceptAndClose), at: now + slowness + first)
        links[link - 1].isGranted = true
        links[link - 1].lastDown = now + slowness + first + second
        queue.add(.connected(link), at: now + slowness + first + second)
    }

    /// The client's link takes a message or a frame.
    mutating func sendUp(_ link: Int, _ id: SentID?, _ payload: Payload) {
        let index = link - 1
        if let id {
            if scenario.kind == .origin {
                links[index].inFlight.append(id)
            } else {
                queue.add(.settled(link, id, .written), at: now + Self.settling)
            }
        }
        guard !links[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), links[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, links[index].lastUp) }
            links[index].lastUp = max(links[index].lastUp, arrival)
            queue.add(.serverReceived(link, id, payload), at: arrival)
        }
    }

    /// The server's link takes a frame.
    mutating func sendDown(_ link: Int, _ payload: Payload) {
        let index = link - 1
        guard !links[index].isCut else { return }
        var copies = 1
        if scenario.kind == .lossy, stage == .faulty {
            if roll(1000) < scenario.loss { copies = 0 }
            if roll(1000) < scenario.duplication { copies += 1 }
        }
        for _ in 0..<copies {
            var arrival = max(now + trip(), links[index].stalledUntil)
            if scenario.kind != .lossy { arrival = max(arrival, links[index].lastDown) }
            links[index].lastDown = max(links[index].lastDown, arrival)
            queue.add(.received(link, payload), at: arrival)
        }
    }

    /// Whether something that was sent to the server arrives there now.
    func arrivesUp(_ link: Int) -> Bool {
        let index = link - 1
        return links[index].isServerUp && !links[index].hasHoleUp && now <= links[index].cutoffUp
    }

    /// Whether something that was sent to the client arrives there now.
    func arrivesDown(_ link: Int) -> Bool {
        !links[link - 1].hasHoleDown && now <= links[link - 1].cutoffDown
    }

    /// The network breaks a link, and both sides hear of it.
    mutating func cut(_ link: Int, isAbrupt: Bool, losesSuffix: Bool) {
        // What is not accepted yet can fail, but not end.
        guard link > 0, !links[link - 1].isCut, links[link - 1].isGranted else { return }
        let index = link - 1
        links[index].isCut = true
        if losesSuffix {
            links[index].cutoffUp = now + span(scenario.latency * 2)
            links[index].cutoffDown = now + span(scenario.latency * 2)
        }
        let reason = CloseReason(isAbrupt ? .network : .peer)
        queue.add(.ended(link, reason), at: max(links[index].lastDown, now + trip()))
        queue.add(.serverEnded(link, reason), at: max(links[index].lastUp, now + trip()))
    }

    /// Both sides hear of the end of a link, whatever the network has done to it.
    mutating func breakOff(_ link: Int) {
        links[link - 1].isCut = true
        queue.add(.ended(link, CloseReason(.network)), at: max(links[link - 1].lastDown, now + trip()))
        queue.add(.serverEnded(link, CloseReason(.network)), at: now + trip())
    }

    /// The link takes again what it is given.
    mutating func unblock(_ link: Int) {
        guard links[link - 1].isBlocked else { return }
        links[link - 1].isBlocked = false
        let pending = links[link - 1].pending
        links[link - 1].pending = []
        for message in pending { sendUp(link, message.id, message.payload) }
    }
}

extension TransportError {
    static let timedOutInNetwork = TransportError(.timedOut, .connect, "simulated")
}
