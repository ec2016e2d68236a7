import TransportAPI

// A broker that delivers at least once, and the other client behind it.

extension World {
    mutating func openPeer() {
        tellPeer(.connect)
        tellPeer(.connected(1, scenario.capabilities))
    }

    mutating func tellPeer(_ event: SupervisorMachine.Event) {
        var actions: [SupervisorAction] = []
        peer.handle(event, at: Instant(nanoseconds: now), using: &random, &actions)
        log.write(now, "peer \(event)")
        for action in actions {
            log.write(now, "peer -> \(action)")
            switch action {
            case .transmit(_, let id, let payload):
                lastBrokerKey += 1
                var stamped = payload
                // A broker knows its own messages by a number that the client does not see.
                stamped.topic = String(lastBrokerKey)
                brokerQueue.append((lastBrokerKey, stamped))
                if live > 0, links[live - 1].isServerUp { sendDown(live, stamped) }
                if let id { tellPeer(.settled(1, id, .acknowledged)) }
            case .deliver(let payload):
                log.note(now, 60, payload.bytes.count)
                if mutation == .loseDelivery, roll(20) == 0 { continue }
                note(clientLedger.delivered(payload, epoch: 1))
            case .accepted(let id): note(serverLedger.accepted(id))
            case .finish(let id, let outcome):
                log.note(now, 61, outcome.code, id.number)
                note(serverLedger.finished(id, outcome, checksAcknowledgement: false))
            default: break
            }
        }
    }

    /// The broker gets a message: it passes it on, now and then twice, and acknowledges it.
    mutating func publish(_ link: Int, _ id: SentID?, _ payload: Payload) {
        tellPeer(.received(1, payload))
        if stage != .calming, roll(8) == 0 { tellPeer(.received(1, payload)) }
        guard let id, !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastDown)
        links[link - 1].lastDown = arrival
        queue.push(.confirmed(link, id), at: arrival)
    }

    /// The client's link acknowledges what it has received; lost with the link, the broker sends it again on the next one.
    mutating func confirm(_ link: Int, _ payload: Payload) {
        guard let topic = payload.topic, let key = UInt64(topic), !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastUp)
        links[link - 1].lastUp = arrival
        queue.push(.brokerAcknowledged(link, key), at: arrival)
    }
}
