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
                if Self.isForged(payload) { continue }
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
        if roll(4) == 0 { tellPeer(.received(1, forged(payload))) }
        tellPeer(.received(1, payload))
        if stage != .calming, roll(8) == 0 { tellPeer(.received(1, payload)) }
        guard let id, !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastDown)
        links[link - 1].lastDown = arrival
        queue.add(.confirmed(link, id), at: arrival)
    }

    /// What another client of the broker publishes that has seen a message: other content under the sender's identifier, with the
    /// same number or one that the sender has not reached. No message of the sender may be taken for a repetition of it.
    private mutating func forged(_ payload: Payload) -> Payload {
        guard case .origin(let sender, let sequence, _)? = try? SessionFrame(payload) else { return payload }
        return SessionFrame.origin(sender, sequence &+ UInt64(roll(2000)), Payload([0xff, 0xff])).payload
    }

    static func isForged(_ payload: Payload) -> Bool { payload.bytes == [0xff, 0xff] }

    /// The client's link acknowledges what it has received; lost with the link, the broker sends it again on the next one.
    mutating func confirm(_ link: Int, _ payload: Payload) {
        guard let topic = payload.topic, let key = UInt64(topic), !links[link - 1].isCut else { return }
        let arrival = max(now + trip(), links[link - 1].lastUp)
        links[link - 1].lastUp = arrival
        queue.add(.brokerAcknowledged(link, key), at: arrival)
    }
}
