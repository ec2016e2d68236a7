import TransportAPI

// What each event does.

extension World {
    mutating func handle(_ event: SimulatedEvent) {
        switch event {
        case .connected(let link):
            log.note(now, 20, link)
            guard isLive(link) || scenario.reportsLate else { return }
            tellClient(.connected(link, scenario.capabilities))
        case .failed(let link, let error):
            log.note(now, 21, link)
            if isLive(link) {
                links[link - 1].isClientUp = false
                links[link - 1].isCut = true
                if live == link { live = 0 }
                tellClient(.failed(link, error))
            } else if let number = reporter(link) {
                tellClient(.failed(number, error))
            }
        case .received(let link, let payload):
            log.note(now, 22, link, UInt64(payload.bytes.count))
            if arrivesDown(link), !isLostAcknowledgement(payload) { arrive(event) }
        case .ended(let link, _):
            log.note(now, 23, link)
            arrive(event)
        case .partial(let link):
            if arrivesDown(link), isLive(link) { links[link - 1].bytesDown += 10 }
        case .pong(let link):
            log.note(now, 24, link)
            let isAnswered = arrivesUp(link) && arrivesDown(link) && !links[link - 1].isCut
            if isAnswered, isClientReading, let number = reporter(link) { tellClient(.pong(number, .milliseconds(1))) }
        case .settled(let link, let id, let outcome):
            log.note(now, 25, link, id.number)
            let isStale = mutation == .lateCallbacksReachMachineAsCurrent && !isLive(link)
            tellClient(.settled(isStale ? client.link : link, id, outcome))
        case .confirmed(let link, let id):
            log.note(now, 26, link, id.number)
            guard arrivesDown(link), let place = links[link - 1].inFlight.firstIndex(of: id) else { return }
            links[link - 1].inFlight.remove(at: place)
            tellClient(.settled(link, id, .acknowledged))
        case .refreshed(let link, let endpoint, let timeout):
            guard isLive(link) else { return }
            credentials = requiredCredentials
            attempt(link, endpoint, timeout)
        case .accepted, .serverReceived, .serverPong, .serverEnded, .serverSettled, .brokerAcknowledged:
            handleAtServer(event)
        case .submit(let side): submit(side, size: 2 + (roll(10) == 0 ? roll(400) : roll(20)))
        case .cancel(.client, let id):
            log.note(now, 27, 0, id.number)
            tellClient(.cancel(id))
        case .cancel(.server, let id):
            log.note(now, 27, 1, id.number)
            if scenario.kind == .origin {
                tellPeer(.cancel(id))
            } else {
                tellServer { session, now, actions in session.cancel(id, at: now, &actions) }
            }
        case .processed(.client, let key, let payload, _):
            log.note(now, 29, 0, key)
            note(serverLedger.delivered(payload, epoch: 1))
            queue.add(.acknowledges(.client, key, epoch: 1), at: now + span(100_000_000))
        case .processed(.server, let key, let payload, let epoch):
            log.note(now, 29, 1, key)
            processedAtServer(key, payload, epoch)
        case .acknowledges(.client, let key, _): tellClient(.processed(key, isAbandoned: false))
        case .acknowledges(.server, let key, let epoch):
            guard session?.incarnation == epoch else { return }
            tellServer { session, _, actions in session.processed(key, isAbandoned: false, &actions) }
        case .fault(let fault):
            log.note(now, 28, fault.rawValue)
            log.write(now, "FAULT \(fault)")
            begin(fault)
        case .over(let fault):
            log.write(now, "over: \(fault)")
            end(fault)
        case .unblock(let link): unblock(link)
        case .breaks(let link): breakOff(link)
        case .mustBeDead(let link, let pauses, let serverPauses): checkDead(link, pauses, serverPauses)
        case .look: break
        case .calm: calm()
        case .enough: enough()
        }
    }

    private func isLostAcknowledgement(_ payload: Payload) -> Bool {
        guard mutation == .loseAcknowledgement, let frame = try? SessionFrame(payload) else { return false }
        if case .acknowledge = frame { return true }
        return false
    }

    mutating func submit(_ side: Side, size: Int) {
        switch side {
        case .client:
            let id = clientLedger.submit()
            tellClient(.submit(id, Ledger.payload(id, size: size)))
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.client, id), at: now + cancelDelay()) }
        case .server:
            guard scenario.kind == .origin || session != nil else { return }
            let id = serverLedger.submit()
            if scenario.kind == .origin {
                tellPeer(.submit(id, Ledger.payload(id, size: size)))
            } else {
                tellServer { session, now, actions in
                    session.submit(id, Ledger.payload(id, size: size), at: now, &actions)
                }
            }
            if stage == .faulty, roll(10) == 0 { queue.add(.cancel(.server, id), at: now + cancelDelay()) }
        }
    }

    private mutating func cancelDelay() -> Int64 {
        roll(2) == 0 ? span(300_000_000) : span(20_000_000_000)
    }
}
