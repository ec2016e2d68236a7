// How messages end.

extension Delivery {
    /// Takes the outcome of a message that the connection was handed.
    package mutating func settled(
        _ id: MessageID,
        on connection: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        let position = outbox.position(of: id)
        if let position { outbox.noteSettled(position, by: connection, outcome) }
        if let endError { return settledAfterEnd(position, outcome, endError, &actions) }
        guard handover.settle(by: connection) else { return }
        if outcome == .acknowledged { blame.acknowledged() }
        if let position, position < outbox.sentCount {
            switch (style, outcome) {
            case (.session, .rejected(let error)) where error.refusesMessage:
                // The message may have left over an earlier connection.
                giveUp(position, outbox[position].isUnsent ? outcome : .unknown(error), at: now, &actions)
            case (.session, _):
                // Only the peer's acknowledgement counts, whether the message was written or not.
                break
            case (_, .rejected(let error)) where !error.refusesMessage:
                // The connection has ended, and no part of the message has left, unless over an earlier connection. The
                // message waits for the next connection, unless its caller has an outcome already.
                if outbox[position].isReported, outbox[position].isUnsent { outbox.remove(at: position) }
                handover.hold()
            case (_, .unknown(let error)) where handover.isCompletedByNext && error.code != .notFound:
                // The connection has ended. The next one completes the message, even if its caller has an outcome
                // already.
                handover.hold()
            case (.origin, .unknown):
                // The connection has ended, for any reason. The receiver drops the message if it arrives twice.
                handover.hold()
            default:
                let removed = outbox.remove(at: position)
                if removed.isRepeated { forget(id, &actions) }
                removed.finish(outcome, &actions)
            }
        }
        if handover.isOver(attached: attached.number) { takeBack() }
        flush(at: now, &actions)
    }

    /// The peer has received all messages up to `sequence`.
    package mutating func acknowledge(
        through sequence: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch try numbers.acknowledge(through: sequence) {
        case .new: break
        case .repeated:
            guard attached.repeatsLosses, attached.isOpen else { return }
            return sendAgain(retransmission.prompted(inFlight: outbox.sentCount), at: now, &actions)
        case .overtaken: return
        }
        blame.acknowledged()
        var (count, sample, hasRepeated): (Int, Duration?, Bool) = (0, nil, false)
        while !outbox.isEmpty, outbox[0].id.number <= sequence {
            count += 1
            hasRepeated = hasRepeated || outbox[0].isRepeated
            sample = outbox[0].sentAt.duration(to: now)
            outbox.remove(at: 0).finish(.acknowledged, &actions)
        }
        // A message that was sent twice gives no sample of the round trip (Karn's rule), and neither does one after it,
        // which may have arrived long ago and waited for it.
        if hasRepeated { sample = nil }
        // Acknowledgements in the welcome of a new connection have waited for that connection, so they give no sample.
        if attached.isOpen {
            let positions = retransmission.acknowledged(count, after: sample, inFlight: outbox.sentCount)
            sendAgain(positions, at: now, &actions)
        }
        if attached.repeatsLosses { retransmission.restart(at: now, inFlight: outbox.sentCount) }
        flush(at: now, &actions)
    }

    /// Cancels a message for its caller. A message that may have left already is still sent, but its caller gets the
    /// outcome `.unknown` now.
    package mutating func cancel(_ id: MessageID, at now: Instant, _ actions: inout [SupervisorAction]) {
        if !waiting.remove(id) {
            guard let position = outbox.position(of: id), outbox[position].isAwaited else { return }
            guard outbox[position].isUnsent else {
                outbox.noteReported(position)
                return actions.append(.finish(id, .unknown(.cancelledSend)))
            }
            guard outbox[position].isRemovable else {
                giveUp(position, .rejected(.cancelledSend), at: now, &actions)
                return flush(at: now, &actions)
            }
            outbox.remove(at: position)
        }
        actions.append(.finish(id, .rejected(.cancelledSend)))
        flush(at: now, &actions)
    }

