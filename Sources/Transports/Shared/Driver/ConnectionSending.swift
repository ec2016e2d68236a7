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

// MARK: Sending

extension ConnectionDriver: MessagePeer, InlineConnection {
    /// Sends at once or not at all, for servers: a message that finds the write buffer full is refused.
    package func sendNow(_ payload: Payload) -> SendOutcome {
        guard context.output.count < limits.writeBuffer else { return .rejected(.bufferFull) }
        return sendAtOnce(payload) ?? .rejected(.bufferFull)
    }

    /// Sends at once and hands much output to the kernel. Returns `nil`, and sends nothing, if it would have to wait.
    func sendAhead(_ payload: Payload) -> SendOutcome? {
        guard let outcome = sendUnlessWaiting(payload) else { return nil }
        flushAhead()
        return outcome
    }

    package func sendUnlessWaiting(_ payload: Payload) -> SendOutcome? {
        guard !acknowledges || !core.acknowledges(payload) else { return nil }
        guard phase != .open || !isOutputFull && waiting.blocked.isEmpty else { return nil }
        return sendAtOnce(payload)
    }

    /// Sends a message whose acknowledgement nobody waits for; `nil` if the core has no room for it.
    private func sendAtOnce(_ payload: Payload) -> SendOutcome? {
        guard phase == .open, !isClosing else { return .rejected(sendRefusal) }
        let id = WaitID.next()
        switch handToCore(payload, id) {
        case .success(.written): return .written
        case .success(.awaitingAcknowledgement):
            waiting.unacknowledged[id] = .some(nil)
            return .written
        case .success(.blocked): return nil
        case .failure(let error): return .rejected(error)
        }
    }

    package func endNow(_ reason: CloseReason) {
        abandon(reason)
    }

    /// Sends a message, or puts it in line, and tells its outcome.
    func send(_ payload: Payload, _ id: UInt64, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        let blocked = PendingOperations.BlockedSend(id: id, payload: payload, continuation: continuation)
        guard phase == .open, !isClosing else { return continuation.resume(returning: .rejected(sendRefusal)) }
        defer { readForAcknowledgement() }
        guard !isOutputFull, waiting.blocked.isEmpty else { return waiting.blocked.append(blocked) }
        switch handToCore(payload, id) {
        case .success(.written): continuation.resume(returning: .written)
        case .success(.awaitingAcknowledgement): waiting.unacknowledged[id] = continuation
        case .success(.blocked): waiting.blocked.append(blocked)
        case .failure(let error): continuation.resume(returning: .rejected(error))
        }
    }

    /// Waits for the end of a message that the connection before has left.
    func complete(_ id: UInt64, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        guard phase == .open else { return continuation.resume(returning: .unknown(reason?.asError ?? .notOpen)) }
        switch completion(of: id) {
        case .pending:
            waiting.unacknowledged[id] = continuation
            readForAcknowledgement()
        case .acknowledged: continuation.resume(returning: .acknowledged)
        case nil: continuation.resume(returning: .unknown(.nothingLeft))
        }
    }

    private func completion(of id: UInt64) -> SendCompletion? {
        guard var completing = core as? any CompletingCore else { return nil }
        defer { core = completing }
        return completing.completion(of: id)
    }

    /// Why nothing can be sent: the connection is not open yet, closes, or has ended.
    private var sendRefusal: TransportError {
        reason?.sendError ?? (isClosing ? CloseReason.user.sendError : .notOpen)
    }

    private func handToCore(_ payload: Payload, _ id: UInt64) -> Result<SendStatus, TransportError> {
        // Between two events, the core's surroundings are seen to.
        let isAlone = !reading.isPumping
        if isAlone { enterCore() }
        defer { if isAlone { leaveCore() } }
        do throws(TransportError) {
            let status = try core.send(payload, id: id, &context)
            guard status != .blocked else { return .success(status) }
            statistics.messagesSent += 1
            // The owner hears at the end of the tick what a core keeps back.
            if owner != nil, channel.isDatagram { requestFlush() }
            return .success(status)
        } catch {
            return .failure(error)
        }
    }

    /// How many messages that wait are sent at a time; more wait for the next tick.
    private static let blockedAtOnce = 256

