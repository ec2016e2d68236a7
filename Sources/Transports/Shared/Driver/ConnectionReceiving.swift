import Primitives
import Protocols
import SocketIO
import TransportAPI

// MARK: Events

extension ConnectionDriver {
    func deliver(_ event: consuming CoreEvent) {
        // Whatever has come may have made room in the protocol's window.
        if !waiting.blocked.isEmpty { requestFlush() }
        switch event {
        case .opened: opened()
        case .message(let payload):
            statistics.messagesReceived += 1
            guard handler == nil else { break }
            return received(payload)
        case .pong: answered()
        case .acknowledged(let id): waiting.unacknowledged.removeValue(forKey: id)??.resume(returning: .acknowledged)
        case .refused(let id, let error):
            waiting.unacknowledged.removeValue(forKey: id)??.resume(returning: .rejected(error))
        case .discarded(let message): discarded(message)
        case .signal(let signal): onSignal?(signal)
        case .progress: return noteMuchWork()
        case .closed(let reason): return end(reason)
        }
        handler?.handle(event, on: self)
    }

    private func opened() {
        phase = .open
        phaseDeadline = nil
        statistics.handshakeBytes = channel.bytesSent + UInt64(context.output.count) + channel.bytesReceived
        statistics.handshakeRoundTrips += channel.roundTripsToConnect
        statistics.handshakeDuration = .nanoseconds(MonotonicClock.now() - started)
        waiting.opener.take()?.resume(returning: nil)
        owner?.opened(self)
    }

    private func discarded(_ message: DiscardedMessage) {
        statistics.discarded += 1
        statistics.lastDiscarded = message
        if handler == nil { discards.add(message) }
    }

    /// Reports the messages that are passed over to `action`, also those that were before.
    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {
        discards.report(to: action, andLater: phase == .open)
    }

    private func received(_ payload: Payload) {
        if let receiver = waiting.receiver.take() {
            if confirmsReceipt { unconfirmed += 1 }
            receiver.take(.success(payload))
        } else if inboxHasRoom {
            inbox.append(payload)
        } else {
            // Over datagrams, or behind our goodbye; otherwise nothing is read when there is no room.
            statistics.overflowed += 1
        }
    }
}

// MARK: Receiving

extension ConnectionDriver {
    /// The next message, if there is one, or the end, if it has come. Who asks for it is done with the one before.
    func takeMessage() -> PendingOperations.Received? {
        guard waiting.receiver == nil else { return .failure(.busyReceiving) }
        confirmTaken()
        if let payload = inbox.popFirst() {
            if confirmsReceipt { unconfirmed += 1 }
            resumeReading()
            if bufferedBytes > 0, inbox.count == 0 { tellMemory() }
            return .success(payload)
        }
        return reason?.receiveResult
    }

    package func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>? {
        if let message = takeMessage() { return message }
        waiting.receiver = .neighbour(receiver)
        return nil
    }

    /// Gives the next message, or the end, as soon as it is there.
    func receive(_ id: UInt64, _ continuation: UnsafeContinuation<PendingOperations.Received, Never>) {
        if let message = takeMessage() {
            continuation.resume(returning: message)
        } else {
            waiting.receiver = .task(id: id, continuation)
        }
    }

    /// The receiver is done with what it was given, if it has not said so yet.
    package func confirmTaken() {
        if unconfirmed > 0, !isConfirmedByHand { confirm(unconfirmed) }
    }

    /// From now on the receiver says when it is done with a message.
    func confirmByHand() {
        confirmTaken()
        isConfirmedByHand = true
    }

    /// The receiver is done with the oldest messages that it was given, so many.
    func confirm(_ count: Int) {
        let count = min(count, unconfirmed)
        guard count > 0 else { return }
        unconfirmed -= count
        // A stream ends with the goodbye; over datagrams more may follow, since what was sent before it is still repeated.
        guard phase == .open, !isClosing || channel.isDatagram else {
            // The peer can't be told any more, but a session may take note.
            var nowhere = ByteBuffer()
            let ends = context.datagramEnds
            swap(&context.output, &nowhere)
            confirmReceipts(count)
            context.datagramEnds = ends
            return swap(&context.output, &nowhere)
        }
        // From a receiver on the loop it may come between two events; the core's surroundings are seen to then.
        guard !reading.isPumping else { return confirmReceipts(count) }
        enterCore()
        confirmReceipts(count)
        leaveCore()
    }

    private func confirmReceipts(_ count: Int) {
        for _ in 0..<count { core.confirmReceipt(&context) }
    }

    /// Goes on reading if a full inbox had stopped it.
    private func resumeReading() {
        guard reading.pauses.contains(.fullInbox), inbox.isHalfEmpty else { return }
        resume(.fullInbox)
        share.end = 0
        pump()
        readWhilePossible()
    }

    func cancelReceive(_ id: UInt64) {
        guard case .task(id, _) = waiting.receiver else { return }
        waiting.receiver.take()?.take(.failure(.cancelled(.open)))
    }
}

/// Messages that were passed over because of their size, and the action that reports them.
struct DiscardedMessages {
    private enum State {
        /// There is no listener yet: the first messages are kept for it.
        case kept([DiscardedMessage])
        case reported((DiscardedMessage) -> Void)
    }

    private static let maximumKept = 16
    private var state = State.kept([])

    mutating func add(_ message: DiscardedMessage) {
        switch state {
        case .reported(let action): action(message)
        case .kept(let messages):
            if messages.count < Self.maximumKept { state = .kept(messages + [message]) }
        }
    }

    /// Reports the kept messages, and later ones if `isLasting`.
    mutating func report(to action: @escaping (DiscardedMessage) -> Void, andLater isLasting: Bool) {
        var messages: [DiscardedMessage] = []
        if case .kept(let kept) = state { messages = kept }
        state = isLasting ? .reported(action) : .kept([])
        for message in messages { action(message) }
    }

    /// The connection has ended: nothing is reported any more.
    mutating func stop() {
        if case .reported = state { state = .kept([]) }
    }
}
