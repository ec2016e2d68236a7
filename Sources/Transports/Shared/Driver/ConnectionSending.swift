import Primitives
import Protocols
import SocketIO
import TransportAPI

// MARK: Sending

extension ConnectionDriver: MessagePeer {
    /// Sends at once, for servers. Refuses the message if the write buffer is full.
    package func sendNow(_ payload: Payload) -> SendOutcome {
        guard context.output.count < limits.writeBuffer else { return .rejected(.bufferFull) }
        return sendAtOnce(payload) ?? .rejected(.bufferFull)
    }

    /// Sends at once and flushes a large output. Returns `nil`, and sends nothing, if it would have to wait.
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

    /// Sends a message without waiting for its acknowledgement. Returns `nil` if the core has no room for it.
    private func sendAtOnce(_ payload: Payload) -> SendOutcome? {
        guard phase == .open, !isClosing else { return .rejected(sendRefusal) }
        let (id, start) = (WaitID.next(), outputEnd)
        switch handToCore(payload, id) {
        case .success(.written): return .written
        case .success(.awaitingAcknowledgement):
            waiting.unacknowledged[id] = .init(continuation: nil, start: start)
            return .written
        case .success(.blocked): return nil
        case .failure(let error): return .rejected(error)
        }
    }

    package func endNow(_ reason: CloseReason) {
        abandon(reason)
    }

    /// Sends a message, or queues it, and resumes `continuation` with its outcome.
    func send(_ payload: Payload, _ id: UInt64, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        let blocked = PendingOperations.BlockedSend(id: id, payload: payload, continuation: continuation)
        guard phase == .open, !isClosing else { return continuation.resume(returning: .rejected(sendRefusal)) }
        defer { readForAcknowledgement() }
        guard !isOutputFull, waiting.blocked.isEmpty else { return waiting.blocked.append(blocked) }
        let start = outputEnd
        switch handToCore(payload, id) {
        case .success(.written): continuation.resume(returning: .written)
        case .success(.awaitingAcknowledgement):
            waiting.unacknowledged[id] = .init(continuation: continuation, start: start)
        case .success(.blocked): waiting.blocked.append(blocked)
        case .failure(let error): continuation.resume(returning: .rejected(error))
        }
    }

    /// Waits for the outcome of a message that an earlier connection has sent.
    func complete(_ id: UInt64, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        guard phase == .open else { return continuation.resume(returning: .unknown(reason?.asError ?? .notOpen)) }
        switch completion(of: id) {
        case .pending:
            waiting.unacknowledged[id] = .init(continuation: continuation, start: 0)
            readForAcknowledgement()
        case .acknowledged: continuation.resume(returning: .acknowledged)
        case nil: continuation.resume(returning: .unknown(.nothingLeft))
        }
    }

    private func completion(of id: UInt64) -> SendCompletion? {
        let isAlone = !reading.isPumping
        if isAlone { enterCore() }
        defer { if isAlone { leaveCore() } }
        return core.completion(of: id, &context)
    }

    /// Why nothing can be sent: the connection is not open yet, is closing, or has ended.
    private var sendRefusal: TransportError {
        reason?.sendError ?? (isClosing ? CloseReason.user.sendError : .notOpen)
    }

    /// The number of bytes that have been written to the output so far.
    private var outputEnd: UInt64 { writing.flushed &+ UInt64(context.output.count) }

    private func handToCore(_ payload: Payload, _ id: UInt64) -> Result<SendStatus, TransportError> {
        // Between two events, the pump enters and leaves the core.
        let isAlone = !reading.isPumping
        if isAlone { enterCore() }
        defer { if isAlone { leaveCore() } }
        do throws(TransportError) {
            let status = try core.send(payload, id: id, &context)
            guard status != .blocked else { return .success(status) }
            statistics.messagesSent += 1
            // The owner is notified at the end of the tick of the bytes that a core buffers.
            if owner != nil, isDatagram { requestFlush() }
            return .success(status)
        } catch {
            return .failure(error)
        }
    }

    /// How many queued messages are sent in one batch. The others wait for the next tick.
    private static let blockedAtOnce = 256

    /// Sends queued messages in their order while there is room.
    func sendBlocked() {
        var sent = 0
        while phase == .open, let send = waiting.blocked.first, context.output.count < limits.writeBuffer {
            guard sent < Self.blockedAtOnce else {
                requestFlush()
                break
            }
            let start = outputEnd
            let result = handToCore(send.payload, send.id)
            if case .success(.blocked) = result { return }
            _ = waiting.blocked.popFirst()
            sent += 1
            switch result {
            case .success(.written): send.continuation.resume(returning: .written)
            case .success(.awaitingAcknowledgement):
                waiting.unacknowledged[send.id] = .init(continuation: send.continuation, start: start)
            case .success(.blocked): break
            case .failure(let error): send.continuation.resume(returning: .rejected(error))
            }
        }
    }

    func cancelSend(_ id: UInt64) {
        if let index = waiting.blocked.firstIndex(where: { $0.id == id }) {
            waiting.blocked.remove(at: index).continuation.resume(returning: .rejected(.cancelled(.open)))
        } else if let continuation = waiting.unacknowledged[id]?.continuation {
            waiting.unacknowledged[id]?.continuation = nil
            continuation.resume(returning: .unknown(.cancelled(.open)))
        }
    }
}

extension TransportError {
    static let busyReceiving = TransportError(.busy, .open, "another task is receiving already")
    static let notOpen = TransportError(.busy, .handshake, "the connection is not open yet")
    static let bufferFull = TransportError(
        .bufferFull,
        .open,
        "the write buffer is full: the peer reads too slowly"
    )
}

// MARK: Pings

extension ConnectionDriver {
    /// Pings, and resumes `continuation` with the time until the answer.
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
        // The peer does not get more pings than it can process.
        guard waiting.pings.hasRoom(now: now, mayReplace: context.output.count < limits.writeBuffer) else {
            throw TransportError(.busy, .open, "\(PendingPings.limit) pings wait for their answers already")
        }
        enterCore()
        defer { leaveCore() }
        let number = try core.ping(&context)
        waiting.pings.append(number, of: id, now: now, continuation)
    }

    func cancelPing(_ id: UInt64) {
        waiting.pings.cancel(id)
    }
}
