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
        ownDeadline = nil
        statistics.handshakeBytes = channel.bytesSent + UInt64(context.output.count) + channel.bytesReceived
        statistics.handshakeRoundTrips += channel.roundTripsToConnect
        statistics.handshakeDuration = .nanoseconds(MonotonicClock.now() - started)
        waiting.opener.take()?.resume(returning: nil)
        owner?.opened(self)
    }

    /// How many messages that were passed over wait for a listener.
    private static let maximumUnreported = 16

    private func discarded(_ message: DiscardedMessage) {
        statistics.discarded += 1
        statistics.lastDiscarded = message
        if let onDiscard {
            onDiscard(message)
        } else if unreported.count < Self.maximumUnreported, handler == nil {
            unreported.append(message)
        }
    }

    /// Reports the messages that are passed over to `action`, also those that were before.
    func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {
        if phase == .open { onDiscard = action }
        let messages = unreported
        unreported = []
        for message in messages { action(message) }
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

    /// Gives the next message, or the end, as soon as it is there.
    func receive(_ id: UInt64, _ continuation: UnsafeContinuation<PendingOperations.Received, Never>) {
        if let message = takeMessage() {
            continuation.resume(returning: message)
        } else {
            waiting.receiver = .task(id: id, continuation)
        }
    }

    /// The receiver is done with what it was given, if it has not said so yet.
    func confirmTaken() {
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
            // The far side can't be told any more, but a session may take note.
            var nowhere = ByteBuffer()
            let ends = context.datagramEnds
            swap(&context.output, &nowhere)
            confirmReceipts(count)
            context.datagramEnds = ends
            return swap(&context.output, &nowhere)
        }
        // From a receiver on the loop it may come between two events; the core's surroundings are seen to then.
        guard !isPumping else { return confirmReceipts(count) }
        enterCore()
        confirmReceipts(count)
        leaveCore()
    }

    private func confirmReceipts(_ count: Int) {
        for _ in 0..<count { core.confirmReceipt(&context) }
    }

    /// Goes on reading if a full inbox had stopped it.
    private func resumeReading() {
        guard isStalled, inbox.isHalfEmpty else { return }
        isStalled = false
        shareEnd = 0
        pump()
        readWhilePossible()
    }

    func cancelReceive(_ id: UInt64) {
        guard case .task(id, _) = waiting.receiver else { return }
        waiting.receiver.take()?.take(.failure(.cancelled(.open)))
    }
}

// MARK: Sending

extension ConnectionDriver: MessagePeer {
    /// Sends at once or not at all, for servers: a message that finds the write buffer full is refused.
    package func sendNow(_ payload: Payload) -> SendOutcome {
        guard context.output.count < limits.writeBuffer else { return .rejected(.bufferFull) }
        return sendAtOnce(payload) ?? .rejected(.bufferFull)
    }

    /// Sends at once; `nil`: it would have to wait.
    func sendUnlessWaiting(_ payload: Payload) -> SendOutcome? {
        guard phase != .open || !isOutputFull && waiting.blocked.isEmpty else { return nil }
        return sendAtOnce(payload)
    }

    /// Sends a message whose acknowledgement nobody waits for; `nil` if the core has no room for it.
    private func sendAtOnce(_ payload: Payload) -> SendOutcome? {
        guard phase == .open, !isClosing else { return .rejected(sendRefusal) }
        let id = waiting.newID()
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
        guard phase == .open else { return continuation.resume(returning: .unknown(reason?.endError ?? .notOpen)) }
        switch core.completion(of: id) {
        case .pending:
            waiting.unacknowledged[id] = continuation
            readForAcknowledgement()
        case .acknowledged: continuation.resume(returning: .acknowledged)
        case nil: continuation.resume(returning: .unknown(.nothingLeft))
        }
    }

    /// Why nothing can be sent: the connection is not open yet, closes, or has ended.
    private var sendRefusal: TransportError {
        reason?.sendError ?? (isClosing ? CloseReason.user.sendError : .notOpen)
    }

    private func handToCore(_ payload: Payload, _ id: UInt64) -> Result<SendStatus, TransportError> {
        // Between two events, the core's surroundings are seen to.
        let isAlone = !isPumping
        if isAlone { enterCore() }
        defer { if isAlone { leaveCore() } }
        do throws(TransportError) {
            let status = try core.send(payload, id: id, &context)
            guard status != .blocked else { return .success(status) }
            statistics.messagesSent += 1
            // The owner hears at the end of the turn what a core keeps back.
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
        "the write buffer is full: the far side reads too slowly"
    )
}

// The pings that users ask for. A core reports answers in the order of the pings, and not whose each is; so a ping that
// is given up, or whose task was cancelled, keeps its place among the answers.
extension ConnectionDriver {
    private static let maximumPings = 16
    /// From what age on a ping gives way to a new one, in nanoseconds. Younger ones don't, so that nobody sends the far side
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
        if phase != .open { throw reason?.endError ?? .notOpen }
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

// What the core writes, on its way to the kernel.
extension ConnectionDriver {
    /// From how much on output is not patient any more, in bytes.
    private static let patientOutput = 16 << 10
    /// How many patient connections may each keep a whole block for their output.
    private static let patientBlocks = 64

