import Primitives

/// What requests need from the driver of a supervisor or of a session.
protocol RequestCarrier: ConnectionDelegate {
    var outgoing: PendingSends { get }
    /// Puts a message into the outbox. Returns the outcome if it is known already.
    func submit(_ payload: Payload) -> (MessageID, SendOutcome?)
    /// From now on each received message has a receipt.
    func makeReceipts()
    /// Reports an event.
    func note(_ event: SupervisorEvent)
    /// Why no answer to a message that was taken now can come, if that is so.
    var gone: TransportError? { get }
}

/// The requests of one conversation in both directions. It is alike for a supervisor and for a session, and exists from
/// the first use of requests on. Lives on their runtime.
final class RequestLayer {
    /// A caller that waits for its answer.
    private struct Caller {
        let id: UInt64
        let timer: UInt64
        let continuation: UnsafeContinuation<RequestAnswer, Never>
        /// Its message, once that was submitted.
        var message: MessageID?
    }

    private let runtime: any SupervisorRuntime
    private weak var carrier: (any RequestCarrier)?
    private var open: OpenRequests<Caller>
    private var handled: HandledRequests<IncomingRequest>
    /// The numbers of the open requests, by the identifiers under which their callers wait.
    private var numbers: [UInt64: UInt64] = [:]
    private var handler: RequestHandler?
    /// Where the handler runs; `nil` means the shared threads of Swift.
    private var executor: (any TaskExecutor)?
    /// How long a request that is being handled stays unacknowledged.
    private let acknowledgementDelay: Duration

    init(_ carrier: any RequestCarrier, _ configuration: RequestConfiguration) {
        runtime = carrier.runtime
        self.carrier = carrier
        var random = runtime.makeRandomSource()
        open = OpenRequests(first: random.next(), limit: configuration.maximumOpen)
        handled = HandledRequests(limit: configuration.maximumHandlers)
        acknowledgementDelay = configuration.acknowledgementDelay
    }

    // MARK: Requests of this side

    /// Sends a request. Resumes `continuation` with its answer.
    ///
    /// - Parameter id: Identifies the caller for ``cancel(_:)``.
    func begin(
        _ id: UInt64,
        _ payload: Payload,
        until deadline: Instant,
        _ continuation: UnsafeContinuation<RequestAnswer, Never>
    ) {
        guard let carrier else { return continuation.resume(returning: .failure(.notSent(.sessionEnded))) }
        guard !open.isFull else { return continuation.resume(returning: .failure(.tooManyRequests)) }
        let timer = runtime.schedule(at: deadline) { [weak self] in self?.timedOut(id) }
        guard let number = open.add(Caller(id: id, timer: timer, continuation: continuation)) else { return }
        numbers[id] = number
        let envelope = RequestEnvelope.request(number, payload.bytes).payload(carrying: payload)
        let (message, outcome) = carrier.submit(envelope)
        open[number]?.message = message
        if let outcome { return settled(number, outcome) }
        carrier.outgoing.observe(message, RequestOutcome(self, number))
    }

    fileprivate func settled(_ number: UInt64, _ outcome: SendOutcome) {
        finish(open.settled(number, outcome, gone: carrier == nil ? .sessionEnded : carrier?.gone))
    }

    private func timedOut(_ id: UInt64) {
        guard let number = numbers[id] else { return }
        open.overdue(number)
        cancelMessage(number)
        // The message has not ended if a connection has it.
        finish(open.end(number, .timedOut))
    }

    /// The task of a caller was cancelled.
    func cancel(_ id: UInt64) {
        guard let number = numbers[id] else { return }
        let (message, isPending) = (open[number]?.message, open.isPending(number))
        finish(open.end(number, .cancelled))
        if isPending, let message { carrier?.handle(.cancel(message)) }
    }

    private func cancelMessage(_ number: UInt64) {
        guard open.isPending(number), let message = open[number]?.message else { return }
        carrier?.handle(.cancel(message))
    }

    /// The answers to requests that were taken cannot come any more.
    func loseAnswers(_ error: TransportError) {
        for ended in open.loseAnswers(error) { finish(ended) }
    }

    private func finish(_ ended: OpenRequests<Caller>.Ended?) {
        guard let ended else { return }
        numbers[ended.caller.id] = nil
        runtime.cancel(timer: ended.caller.timer)
        ended.caller.continuation.resume(returning: ended.answer)
    }

    // MARK: Messages

    /// Takes a received message if it is a request or an answer. Returns whether it is.
    func claims(_ message: ReceivedMessage, _: MessageAudience) -> Bool {
        guard let envelope = RequestEnvelope(message.payload) else { return false }
        var content = message.payload
        switch envelope {
        case .request(let number, let body):
            content.bytes = body
            take(IncomingRequest(number, content, message))
        case .reply(let number, let body):
            content.bytes = body
            answered(number, .success(content), message)
        case .failure(let number, let failure):
            answered(number, .failure(.refused(code: failure.code, reason: failure.reason)), message)
        }
        return true
    }

    private func answered(_ number: UInt64, _ answer: RequestAnswer, _ message: ReceivedMessage) {
        let ended = open.answered(number, answer)
        // Counted as received before the caller continues.
        message.acknowledge()
        if ended == nil { carrier?.note(.unexpectedReply) }
        finish(ended)
    }

    // MARK: Requests of the peer

    /// Handles the requests of the peer from now on; with `nil` each is refused.
    func answer(with handler: RequestHandler?, on executor: (any TaskExecutor)?) {
        (self.handler, self.executor) = (handler, executor)
        if handler != nil { carrier?.makeReceipts() }
        if handler == nil { for request in handled.removeWaiting() { answer(request, .failure(.noHandler)) } }
    }

