import SocketIO
import TestSupport
import Testing

@testable import TransportAPI

/// The test plays the server, and time is under its control.
@Suite("A supervisor that makes requests", .timeLimit(.minutes(5)), .ownThread)
struct RequestsOfSupervisorTests {
    private let runtime = VirtualRuntime()
    private let script = Script()
    private let recorder = Recorder()

    private func supervisor(
        _ mode: DeliveryConfiguration.Mode = .plain,
        _ change: (inout SupervisorConfiguration) -> Void = { _ in }
    ) throws -> Supervisor {
        var setup = try script.setup {
            $0.delivery.mode = mode
            change(&$0)
        }
        setup.observer = recorder
        return try Supervisor(setup, on: runtime)
    }

    /// Lets the supervisor connect, in a session to the server with this incarnation.
    @discardableResult
    private func open(
        _ supervisor: Supervisor,
        incarnation: UInt64? = nil,
        received: UInt64 = 0
    ) throws -> ScriptedConnection {
        supervisor.connect()
        runtime.advance(by: .seconds(2))
        let connection = try #require(script.last)
        if let incarnation {
            connection.give(.welcome(incarnation: incarnation, received: received))
            runtime.settle()
        }
        return connection
    }

    private func ask(
        _ supervisor: Supervisor,
        _ text: String = "question",
        timeout: Duration = .seconds(10)
    ) -> Pending<RequestAnswer> {
        runtime.begin {
            do throws(RequestError) {
                return .success(try await supervisor.request(bytes(text), timeout: timeout))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Answers a request over a connection.
    private func answer(_ connection: ScriptedConnection, _ envelope: RequestEnvelope) {
        connection.give(envelope.payload())
        runtime.settle()
    }

    private var unexpected: Int { recorder.events.count { $0 == .unexpectedReply } }

    @Test("Each request gets its own answer, and the app's messages contain none of them", arguments: [true, false])
    func answered(hasDeliveries: Bool) throws {
        let supervisor = try supervisor()
        let deliveries = hasDeliveries ? supervisor.deliveries : nil
        let messages = supervisor.messages
        let connection = try open(supervisor)
        let (one, two) = (ask(supervisor, "1"), ask(supervisor, "2"))
        let numbers = connection.requests
        #expect(numbers.map(\.text) == ["1", "2"])
        connection.give(bytes("before"))
        answer(connection, .reply(numbers[1].number, Array("two".utf8)))
        #expect(one.value == nil && two.value == .success(bytes("two")))
        answer(connection, .reply(numbers[0].number, Array("one".utf8)))
        connection.give(bytes("after"))
        #expect(one.value == .success(bytes("one")))
        let texts = try runtime.run { await messages.prefix(2).reduce(into: []) { $0.append($1.string) } }
        #expect(texts == ["before", "after"])
        if let deliveries {
            let texts = try runtime.run { await deliveries.prefix(2).reduce(into: []) { $0.append($1.payload.string) } }
            #expect(texts == ["before", "after"])
        }
        #expect(unexpected == 0)
        try runtime.run { await supervisor.close() }
        #expect(runtime.timerCount == 0)
    }

    @Test("The failure of the peer's handler is the error of the request")
    func refused() throws {
        let supervisor = try supervisor()
        let connection = try open(supervisor)
        let pending = ask(supervisor)
        let number = try #require(connection.requests.first?.number)
        answer(connection, .failure(number, RequestFailure(code: 404, reason: "there is no such page")))
        #expect(pending.value == .failure(.refused(code: 404, reason: "there is no such page")))
        try runtime.run { await supervisor.close() }
    }

    @Test("A request whose answer is late ends at its time limit, and the late answer is dropped and reported")
    func timeLimit() throws {
        let supervisor = try supervisor()
        let connection = try open(supervisor)
        let pending = ask(supervisor, timeout: .seconds(3))
        let number = try #require(connection.requests.first?.number)
        runtime.advance(by: .milliseconds(2999))
        #expect(pending.value == nil)
        runtime.advance(by: .milliseconds(1))
        #expect(pending.value == .failure(.timedOut))
        answer(connection, .reply(number, []))
        #expect(unexpected == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A request that was not sent within its time limit is never sent",
        arguments: [.plain, .session] as [DeliveryConfiguration.Mode]
    )
    func notSent(mode: DeliveryConfiguration.Mode) throws {
        let supervisor = try supervisor(mode)
        let pending = ask(supervisor, timeout: .seconds(3))
        runtime.advance(by: .seconds(3))
        guard case .failure(.notSent(let error))? = pending.value else {
            Issue.record("\(String(describing: pending.value))")
            return
        }
        #expect(error.code == .timedOut)
        let connection = try open(supervisor, incarnation: mode == .session ? 7 : nil)
        #expect(connection.requests.isEmpty)
        try runtime.run { await supervisor.close() }
    }

    @Test("A request in flight in a session ends at its time limit")
    func timeLimitInSession() throws {
        let supervisor = try supervisor(.session)
        let connection = try open(supervisor, incarnation: 7)
        let (taken, inFlight) = (ask(supervisor, "1", timeout: .seconds(3)), ask(supervisor, "2", timeout: .seconds(3)))
        connection.give(.acknowledge(1))
        runtime.advance(by: .seconds(3))
        #expect(taken.value == .failure(.timedOut) && inFlight.value == .failure(.timedOut))
        #expect(connection.requests.count >= 2)
        try runtime.run { await supervisor.close() }
    }

    @Test("A cancelled request ends at once, and is not sent if it was not yet")
    func cancelled() throws {
        let supervisor = try supervisor()
        let unsent = ask(supervisor, "unsent")
        unsent.cancel()
        runtime.settle()
        #expect(unsent.value == .failure(.cancelled))
        let connection = try open(supervisor)
        let sent = ask(supervisor, "sent")
        #expect(connection.requests.map(\.text) == ["sent"])
        sent.cancel()
        runtime.settle()
        #expect(sent.value == .failure(.cancelled))
        answer(connection, .reply(connection.requests[0].number, []))
        #expect(unexpected == 1)
        try runtime.run { await supervisor.close() }
        #expect(runtime.timerCount == 0)
    }

    @Test("A second answer, and one to a request that was never made, are dropped and reported")
    func unexpectedAnswers() throws {
        let supervisor = try supervisor()
        let messages = supervisor.messages
        let connection = try open(supervisor)
        let pending = ask(supervisor)
        let number = try #require(connection.requests.first?.number)
        answer(connection, .reply(number &+ 1, Array("never asked".utf8)))
        answer(connection, .failure(number &- 1, .noHandler))
        #expect(pending.value == nil && unexpected == 2)
        answer(connection, .reply(number, Array("first".utf8)))
        answer(connection, .reply(number, Array("second".utf8)))
        answer(connection, .failure(number, .noHandler))
        #expect(pending.value == .success(bytes("first")) && unexpected == 4)
        connection.give(bytes("message"))
        #expect(try runtime.run { await messages.first { _ in true } } == bytes("message"))
        try runtime.run { await supervisor.close() }
    }

    @Test("A full table of requests refuses further ones, and has room again after an answer")
    func full() throws {
        let supervisor = try supervisor { $0.requests.maximumOpen = 2 }
        let connection = try open(supervisor)
        let open = (1...2).map { ask(supervisor, "\($0)") }
        #expect(ask(supervisor).value == .failure(.tooManyRequests))
        #expect(connection.requests.count == 2)
        answer(connection, .reply(connection.requests[0].number, []))
        #expect(open[0].value == .success(bytes("")) && open[1].value == nil)
        #expect(ask(supervisor).value == nil && connection.requests.count == 3)
        try runtime.run { await supervisor.close() }
    }

    @Test("In plain mode the end of the connection ends the requests that were sent over it, and no others")
    func plainCut() throws {
        let supervisor = try supervisor()
        let connection = try open(supervisor)
        let sent = ask(supervisor, "sent", timeout: .seconds(60))
        connection.end(CloseReason(.network))
        runtime.settle()
        guard case .failure(.unknown(let error))? = sent.value else {
            Issue.record("\(String(describing: sent.value))")
            return
        }
        #expect(error.code == .connectionLost)
        let waiting = ask(supervisor, "waiting", timeout: .seconds(60))
        let next = try open(supervisor)
        #expect(next.requests.map(\.text) == ["waiting"] && waiting.value == nil)
        answer(next, .reply(next.requests[0].number, []))
        #expect(waiting.value == .success(bytes("")))
        try runtime.run { await supervisor.close() }
    }

    @Test("In a session a request is sent again over the next connection, where its answer comes")
    func sessionCut() throws {
        let supervisor = try supervisor(.session)
        let connection = try open(supervisor, incarnation: 7)
        let (taken, inFlight) = (
            ask(supervisor, "taken", timeout: .seconds(60)), ask(supervisor, "in flight", timeout: .seconds(60))
        )
        let numbers = connection.requests.map(\.number)
        connection.give(.acknowledge(1))
        runtime.settle()
        connection.end(CloseReason(.network))
        let next = try open(supervisor, incarnation: 7, received: 1)
        #expect(next.requests.map(\.text) == ["in flight"] && next.requests.map(\.number) == [numbers[1]])
        #expect(taken.value == nil && inFlight.value == nil)
        next.give(.message(1, RequestEnvelope.reply(numbers[1], [1]).payload()))
        next.give(.message(2, RequestEnvelope.reply(numbers[0], [0]).payload()))
        runtime.settle()
        #expect(taken.value == .success(Payload([0])) && inFlight.value == .success(Payload([1])))
        #expect(next.frames.last == .acknowledge(2) && unexpected == 0)
        try runtime.run { await supervisor.close() }
    }

    @Test("A server that has lost the session gets the requests again that it had not acknowledged; the others end")
    func sessionLost() throws {
        let supervisor = try supervisor(.session)
        let connection = try open(supervisor, incarnation: 7)
        let (taken, inFlight) = (
            ask(supervisor, "taken", timeout: .seconds(60)), ask(supervisor, "in flight", timeout: .seconds(60))
        )
        connection.give(.acknowledge(1))
        runtime.settle()
        connection.end(CloseReason(.network))
        let next = try open(supervisor, incarnation: 8)
        guard case .failure(.unknown)? = taken.value else {
            Issue.record("\(String(describing: taken.value))")
            return
        }
        #expect(inFlight.value == nil && next.requests.map(\.text) == ["in flight"])
        next.give(.message(1, RequestEnvelope.reply(next.requests[0].number, [1]).payload()))
        runtime.settle()
        #expect(inFlight.value == .success(Payload([1])))
        try runtime.run { await supervisor.close() }
    }

    @Test("The outcome of a message that was not sent is the error of its request")
    func rejected() throws {
        let supervisor = try supervisor {
            $0.outbox.maximumCount = 1
            $0.outbox.whenFull = .refuseNewest
        }
        let first = ask(supervisor)
        guard case .failure(.notSent(let full))? = ask(supervisor).value else {
            Issue.record("a full outbox takes a request")
            return
        }
        #expect(full.code == .bufferFull && first.value == nil)
        try runtime.run { await supervisor.close() }
        guard case .failure(.notSent)? = first.value, case .failure(.notSent)? = ask(supervisor).value else {
            Issue.record("\(String(describing: first.value))")
            return
        }
        #expect(runtime.timerCount == 0)
    }

    @Test("A closed supervisor ends the requests that were sent as unknown")
    func closed() throws {
        let supervisor = try supervisor()
        try open(supervisor)
        let pending = ask(supervisor)
        try runtime.run { await supervisor.close() }
        guard case .failure(.unknown)? = pending.value else {
            Issue.record("\(String(describing: pending.value))")
            return
        }
        #expect(runtime.timerCount == 0)
    }

    @Test("A side that uses no requests gets messages that look like requests unchanged")
    func unused() throws {
        let supervisor = try supervisor()
        let messages = supervisor.messages
        let connection = try open(supervisor)
        let envelopes: [RequestEnvelope] = [.request(1, [2]), .reply(3, []), .failure(4, .noHandler)]
        for envelope in envelopes { connection.give(envelope.payload()) }
        let received = try runtime.run { await messages.prefix(3).reduce(into: []) { $0.append($1) } }
        #expect(received == envelopes.map { $0.payload() })
        #expect(connection.sent.isEmpty)
        try runtime.run { await supervisor.close() }
    }

    @Test("A side that uses requests still gets texts and short messages, and refuses requests without a handler")
    func inUse() throws {
        let supervisor = try supervisor()
        supervisor.onRequest(nil)
        let messages = supervisor.messages
        let connection = try open(supervisor)
        let text = Payload(RequestEnvelope.reply(1, []).bytes, kind: .text)
        connection.give(text)
        connection.give(Payload([0x14, 1, 2]))
        answer(connection, .request(5, [1]))
        let received = try runtime.run { await messages.prefix(2).reduce(into: []) { $0.append($1) } }
        #expect(received == [text, Payload([0x14, 1, 2])])
        #expect(connection.sent.compactMap(RequestEnvelope.init) == [.failure(5, .noHandler)])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor answers requests of the server")
    func answersServer() throws {
        let supervisor = try supervisor(.session)
        supervisor.onRequest(on: runtime) { bytes("re: " + $0.string) }
        let connection = try open(supervisor, incarnation: 7)
        connection.give(.message(1, RequestEnvelope.request(9, Array("hello".utf8)).payload()))
        runtime.settle()
        let replies = connection.envelopes
        #expect(replies == [.reply(9, Array("re: hello".utf8))])
        #expect(connection.frames.contains(.acknowledge(1)))
        try runtime.run { await supervisor.close() }
    }
}

extension ScriptedConnection {
    /// The envelopes that were sent over it, in a session or without one.
    var envelopes: [RequestEnvelope] {
        sent.compactMap { payload in
            if let envelope = RequestEnvelope(payload) { return envelope }
            guard case .message(_, let content, _)? = try? SessionFrame(payload) else { return nil }
            return RequestEnvelope(content)
        }
    }

    /// The requests among them.
    var requests: [(number: UInt64, text: String)] {
        envelopes.compactMap {
            if case .request(let number, let body) = $0 { (number, String(decoding: body, as: UTF8.self)) } else { nil }
        }
    }
}
