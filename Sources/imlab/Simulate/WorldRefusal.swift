import TransportAPI

/// How a peer treats a message that it refuses.
enum Refusal: Int, Sendable, CaseIterable {
    /// It ends the connection and names the cause.
    case named
    /// It ends the connection without a reason.
    case silent
}

// Peers that refuse messages: the server those of the client, and in a session also the client those of the server.

extension World {
    /// The third byte of a message that the peer refuses.
    static let refusedMark: UInt8 = 0xee
    private static let silentReason = CloseReason(
        TransportError(.connectionLost, .open, "refused without a close frame")
    )
    /// How often the network may end a connection while the same message is alone in flight. It does not know the messages,
    /// so this is rare, and it is no reason to set one aside.
    private static let coincidences = 3

    /// Makes a message that the peer refuses of some messages in the time of faults.
    mutating func drawRefused(_ side: Side, _ id: MessageID, _ payload: Payload) -> Payload {
        guard scenario.refusal?.of == side, stage == .faulty, payload.bytes.count > 2, roll(8) == 0 else {
            return payload
        }
        var refused = payload
        refused.bytes[2] = Self.refusedMark
        if side == .client { client.refused.insert(id.number) } else { server.refused.insert(id.number) }
        return refused
    }

    private func isRefused(_ payload: Payload) -> Bool {
        switch try? SessionFrame(payload) {
        case .message(_, let content, _), .origin(_, _, let content, _):
            content.bytes.count > 2 && content.bytes[2] == Self.refusedMark
        default: false
        }
    }

    /// The reason that the sender of a refused message gets.
    private mutating func reason(_ refusal: Refusal) -> CloseReason {
        let codes: [UInt16] = [1003, 1007, 1009]
        return refusal == .silent ? Self.silentReason : CloseReason(peerClosed: codes[roll(codes.count)], text: "")
    }

    /// The server's connection refuses a message of the client, and ends. Returns whether it did.
    mutating func refusesUp(_ connection: Int, _ payload: Payload) -> Bool {
        // After the calm, only copies that the network has delayed are left.
        guard let refusal = scenario.refusal?.how, isRefused(payload), !stage.isLingering else { return false }
        // A client that nothing was acknowledged to has no evidence that its peer works at all.
        guard refusal == .named || client.machine.link.delivery.wasAcknowledged else { return false }
        record.log.note(now, 70, connection)
        network[connection].server = .gone
        if !network[connection].isCut {
            network[connection].isCut = true
            let reason = reason(refusal)
            let arrival = max(network[connection].down.last, now + trip())
            if !network[connection].down.hasHole { clock.add(.ended(connection, reason), at: arrival) }
        }
        if scenario.kind != .origin {
            feedServer(.ended(connection, Self.ownReason))
        }
        return true
    }

    /// The client's connection refuses a message of the server's session, and ends. Returns whether it did.
    mutating func refusesDown(_ connection: Int, _ payload: Payload) -> Bool {
        guard let refusal = scenario.refusal?.how, scenario.kind != .origin, isRefused(payload),
            network.isLive(connection),
            client.state == .open, !stage.isLingering, let session = server.session,
            refusal == .named || session.link.delivery.wasAcknowledged
        else { return false }
        record.log.note(now, 71, connection)
        network.endAtClient(connection)
        settleRest(connection)
        if !network[connection].isCut {
            network[connection].isCut = true
            let reason = reason(refusal)
            let arrival = max(network[connection].up.last, now + trip())
            if !network[connection].up.hasHole { clock.add(.serverEnded(connection, reason), at: arrival) }
        }
        feedClient(.ended(connection, Self.ownReason))
        return true
    }

    /// The reason at the side that refuses.
    private static let ownReason = CloseReason(TransportError(.messageTooLarge, .open, "too large", detail: 1009))

    /// The reason of an end as it arrives. The network cannot end one connection after the other while a certain message is
    /// alone in flight, so after a few times it is another failure.
    mutating func arriving(_ reason: CloseReason, at side: Side) -> CloseReason {
        guard reason != Self.silentReason, case .unexplained = Blame.Evidence(reason),
            let outbox = side == .client ? client.machine.link.delivery.outbox : server.session?.link.delivery.outbox
        else { return reason }
        let inFlight = (0..<outbox.sentCount).filter { outbox[$0].payload != nil }
        guard inFlight.count == 1, let first = inFlight.first else { return reason }
        let message = outbox[first].id.number << 1 | (side == .client ? 0 : 1)
        network.aloneAtEnd[message, default: 0] += 1
        guard network.aloneAtEnd[message, default: 0] > Self.coincidences else { return reason }
        return CloseReason(TransportError(.connectionLost, .open, "the network has timed out", detail: 110))
    }

    /// No message is set aside that the peer accepts.
    mutating func checkSetAside(_ side: Side, _ id: MessageID, _ outcome: SendOutcome) {
        let refused = side == .client ? client.refused : server.refused
        let isOver = side == .client ? client.machine.isOver : server.session?.isOver != false
        let isSetAside =
            switch outcome {
            // The reason of its end, which may be the same, is the one of all messages that follow.
            case .rejected(let error): !isOver && [1003, 1007, 1009].contains(error.detail)
            case .unknown(let error): error.reason.hasPrefix("the peer ended ")
            case .acknowledged, .written, .expired: false
            }
        if isSetAside, !refused.contains(id.number) {
            fail(.delivery, "message \(id.number) was set aside, although the peer accepts it")
        }
    }
}