    /// Ends all messages, because the supervisor or the session is over. Those that a connection has not settled end
    /// when it does.
    package mutating func finishAll(_ error: TransportError, _ actions: inout [SupervisorAction]) {
        endError = error
        takeBack()
        for removed in outbox.removeAll(amongOldest: outbox.count, where: { $0.handedTo == 0 }) {
            removed.finish(removed.isUnsent ? .rejected(error) : .unknown(error), &actions)
        }
        for id in waiting.removeAll() { actions.append(.finish(id, .rejected(error))) }
        retransmission.stop()
    }

    /// Ends a message that was handed to a connection when the supervisor or the session ended.
    private mutating func settledAfterEnd(
        _ position: Int?,
        _ outcome: SendOutcome,
        _ error: TransportError,
        _ actions: inout [SupervisorAction]
    ) {
        guard let position, outbox[position].handedTo == 0 else { return }
        let removed = outbox.remove(at: position)
        switch outcome {
        case .rejected where !removed.isUnsent: removed.finish(.unknown(error), &actions)
        case .rejected(let own) where !own.refusesMessage: removed.finish(.rejected(error), &actions)
        case .rejected, .expired: removed.finish(outcome, &actions)
        // In a session, only the peer's acknowledgement counts, and none can come any more.
        case .acknowledged where style != .session, .written where style == .plain: removed.finish(outcome, &actions)
        case .acknowledged, .written, .unknown: removed.finish(.unknown(error), &actions)
        }
    }

    /// Whether all messages have ended after ``finishAll(_:_:)``.
    var hasFinishedAll: Bool { endError != nil && outbox.isEmpty }

    /// Ends messages that are too old.
    mutating func expire(at now: Instant, _ actions: inout [SupervisorAction]) {
        while let id = waiting.removeExpired(at: now) { actions.append(.finish(id, .expired)) }
        var number = 0
        while number < outbox.count, let expiry = outbox[number].expiry, expiry <= now { number += 1 }
        guard number > 0 else { return }
        let isSession = style == .session
        func outcome(isUnsent: Bool) -> SendOutcome { isUnsent ? .expired : .unknown(.acknowledgementMissing) }
        // These come first, and keep their places because their numbers must still be skipped.
        for position in 0..<number where isSession && outbox[position].payload != nil && !outbox[position].isRemovable {
            giveUp(position, outcome(isUnsent: outbox[position].isUnsent), at: now, &actions)
        }
        let removed = outbox.removeAll(amongOldest: number) { $0.payload != nil && (!isSession || $0.isRemovable) }
        for message in removed {
            if !message.isRemovable { forget(message.id, &actions) }
            message.finish(outcome(isUnsent: message.isUnsent), &actions)
        }
    }

    /// Ends a message that may have been sent. In a session its number must still be skipped.
    mutating func giveUp(
        _ position: Int,
        _ outcome: SendOutcome,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) {
        guard style == .session else {
            let removed = outbox.remove(at: position)
            forget(removed.id, &actions)
            return removed.finish(outcome, &actions)
        }
        if outbox[position].isAwaited { actions.append(.finish(outbox[position].id, outcome)) }
        outbox.giveUp(position)
        guard attached.isOpen, position < outbox.sentCount else { return }
        sendAgain(position..<position + 1, at: now, &actions)
    }

    /// Lets no transport complete a message that has ended otherwise.
    private func forget(_ id: MessageID, _ actions: inout [SupervisorAction]) {
        if handover.leavesMessages { actions.append(.forget(id)) }
    }
}

extension TransportError {
    static let cancelledSend = TransportError(.cancelled, .open, "the task that sent the message was cancelled")
    static let acknowledgementMissing = TransportError(
        .acknowledgementTimeout,
        .open,
        "the message expired before the peer acknowledged it"
    )
}