    /// Asks for the output to be handed to the kernel when this turn ends, with all else that is written until then;
    /// that of a busy connection when its share ends, of which it is a part. A server answers who has spoken in this
    /// turn before it writes to others, unless so much waits for one of them that it may not grow.
    func requestFlush() {
        guard phase != .closed else { return }
        let isPatient =
            owner != nil && phase == .open && !isClosing && lastHeard != loop.now
            && context.output.count < Self.patientOutput
        if flushRequested {
            guard isFlushPatient, !isPatient else { return }
        }
        flushRequested = true
        isFlushPatient = false
        if isInShare { return }
        if isBusy { return waitForShare() }
        guard isPatient else { return loop.atEndOfTick(self) }
        isFlushPatient = true
        waitForPatience()
    }

    /// Waits for what comes behind the end of a turn. Who was more urgent in the meantime has its place still.
    func waitForPatience() {
        guard !isInPatientLine else { return }
        isInPatientLine = true
        loop.runAtLowPriority(self)
    }

    package func runLowPriorityWork() {
        isInPatientLine = false
        tickEnded()
        // What came alone is answered by now; what has come meanwhile is not.
        if isReadable, channel.isDatagram { readWhilePossible() }
    }

    func flush() {
        guard phase != .closed else { return }
        isWaitingForAnswer = true
        let before = context.output.count
        let result = channel.flush(&context)
        if result != .wouldBlock { stuckSince = 0 }
        if context.hasMoved { tellMove() }
        switch result {
        case .bytes, .end: returnMemory(&context.output)
        case .wouldBlock:
            if stuckSince == 0 || context.output.count < before, !loop.hasEndlessTicks { stuckSince = loop.now }
            returnMemory(&context.output)
        case .failed(let error): return writeFailed(error)
        }
        if phase == .draining {
            if context.output.isEmpty { finishDraining() }
        } else if context.output.count < limits.writeBuffer {
            if wantsRoom, isNearlyEmpty {
                wantsRoom = false
                handler?.roomMade(self)
            }
            sendBlocked()
            if isPausedForWrites {
                isPausedForWrites = false
                waitForShare()
            }
        }
    }

    /// Hands output to the kernel before the turn is over once it is about to outgrow its block, unless the kernel
    /// takes nothing anyway: who sends much in one turn then writes all of it to the same memory. It counts as waiting
    /// until the turn is over (``isOutputFull``), for who never had to wait would keep the loop from everybody else. To
    /// be called by who sends, and not by a core or what it calls.
    func flushAhead() {
        let waiting = context.output.count
        guard waiting > ScratchPool.blockSize - Self.room, flushRequested, stuckSince == 0, !isPumping,
            !isWaitingForShare
        else { return }
        flush()
        sentAhead += waiting - context.output.count
        tellMemory()
    }

    /// Whether who sends has to wait: for the kernel to take what waits, or, if so much has left in this turn, for the next.
    var isOutputFull: Bool { context.output.count + sentAhead >= limits.writeBuffer }

    // MARK: The core's surroundings

    /// To be called before the core: gives it the time and memory to write to.
    func enterCore() {
        context.now = Instant(nanoseconds: loop.now)
        borrowMemory(&context.output)
    }

    /// To be called after the core: hands on what it wrote, and keeps its deadline. While the channel is full, nothing
    /// is requested: the channel reports when there is room (``ready(_:)``). The output may grow until then, so that a
    /// server counts it.
    func leaveCore() {
        if context.output.isEmpty {
            returnMemory(&context.output)
        } else {
            if stuckSince == 0 {
                requestFlush()
            } else if owner != nil, !isTellRequested {
                isTellRequested = true
                loop.atEndOfTick(self)
            }
            // Of a message for thousands, each keeps its copy and not a whole block.
            if isFlushPatient, loop.patientCount > Self.patientBlocks { returnMemory(&context.output) }
        }
        armTimer()
    }

    /// Writes one whole message that is encoded already in the core's own format, so that a server encodes once for many.
    package func sendEncoded(_ bytes: UnsafeRawBufferPointer) {
        guard phase == .open else { return }
        enterCore()
        core.sendEncoded(bytes, &context)
        statistics.messagesSent += 1
        leaveCore()
    }

    /// Whether the write buffer takes more.
    package var hasRoom: Bool { phase == .open && context.output.count < limits.writeBuffer }

    /// Whether little of the output is left: room for what can wait, beside what can't.
    package var isNearlyEmpty: Bool { phase == .open && context.output.count < min(limits.writeBuffer, 64 << 10) }
}
