import CommandSupport
import TransportAPI

/// The requests of one schedule, and how they end: each in the right answer, in the failure that its handler throws, in its
/// time limit, or in an error that says what is known.
final class StackRequests {
    /// The sender in the bytes of a request, which no message has.
    static let sender = 251
    /// The code of the failure that handlers throw.
    private static let code: UInt16 = 100

    private let run: StackRun
    /// How often each request was handled.
    private var handled: [StackMessage: Int] = [:]
    /// The requests whose callers know that nobody has got them.
    private var unsent: Set<StackMessage> = []
    /// How many requests of each app may have an answer that nobody waits for, and how many such answers have come.
    private var abandoned: [String: Int] = [:]
    private var unexpected: [String: Int] = [:]
    /// Whether a client has begun to close, so that requests may have no answer.
    private var isClosing = false

    init(_ run: StackRun) {
        self.run = run
    }

    func closes() { isClosing = true }

    /// An app has received an answer that nobody waits for.
    func isUnexpected(at name: String) { unexpected[name, default: 0] += 1 }

    /// Handles a request.
    ///
    /// - Parameter isServer: whether a server's app handles it.
    func handle(_ payload: Payload, at name: String, isServer: Bool) throws -> Payload {
        guard let request = StackMessage(payload.bytes), request.sender == Self.sender, !request.isAnswer else {
            run.checker.fail("the handler of \(name) got \(payload.bytes.count) unknown bytes")
            return payload
        }
        handled[request, default: 0] += 1
        // In a session, a request is sent again to the next process of a server, and of a client with the same session.
        let mayRepeat =
            run.plan.style == .session
            && (isServer ? run.wasServerKilled || run.outboxes.contains { $0.hasOwnSession } : run.wasKilled)
        if handled[request] ?? 0 > 1, !mayRepeat { run.checker.fail("\(name) has handled \(request) twice") }
        // What a process has told before it was killed may not be in its store.
        if unsent.contains(request), !run.wasKilled {
            run.checker.fail("\(name) has handled \(request), which was not sent")
        }
        if request.number % 5 == 4 { throw RequestFailure(code: Self.code, reason: "\(request.number)") }
        let answer = StackMessage(user: request.user, sender: Self.sender, number: request.number, isAnswer: true)
        return Payload(answer.bytes(StackMessage.headSize + request.number % 64))
    }

    /// A request has ended.
    ///
    /// - Parameters:
    ///   - time: how long it took, in nanoseconds.
    ///   - timeout: its time limit, in nanoseconds.
    func ended(
        _ request: StackMessage,
        _ result: Result<Payload, RequestError>,
        of name: String,
        after time: Int64,
        timeout: Int64,
        wasCancelled: Bool
    ) {
        func fail(_ text: String) {
            let end = if case .failure(let error) = result { "the error: \(error)" } else { "an answer" }
            run.checker.fail("\(name): request \(request.number) ended after \(time / 1_000_000) ms in \(end): \(text)")
        }
        // The store is opened before the time limit counts.
        if run.plan.isCalm, run.outboxes.isEmpty, time > timeout + 2_000_000_000 {
            fail("it is later than its time limit")
        }
        switch result {
        case .success(let payload):
            let answer = StackMessage(payload.bytes)
            if answer
                != StackMessage(user: request.user, sender: request.sender, number: request.number, isAnswer: true)
            {
                fail("this is another answer")
            }
            if handled[request] == nil { fail("nobody has handled it") }
        case .failure(.refused(RequestFailure.answerNotSent.code, _)) where run.plan.diskFailures ?? 0 > 0:
            // A client whose store cannot take the answer says so.
            if handled[request] == nil { fail("nobody has handled it") }
        case .failure(.refused(let code, let reason)):
            if code != Self.code || reason != "\(request.number)" || request.number % 5 != 4 {
                fail("its handler has thrown no such failure")
            }
        case .failure(.notSent):
            unsent.insert(request)
            if handled[request] != nil, !run.wasKilled { fail("a handler has got it") }
        case .failure(.timedOut):
            abandoned[name, default: 0] += 1
            // The time limit begins with the tick of the loop.
            if time + 100_000_000 < timeout { fail("its time limit is \(timeout / 1_000_000) ms") }
        case .failure(.cancelled):
            abandoned[name, default: 0] += 1
            if !wasCancelled { fail("nobody has cancelled it") }
        case .failure(.unknown):
            abandoned[name, default: 0] += 1
            if run.plan.style == .session, !run.wasKilled, !isClosing, !run.isOver { fail("the session goes on") }
        case .failure(.unreadable), .failure(.tooManyRequests): fail("this cannot be")
        }
    }

    /// Fails if a request was answered twice. Call this after the end.
    func checkEnd() {
        guard !run.wasKilled else { return }
        for (name, count) in unexpected where count > abandoned[name, default: 0] {
            run.checker.fail(
                "\(name) got \(count) answers without a request, and gave up \(abandoned[name, default: 0])"
            )
        }
    }
}
