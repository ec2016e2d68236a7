// How messages are sent.

extension Delivery {
    /// Puts a message into the outbox, or rejects it with a reason.
    package mutating func submit(
        _ id: MessageID,
        _ payload: Payload,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let size = payload.bytes.count
        if attached.isTooLarge(size) {
            return actions.append(.finish(id, .rejected(.tooLargeForPeer(size, attached.peerLimit))))
        }
        let expiry = outbox.expiry(from: now)
        guard waiting.isEmpty else { return wait(id, payload, expiry, &actions) }
        switch outbox.append(id, payload, expiry: expiry, mayHaveLeft: mayHaveLeft(id)) {
        case .accepted: actions.append(.accepted(id))
        case .acceptedInPlaceOf(let oldest):
            actions.append(.accepted(id))
            actions.append(.finish(oldest, .rejected(.outboxFull)))
        case .full: wait(id, payload, expiry, &actions)
        case .tooLarge: actions.append(.finish(id, .rejected(tooLargeForOutbox(size))))
        }
        flush(at: now, &actions)
    }

    /// The store has this message and all before it, so they may be sent.
    mutating func stored(through id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        outbox.stored(through: id)
        flush(at: now, &actions)
    }

    /// Rejects messages that the store could not write. None of them was sent.
    mutating func notStored(
        _ ids: [MessageID],
        _ error: TransportError,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        for id in ids {
            guard let position = outbox.position(of: id), outbox.isUnstored(position) else { continue }
            outbox.remove(at: position).finish(.rejected(error), &actions)
        }
        flush(at: now, &actions)
    }

    /// Whether an earlier process may have sent the message in this session.
    private func mayHaveLeft(_ id: MessageID) -> Bool {
        configuration.mode == .session && numbers.mayHaveLeft(id.number)
    }

    private mutating func wait(
        _ id: MessageID,
        _ payload: Payload,
        _ expiry: Instant?,
        _ actions: inout [SupervisorAction]
    ) {
        let size = payload.bytes.count
        guard size <= outbox.maximumBytes else {
            return actions.append(.finish(id, .rejected(tooLargeForOutbox(size))))
        }
        if !waiting.append(id, payload, expiry: expiry) { actions.append(.finish(id, .rejected(.outboxFull))) }
    }

    /// Hands messages to the connection, as many as the window allows.
    package mutating func flush(at now: Instant, _ actions: inout [SupervisorAction]) {
        admitWaiting(&actions)
        let most = configuration.window
        let window = blame.isSearching ? blame.window(most, oldest: outbox.isEmpty ? nil : outbox[0].id) : most
        while attached.isOpen, !handover.isHolding, !awaitsStoredSession, outbox.sentCount < window {
            if refusesNext(at: now, &actions) { continue }
            if isTooFarAhead { return }
            let firstNumber = style == .session ? numbers.next : 0
            guard let message = outbox.handNext(to: attached.number, at: now, firstNumber: firstNumber) else { return }
            if style == .session { numbers.sent(message.id.number) }
            transmit(message, &actions)
            if attached.repeatsLosses { retransmission.sent(at: now) }
        }
    }

    /// Whether numbers were left out before the next message, so many that the peer accepts it only after an acknowledgement of
    /// a message before it.
    private var isTooFarAhead: Bool {
        guard style == .session, outbox.sentCount > 0, outbox.hasUnsent else { return false }
        return outbox[outbox.sentCount].id.number > numbers.acknowledged + SessionReceiver.window
    }

    /// Ends the next message if it is larger than the peer accepts. It must not go out, because the peer would end the
    /// connection. Returns whether there was such a message.
    private mutating func refusesNext(at now: Instant, _ actions: inout [SupervisorAction]) -> Bool {
        let next = outbox.sentCount
        guard style == .session, outbox.hasUnsent, attached.isTooLarge(outbox[next].size) else { return false }
        let error = TransportError.tooLargeForPeer(outbox[next].size, attached.peerLimit)
        if outbox[next].isRemovable {
            outbox.remove(at: next).finish(.rejected(error), &actions)
        } else {
            giveUp(next, outbox[next].isUnsent ? .rejected(error) : .unknown(error), at: now, &actions)
        }
        return true
    }

    /// Hands a message to the connection, after a skip frame for the numbers before it that were left out. A message that was
    /// given up is such a number too.
    private mutating func transmit(_ message: Outbox.Handed, _ actions: inout [SupervisorAction]) {
        let (connection, id) = (attached.number, message.id)
        let end = message.payload == nil ? id.number + 1 : id.number
        if message.firstNumber != 0, message.firstNumber < end {
            let skip = SessionFrame.skip(message.firstNumber...end - 1)
            actions.append(.transmit(connection, nil, skip.payload))
        }
        guard let payload = message.payload else { return }
        handover.add(to: connection, completesSends: attached.completesSends)
        switch style {
        case .plain where message.isRepeated: actions.append(.complete(connection, id, payload, orSend: false))
        case .plain: actions.append(.transmit(connection, id, payload))
        case .session:
            let frame = SessionFrame.message(id.number, payload, isRepeated: message.isRepeated).payload
            actions.append(.transmit(connection, id, frame))
        case .origin:
            let frame = SessionFrame.origin(
                SessionID(public: sender),
                id.number,
                payload,
                isRepeated: message.isRepeated
            )
            .payload
            // The receiver drops a message that arrives twice.
            guard message.isRepeated, attached.completesSends else {
                return actions.append(.transmit(connection, id, frame))
            }
            actions.append(.complete(connection, id, frame, orSend: true))
        }
    }

    /// Hands the messages at these positions to the connection again.
    mutating func sendAgain(_ positions: Range<Int>, at now: Instant, _ actions: inout [SupervisorAction]) {
        for position in positions {
            let message = outbox.handAgain(position, to: attached.number, at: now)
            transmit(message, &actions)
        }
    }

    private func tooLargeForOutbox(_ size: Int) -> TransportError {
        let sentence =
            "the message is larger than the whole outbox: it has \(size) bytes, and outbox.bytes is \(outbox.maximumBytes)"
        return TransportError(.messageTooLarge, .open, "\(sentence); raise outbox.bytes, or send a smaller message")
    }

    /// Moves messages that wait into the outbox, as long as there is room.
    private mutating func admitWaiting(_ actions: inout [SupervisorAction]) {
        while let next = waiting.first, outbox.hasRoom(for: next.payload.bytes.count) || outbox.isEmpty {
            waiting.removeFirst()
            if next.id.number <= numbers.acknowledged {
                // An earlier process has sent it.
                actions.append(.finish(next.id, .acknowledged))
                continue
            }
            switch outbox.append(next.id, next.payload, expiry: next.expiry, mayHaveLeft: mayHaveLeft(next.id)) {
            case .accepted, .acceptedInPlaceOf: actions.append(.accepted(next.id))
            case .full, .tooLarge:
                actions.append(.finish(next.id, .rejected(tooLargeForOutbox(next.payload.bytes.count))))
            }
        }
    }
}

extension TransportError {
    static let outboxFull = TransportError(
        .bufferFull,
        .open,
        "the outbox is full: send more slowly, or raise outbox.count and outbox.bytes"
    )

    /// The error of a message that is larger than the peer of the session accepts.
    static func tooLargeForPeer(_ size: Int, _ limit: Int) -> TransportError {
        let sentence =
            "the message has \(size) bytes, but the peer accepts at most \(limit) in a message of the session"
        return TransportError(.messageTooLarge, .open, "\(sentence): raise its max-message, or send a smaller one")
    }
}
