// How messages end.

extension Delivery {
    /// The link has said what became of a message that it was handed.
    package mutating func settled(
        _ id: MessageID,
        on link: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard link == handedTo else { return }
        unsettled -= 1
        if let position = outbox.position(of: id), position < outbox.sentCount {
            switch (style, outcome) {
            case (.session, .rejected(let error)) where error.isFinal:
                // On a link before it may have left.
                let isUnknown = outbox[position].isRepeated
                giveUp(position, isUnknown ? .unknown(error) : outcome, at: now, &actions)
            case (.session, _):
                // Written or not, the far side's acknowledgement is what counts.
                break
            case (_, .rejected(let error)) where !error.isFinal:
                // The link has ended under it, and nothing of it has left, unless on a link before. It waits for the next one, if
                // anybody waits for it.
                outbox[position].mayHaveLeft = outbox[position].isRepeated
                if outbox[position].isTold, !outbox[position].mayHaveLeft { outbox.remove(at: position) }
                isHolding = true
            case (_, .unknown(let error)) where isCompletedByNext && error.code != .notFound:
                // The link has ended, and the next one completes the message, also one that no caller waits for.
                isHolding = true
            case (.origin, .unknown):
                // The link has ended, whatever it ended by. The receiver drops the message if it comes twice.
                isHolding = true
            default:
                // Not within the call, which would copy all of this value first.
                let entry = outbox.remove(at: position)
                finish(entry, outcome, &actions)
            }
        }
        if isHolding, unsettled == 0, self.link != handedTo { takeBack() }
        flush(at: now, &actions)
    }

    /// The far side has received everything up to `sequence`.
    package mutating func acknowledge(
        through sequence: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard sequence <= lastSequence else { throw .envelope("an acknowledgement of what was never sent") }
        guard sequence > acknowledged else { return }
        let count = Int(clamping: sequence - acknowledged)
        acknowledged = sequence
        var sample: Duration?
        while let entry = outbox.first, entry.sequence != 0, entry.sequence <= sequence {
            outbox.remove(at: 0)
            // Karn: what was sent twice says nothing about the round trip.
            sample = entry.isRepeated ? nil : entry.sentAt.duration(to: now)
            finish(entry, .acknowledged, &actions)
        }
        // What a new link's greeting acknowledges has waited for that link.
        if link != 0 {
            if let sample { roundTrip.measured(sample) } else { roundTrip.answered() }
            recover(count, at: now, &actions)
        }
        rearmRetransmission(at: now)
        flush(at: now, &actions)
    }

    /// The far side knows nothing of the session: what it has not acknowledged is sent again, counted from one.
    package mutating func renumber() {
        receiveAnew()
        outbox.forgetSequences()
        lastSequence = 0
        acknowledged = 0
        recovery = nil
    }