    /// There is room: sends messages that wait for it, in their order.
    func sendBlocked() {
        var sent = 0
        while phase == .open, sent < waiting.blocked.count, context.output.count < limits.writeBuffer {
            guard sent < Self.blockedAtOnce else {
                requestFlush()
                break
            }
            let send = waiting.blocked[sent]
            switch handToCore(send.payload, send.id) {
            case .success(.written): send.continuation.resume(returning: .written)
            case .success(.awaitingAcknowledgement): waiting.unacknowledged[send.id] = send.continuation
            case .success(.blocked):
                waiting.blocked.removeFirst(sent)
                return
            case .failure(let error): send.continuation.resume(returning: .rejected(error))
            }
            sent += 1
        }
        if sent > 0, phase == .open { waiting.blocked.removeFirst(sent) }
    }

    func cancelSend(_ id: UInt64) {
        if let index = waiting.blocked.firstIndex(where: { $0.id == id }) {
            waiting.blocked.remove(at: index).continuation.resume(returning: .rejected(.cancelled(.open)))
        } else if let continuation = waiting.unacknowledged[id], let continuation {
            waiting.unacknowledged[id] = .some(nil)
            continuation.resume(returning: .unknown(.cancelled(.open)))
        }
    }
}

extension TransportError {
    fileprivate static let busyReceiving = TransportError(.busy, .open, "another task is receiving already")
    static let notOpen = TransportError(.busy, .handshake, "the connection is not open yet")
    static let bufferFull = TransportError(
        .bufferFull,
        .open,
        "the write buffer is full: the peer reads too slowly"
    )
}

// The pings that users ask for. A core reports answers in the order of the pings, and not whose each is; so a ping that
// is given up, or whose task was cancelled, keeps its place among the answers.
extension ConnectionDriver {
    private static let maximumPings = 16
    /// From what age on a ping gives way to a new one, in nanoseconds. Younger ones don't, so that nobody sends the peer
    /// more pings than it bears.
    static let pingPatience: Int64 = 1_000_000_000

    /// Pings, and tells how long the answer took.
    func ping(_ id: UInt64, _ continuation: UnsafeContinuation<Result<Duration, TransportError>, Never>) {
        do throws(TransportError) { try beginPing(id, continuation) } catch {
            continuation.resume(returning: .failure(error))
        }
    }

    func beginPing(
        _ id: UInt64,
        _ continuation: UnsafeContinuation<Result<Duration, TransportError>, Never>? = nil
    ) throws(TransportError) {
        if phase != .open { throw reason?.asError ?? .notOpen }
        let now = MonotonicClock.now()
        let isFull = waiting.pings.count >= Self.maximumPings
        if isFull, !mayGiveUpPing(now) {
            throw TransportError(.busy, .open, "16 pings wait for their answers already")
        }
        enterCore()
        defer { leaveCore() }
        try core.ping(&context)
        if isFull { giveUpPing() }
        waiting.pings.append(.init(id: id, sentAt: now, continuation: continuation))
    }

    private func mayGiveUpPing(_ now: Int64) -> Bool {
        guard let oldest = waiting.pings.first, context.output.count < limits.writeBuffer else { return false }
        return now - oldest.sentAt >= Self.pingPatience
    }

    private func giveUpPing() {
        waiting.pingsGivenUp += 1
        let error = TransportError(.timedOut, .open, "the ping was given up for a later one: 16 had no answer")
        waiting.pings.removeFirst().continuation?.resume(returning: .failure(error))
    }

    /// The answer has come to the oldest ping that had none.
    func answered() {
        guard waiting.pingsGivenUp == 0 else {
            waiting.pingsGivenUp -= 1
            return
        }
        guard !waiting.pings.isEmpty else { return }
        let ping = waiting.pings.removeFirst()
        ping.continuation?.resume(returning: .success(.nanoseconds(MonotonicClock.now() - ping.sentAt)))
    }

    func cancelPing(_ id: UInt64) {
        guard let index = waiting.pings.firstIndex(where: { $0.id == id }) else { return }
        waiting.pings[index].continuation.take()?.resume(returning: .failure(.cancelled(.open)))
    }
}

/// Messages that were passed over because of their size, and whom to report them to.
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