    private func take(_ request: IncomingRequest) {
        guard handler != nil else { return answer(request, .failure(.noHandler)) }
        switch handled.add(request.number, request) {
        case .handle: handle(request)
        case .wait: break
        case .repeated:
            // A broker sends it again over its next connection, and the receipt of the former one has no effect any
            // more. A peer that uses a number twice gets one answer.
            if let former = handled[request.number], !former.message.awaitsAcknowledgement {
                former.message = request.message
            } else {
                request.message.acknowledge()
            }
        }
    }

    private func handle(_ request: IncomingRequest) {
        guard let handler else { return answer(request, .failure(.noHandler)) }
        // One handler that hangs would hold back the acknowledgements of all later messages.
        request.timer = runtime.schedule(at: runtime.clock.advanced(by: acknowledgementDelay)) {
            request.timer = nil
            request.message.acknowledge()
        }
        request.task = Self.begin(
            handler,
            on: executor,
            request.number,
            request.payload,
            RuntimeBound(self, to: runtime)
        )
    }

    private static func begin(
        _ handler: @escaping RequestHandler,
        on executor: (any TaskExecutor)?,
        _ number: UInt64,
        _ payload: Payload,
        _ layer: RuntimeBound<RequestLayer>
    ) -> Task<Void, Never> {
        Task(executorPreference: executor) {
            let answer = await call(handler, with: payload)
            layer.execute { layer.value.handled(number, answer) }
        }
    }

    private static func call(_ handler: RequestHandler, with payload: Payload) async -> Result<Payload, RequestFailure>
    {
        do {
            return .success(try await handler(payload))
        } catch let failure as RequestFailure {
            return .failure(failure)
        } catch {
            // Its text may tell what the peer must not know.
            return .failure(.handlerFailed)
        }
    }

    private func handled(_ number: UInt64, _ answer: Result<Payload, RequestFailure>) {
        // The conversation may have ended meanwhile.
        if let request = handled[number] { self.answer(request, answer) }
    }

    private func answer(_ request: IncomingRequest, _ answer: Result<Payload, RequestFailure>) {
        let payload =
            switch answer {
            case .success(let content): RequestEnvelope.reply(request.number, content.bytes).payload(carrying: content)
            case .failure(let failure): RequestEnvelope.failure(request.number, failure).payload()
            }
        guard let carrier else { return ended(request) }
        let outcome = AnswerOutcome(self, request, isFailure: (try? answer.get()) == nil)
        let (message, settled) = carrier.submit(payload)
        if let settled { outcome.settled(settled) } else { carrier.outgoing.observe(message, outcome) }
    }

    /// The answer to a request has a place in the outbox, or will never have one.
    fileprivate func ended(_ request: IncomingRequest) {
        release(request)
        guard handled[request.number] === request else { return }
        if let next = handled.ended(request.number) { handle(next) }
    }

    private func release(_ request: IncomingRequest) {
        if let timer = request.timer.take() { runtime.cancel(timer: timer) }
        request.message.acknowledge()
    }

    /// The answer was not sent: it is too large for the connection, or has a topic over a transport without topics.
    fileprivate func answerWasRejected(_ request: IncomingRequest) {
        answer(request, .failure(.answerNotSent))
    }

    // MARK: The end

    /// The conversation has ended.
    func end(_ error: TransportError) {
        loseAnswers(error)
        for request in handled.removeAll() {
            release(request)
            request.task?.cancel()
        }
    }
}

/// A request of the peer.
private final class IncomingRequest {
    let number: UInt64
    let payload: Payload
    /// Acknowledged when the answer has a place in the outbox, or after a time. Until then the peer sends the request
    /// again to the next process.
    var message: ReceivedMessage
    var task: Task<Void, Never>?
    /// Acknowledges the message.
    var timer: UInt64?

    init(_ number: UInt64, _ payload: Payload, _ message: ReceivedMessage) {
        (self.number, self.payload, self.message) = (number, payload, message)
    }
}

/// Receives the outcome of the message of a request.
private final class RequestOutcome: SendObserver {
    private let layer: RequestLayer
    private let number: UInt64

    init(_ layer: RequestLayer, _ number: UInt64) {
        (self.layer, self.number) = (layer, number)
    }

    func settled(_ outcome: SendOutcome) { layer.settled(number, outcome) }
}

/// Receives the outcome of the message of an answer.
private final class AnswerOutcome: SendObserver {
    private let layer: RequestLayer
    private let request: IncomingRequest
    private let isFailure: Bool

    init(_ layer: RequestLayer, _ request: IncomingRequest, isFailure: Bool) {
        (self.layer, self.request, self.isFailure) = (layer, request, isFailure)
    }

    func accepted() { layer.ended(request) }

    func settled(_ outcome: SendOutcome) {
        if case .rejected = outcome, !isFailure {
            return layer.answerWasRejected(request)
        }
        layer.ended(request)
    }
}

extension TransportError {
    /// Why no answer comes after the end of the supervisor or of the session.
    static let sessionEnded = TransportError(.connectionLost, .open, "the session has ended")
    /// Why no answer comes after the end of a connection in plain mode.
    static let connectionEnded = TransportError(.connectionLost, .open, "the connection has ended")
    /// Why no answer comes from a peer that does not know the session.
    static let sessionForgotten = TransportError(
        .connectionLost,
        .open,
        "the peer has lost the session, and with it the answer"
    )
}
