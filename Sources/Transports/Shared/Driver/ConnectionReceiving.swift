import Protocols
import SocketIO
import TransportAPI

/// The messages for the app, and their receipts.
struct ReceiveState: ~Copyable {
    /// Messages that were not requested yet.
    var inbox: Inbox
    var receipts: Receipts
    var discards = DiscardedMessages()
}

// MARK: Events

extension ConnectionDriver {
    func deliver(_ event: consuming CoreEvent) {
        // Any event can have made room in the protocol's window.
        if !waiting.blocked.isEmpty { requestFlush() }
        switch event {
        case .opened: opened()
        case .message(let payload):
            statistics.messagesReceived += 1
            guard handler == nil else { break }
            return received(payload)
        case .pong(let number):
            if !waiting.pings.answered(number, now: MonotonicClock.now()) { charge(1) }
        case .acknowledged(let id):
            waiting.unacknowledged.removeValue(forKey: id)?.continuation?.resume(returning: .acknowledged)
        case .written(let id): waiting.unacknowledged.removeValue(forKey: id)?.continuation?.resume(returning: .written)
        case .refused(let id, let error):
            waiting.unacknowledged.removeValue(forKey: id)?.continuation?.resume(returning: .rejected(error))
        case .discarded(let message): discarded(message)
        case .signal(let signal): onSignal?(signal)
        case .progress: return noteMuchWork()
        case .closed(let reason):
            allowTimeForAnswer(reason)
            return end(reason)
        }
        handler?.handle(event, on: self)
    }

    private func opened() {
        phase = .open
        wasOpened = true
        deadlines.phase = nil
        statistics.handshakeBytes = channel.bytesSent + UInt64(context.output.count) + channel.bytesReceived
        statistics.handshakeRoundTrips += channel.roundTripsToConnect
        statistics.handshakeDuration = .nanoseconds(MonotonicClock.now() - started)
        waiting.opener.take()?.resume(returning: nil)
        owner?.opened(self)
    }

    private func discarded(_ message: DiscardedMessage) {
        statistics.discarded += 1
        statistics.lastDiscarded = message
        if handler == nil { receiving.discards.add(message) }
    }

    /// Reports discarded messages to `action`, including earlier ones.
    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {
        receiving.discards.report(to: action, andLater: phase == .open)
    }

    private func received(_ payload: Payload) {
        if let receiver = waiting.receiver.take() {
            receiving.receipts.delivered()
            receiver.take(.success(payload))
        } else if inboxHasRoom {
            receiving.inbox.append(payload)
        } else {
            // This happens over datagrams and after the close frame of this side. Otherwise nothing is read while there
            // is no room.
            statistics.overflowed += 1
        }
    }
}

// MARK: Receiving

extension ConnectionDriver {
    /// Returns the next message if there is one, or the end if it has come. This call confirms the message before.
    func takeMessage() -> PendingOperations.Received? {
        guard waiting.receiver == nil else { return .failure(.busyReceiving) }
        confirmTaken()
        if let payload = receiving.inbox.popFirst() {
            receiving.receipts.delivered()
            resumeReading()
            if bufferedBytes > 0, receiving.inbox.count == 0 { reportBufferedBytes() }
            return .success(payload)
        }
        return reason?.receiveResult
    }

    package func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>? {
        if let message = takeMessage() { return message }
        waiting.receiver = .localReceiver(receiver)
        return nil
    }

    /// Resumes `continuation` with the next message, or with the end, as soon as it is there.
    func receive(_ id: UInt64, _ continuation: UnsafeContinuation<PendingOperations.Received, Never>) {
        if let message = takeMessage() {
            continuation.resume(returning: message)
        } else {
            waiting.receiver = .task(id: id, continuation)
        }
    }

    /// Confirms the messages that the receiver has got, unless it confirms them itself.
    package func confirmTaken() {
        confirm(receiving.receipts.dueAtRequest)
    }

    /// From now on the receiver confirms messages itself, by ``confirm(_:)``.
    func confirmByHand() {
        confirmTaken()
        receiving.receipts.confirmByHand()
    }

    /// Confirms the `count` oldest messages that the receiver has got and not confirmed.
    func confirm(_ count: Int) {
        let count = receiving.receipts.confirm(count)
        guard count > 0 else { return }
        // A stream ends with the close frame. Over datagrams more can follow, since earlier messages are still
        // repeated.
        guard phase == .open, !isClosing || isDatagram else {
            // The receipt can't be sent any more, but a session can record it.
            var nowhere = ByteBuffer()
            let ends = context.datagramEnds
            swap(&context.output, &nowhere)
            confirmReceipts(count)
            context.datagramEnds = ends
            return swap(&context.output, &nowhere)
        }
        // A receiver on the loop can call this between two events. The pump enters and leaves the core then.
        guard !reading.isPumping else { return confirmReceipts(count) }
        enterCore()
        confirmReceipts(count)
        leaveCore()
    }

    private func confirmReceipts(_ count: Int) {
        for _ in 0..<count { core.confirmReceipt(&context) }
    }

    /// Continues reading that a full inbox had stopped.
    private func resumeReading() {
        guard reading.pauses.contains(.fullInbox), receiving.inbox.isHalfEmpty else { return }
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