    /// The caller does not want the message sent any more. One that may have left already goes on being sent, but nobody waits
    /// for it.
    package mutating func cancel(_ id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            _ = removeWaiting(at: index)
        } else if let position = outbox.position(of: id), outbox[position].payload != nil, !outbox[position].isTold {
            guard !outbox[position].mayHaveLeft else {
                outbox[position].isTold = true
                return actions.append(.finish(id, .unknown(.cancelledSend)))
            }
            outbox.remove(at: position)
        } else {
            return
        }
        actions.append(.finish(id, .rejected(.cancelledSend)))
        flush(at: now, &actions)
    }

    /// Ends all messages, for a supervisor that has closed.
    package mutating func finishAll(_ error: TransportError, _ actions: inout [SupervisorAction]) {
        while let entry = outbox.first {
            outbox.remove(at: 0)
            finish(entry, entry.mayHaveLeft ? .unknown(error) : .rejected(error), &actions)
        }
        for message in waiting { actions.append(.finish(message.id, .rejected(error))) }
        (waiting, waitingBytes) = ([], 0)
        retransmission = nil
    }

    // MARK: Time

    /// When ``tick(at:_:)`` wants to be called.
    package var deadline: Instant? {
        let reminder = unprocessed?.reminder(every: configuration.acknowledgementReminder)
        let own = earlier(reminder, link == 0 ? nil : retransmission)
        guard age != nil, !outbox.isEmpty || !waiting.isEmpty else { return own }
        // Those without a payload have ended already; they are few, and first.
        let oldest = (0..<outbox.count).first { outbox[$0].payload != nil }.map { outbox[$0].expiry } ?? nil
        return earlier(own, earlier(oldest, waiting.first?.expiry ?? nil))
    }

    /// Ends what has grown too old, and sends again what was lost.
    package mutating func tick(at now: Instant, _ actions: inout [SupervisorAction]) {
        while let message = waiting.first, let expiry = message.expiry, expiry <= now {
            _ = removeWaiting(at: 0)
            actions.append(.finish(message.id, .expired))
        }
        var position = 0
        while position < outbox.count, let expiry = outbox[position].expiry, expiry <= now {
            if outbox[position].payload == nil {
                position += 1
            } else if !outbox[position].mayHaveLeft && outbox[position].sequence == 0 {
                let entry = outbox.remove(at: position)
                finish(entry, .expired, &actions)
            } else {
                giveUp(position, .unknown(.acknowledgementMissing), at: now, &actions)
                if position < outbox.count, outbox[position].payload == nil { position += 1 }
            }
        }
        if let retransmission, retransmission <= now, link != 0 { retransmit(at: now, &actions) }
        if let held = unprocessed?.remind(at: now, every: configuration.acknowledgementReminder) {
            actions.append(.note(.unacknowledged(held)))
        }
        flush(at: now, &actions)
    }

    /// Ends a message that has been sent. In a session its number must still be accounted for.
    private mutating func giveUp(
        _ position: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let entry = outbox[position]
        guard style == .session else {
            outbox.remove(at: position)
            return finish(entry, outcome, &actions)
        }
        finish(entry, outcome, &actions)
        outbox[position].payload = nil
        if link != 0, position < outbox.sentCount {
            transmit(outbox[position], &actions)
        }
    }

    private mutating func retransmit(at now: Instant, _ actions: inout [SupervisorAction]) {
        roundTrip.timedOut()
        retransmission = now.advanced(by: roundTrip.timeout)
        // The far side keeps what came early, so the oldest few are what it most likely misses.
        guard outbox.sentCount > 0 else { return }
        recovery = (lastSequence, acknowledged)
        sendAgain(8, at: now, &actions)
    }

    /// Some of what was sent again has arrived, so the rest will too: for each message two go out, without waiting for the timer
    /// (the slow start after a timeout of RFC 5681, section 3.1).
    private mutating func recover(_ count: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        guard acknowledged < recovery.end else { return self.recovery = nil }
        self.recovery?.sentAgain = max(acknowledged, recovery.sentAgain)
        sendAgain(2 * min(count, 32), at: now, &actions)
    }

    private mutating func sendAgain(_ most: Int, at now: Instant, _ actions: inout [SupervisorAction]) {
        guard let recovery else { return }
        // Those under way bear the numbers behind what is acknowledged, in a row.
        let first = Int(clamping: recovery.sentAgain - acknowledged)
        var position = first
        while position < min(first + most, outbox.sentCount), outbox[position].sequence <= recovery.end {
            transmit(outbox.noteSending(position, at: now), &actions)
            position += 1
        }
        self.recovery?.sentAgain += UInt64(max(0, position - first))
    }

    private mutating func rearmRetransmission(at now: Instant) {
        guard isLossy, style == .session else { return }
        retransmission = outbox.sentCount > 0 ? now.advanced(by: roundTrip.timeout) : nil
    }

    private func finish(_ entry: Outbox.Entry, _ outcome: SendOutcome, _ actions: inout [SupervisorAction]) {
        // One without a payload has been told already.
        if entry.payload != nil, !entry.isTold { actions.append(.finish(entry.id, outcome)) }
    }
}

extension TransportError {
    /// Whether another link would not take the message either.
    var isFinal: Bool {
        // What ended the link says nothing of the message that came too late for it.
        guard phase != .closing else { return false }
        return fault == .local && code != .closedByUser && !isRetryable || code == .invalidText && detail == nil
    }

    static let tooMuchEarly = TransportError(
        .resourcesExhausted,
        .open,
        "more came before its turn than the message buffer holds"
    )
    static let cancelledSend = TransportError(.cancelled, .open, "the task that sent the message was cancelled")
    static let acknowledgementMissing = TransportError(
        .acknowledgementTimeout,
        .open,
        "the message grew too old before the far side acknowledged it"
    )
}

// MARK: Frames

extension Delivery {
    /// Takes a frame of an open session that concerns messages.
    package mutating func take(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        let verdict: SessionReceiver.Verdict
        switch frame {
        case .message(let sequence, let payload):
            try checkWindow(sequence)
            if let key = unprocessed?.giveAgain(sequence, at: now) {
                return actions.append(.deliverUnprocessed(key, payload))
            }
            verdict = try receive(sequence, payload, at: now, &actions)
        case .skip(let sequence): verdict = try receive(sequence, nil, at: now, &actions)
        case .acknowledge(let sequence): return try acknowledge(through: sequence, at: now, &actions)
        default: return
        }
        switch verdict {
        case .new: break
        case .duplicate: actions.append(.note(.duplicate))
        // Over a link that loses messages it is sent again.
        case .noRoom where isLossy: return
        // Over another one it is not: the next link brings all of it, in its order.
        case .noRoom: throw .tooMuchEarly
        }
        // What the app still has to process is acknowledged later.
        if verdict == .new, unprocessed != nil, processed <= told { return }
        acknowledge(&actions)
    }

    private mutating func receive(
        _ sequence: UInt64,
        _ payload: Payload?,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) -> SessionReceiver.Verdict {
        guard unprocessed != nil else {
            return try receiver.receive(sequence, payload) { actions.append(.deliver($1)) }
        }
        var given: [(sequence: UInt64, payload: Payload)] = []
        let verdict = try receiver.receive(sequence, payload) { given.append(($0, $1)) }
        for message in given { give(message.payload, sequence: message.sequence, at: now, &actions) }
        return verdict
    }
}
