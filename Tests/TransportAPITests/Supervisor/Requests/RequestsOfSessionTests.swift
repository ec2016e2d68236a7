import SocketIO
import TestSupport
import Testing

@testable import TransportAPI

/// The test plays the clients, and time is under its control.
@Suite("A session that answers requests", .timeLimit(.minutes(5)), .ownThread)
struct RequestsOfSessionTests {
    /// Handlers that wait until the test lets them end.
    private final class Handlers: Sendable {
        private struct State: Sendable {
            var begun: [String] = []
            var waiting: [String: UnsafeContinuation<Void, Never>] = [:]
            var cancelled = 0
        }
        private let state = Locked(State())

        /// The requests that were begun, in their order.
        var begun: [String] { state.withLock { $0.begun } }
        var cancelled: Int { state.withLock { $0.cancelled } }

        func handle(_ payload: Payload) async throws -> Payload {
            await withTaskCancellationHandler {
                await withUnsafeContinuation { continuation in
                    state.withLock {
                        $0.begun.append(payload.string)
                        $0.waiting[payload.string] = continuation
                    }
                }
            } onCancel: {
                state.withLock { $0.cancelled += 1 }
                end(payload.string)
            }
            return bytes("re: " + payload.string)
        }

        func end(_ text: String) {
            state.withLock { $0.waiting.removeValue(forKey: text) }?.resume()
        }
    }

    private struct Problem: Error {}

    private let runtime = VirtualRuntime()
    private let listener: ScriptedListener
    private let handlers = Handlers()
    private let sessions = Locked<[Session]>([])
    private let ann = SessionID(high: 1, low: 2)

    init() {
        listener = ScriptedListener(Capabilities(maximumMessageSize: 1 << 20))
    }

    private var session: Session? { sessions.withLock { $0.last } }

    private func serve(
        _ change: (inout SessionServer.Configuration) -> Void = { _ in },
        _ onSession: @escaping @Sendable (Session) -> Void
    ) -> SessionServer {
        var configuration = SessionServer.Configuration()
        configuration.supervisor.keepalive.interval = .off
        change(&configuration)
        let server = SessionServer(configuration, onRuntime: runtime) { [sessions] session in
            sessions.withLock { $0.append(session) }
            onSession(session)
        }
        _ = runtime.begin { [listener] in try? await server.serve(listener) }
        return server
    }

    private func connect(incarnation: UInt64 = 0, received: UInt64 = 0, limit: UInt64 = .max) -> ScriptedConnection {
        let connection = listener.connect()
        connection.give(.hello(ann, ClientHello(incarnation: incarnation, received: received, limit: limit)))
        runtime.settle()
        return connection
    }

    private func ask(_ connection: ScriptedConnection, _ sequence: UInt64, _ number: UInt64, _ text: String) {
        connection.give(.message(sequence, RequestEnvelope.request(number, Array(text.utf8)).payload()))
        runtime.settle()
    }

    @Test("A request is acknowledged when its answer is in the outbox, and does not reach the app's messages")
    func acknowledged() throws {
        _ = serve { [handlers, runtime] in $0.onRequest(on: runtime) { try await handlers.handle($0) } }
        let client = connect()
        ask(client, 1, 100, "a")
        client.give(.message(2, bytes("message")))
        runtime.settle()
        #expect(handlers.begun == ["a"] && client.envelopes.isEmpty)
        #expect(!client.frames.contains { if case .acknowledge = $0 { true } else { false } })
        let session = try #require(session)
        #expect(try runtime.run { await session.messages.first { _ in true } } == bytes("message"))
        handlers.end("a")
        runtime.settle()
        #expect(client.envelopes == [.reply(100, Array("re: a".utf8))] && client.frames.last == .acknowledge(2))
    }

    @Test("Requests do not reach an app that acknowledges its messages itself")
    func deliveries() throws {
        let received = Locked<[Subscription<ReceivedMessage>]>([])
        _ = serve { [handlers, runtime] session in
            session.onRequest(on: runtime) { try await handlers.handle($0) }
            received.withLock { $0.append(session.deliveries) }
        }
        let client = connect()
        ask(client, 1, 100, "a")
        client.give(.message(2, bytes("message")))
        runtime.settle()
        let deliveries = try #require(received.withLock { $0.first })
        let message = try #require(try runtime.run { await deliveries.first { _ in true } })
        #expect(message.payload == bytes("message"))
        message.acknowledge()
        runtime.settle()
        #expect(!client.frames.contains { if case .acknowledge = $0 { true } else { false } })
        handlers.end("a")
        runtime.settle()
        #expect(client.frames.last == .acknowledge(2))
    }

    @Test("A failure of the handler is its answer, and the text of any other error stays at the server")
    func failures() throws {
        _ = serve { [runtime] session in
            session.onRequest(on: runtime) { payload in
                switch payload.string {
                case "typed": throw RequestFailure(code: 300, reason: "not today")
                default: throw Problem()
                }
            }
        }
        let client = connect()
        ask(client, 1, 1, "typed")
        ask(client, 2, 2, "other")
        #expect(
            client.envelopes == [
                .failure(1, RequestFailure(code: 300, reason: "not today")), .failure(2, .handlerFailed),
            ]
        )
        #expect(client.frames.contains(.acknowledge(2)))
    }

    @Test("A session that uses requests refuses those for which it has no handler; another gives them to the app")
    func noHandler() throws {
        _ = serve { [sessions] session in if sessions.withLock({ $0.count }) == 1 { session.onRequest(nil) } }
        let client = connect()
        ask(client, 1, 5, "a")
        #expect(client.envelopes == [.failure(5, .noHandler)] && client.frames.contains(.acknowledge(1)))
        let other = listener.connect()
        other.give(.hello(SessionID(high: 3, low: 4), ClientHello(incarnation: 0, received: 0)))
        runtime.settle()
        ask(other, 1, 5, "a")
        let session = try #require(session)
        #expect(
            try runtime.run { await session.messages.first { _ in true } }
                == RequestEnvelope.request(5, [0x61]).payload()
        )
    }

    @Test("Handlers run up to their limit, and further requests wait in their order")
    func limit() throws {
        _ = serve({ $0.supervisor.requests.maximumHandlers = 2 }) { [handlers, runtime] in
            $0.onRequest(on: runtime) { try await handlers.handle($0) }
        }
        let client = connect()
        for (index, text) in ["a", "b", "c", "d"].enumerated() { ask(client, UInt64(index + 1), UInt64(index), text) }
        #expect(handlers.begun == ["a", "b"])
        handlers.end("b")
        runtime.settle()
        #expect(handlers.begun == ["a", "b", "c"])
        // The first request holds back the acknowledgements.
        #expect(!client.frames.contains { if case .acknowledge = $0 { true } else { false } })
        handlers.end("a")
        runtime.settle()
        #expect(handlers.begun == ["a", "b", "c", "d"] && client.frames.contains(.acknowledge(2)))
        session?.onRequest(nil)
        handlers.end("c")
        handlers.end("d")
        runtime.settle()
        #expect(client.envelopes.count == 4 && client.frames.contains(.acknowledge(4)))
    }

    @Test("A removed handler refuses the requests that wait")
    func removed() throws {
        _ = serve({ $0.supervisor.requests.maximumHandlers = 1 }) { [handlers, runtime] in
            $0.onRequest(on: runtime) { try await handlers.handle($0) }
        }
        let client = connect()
        for (index, text) in ["a", "b", "c"].enumerated() { ask(client, UInt64(index + 1), UInt64(index), text) }
        let session = try #require(session)
        runtime.execute { session.onRequest(nil) }
        runtime.settle()
        #expect(client.envelopes == [.failure(1, .noHandler), .failure(2, .noHandler)])
        handlers.end("a")
        runtime.settle()
        #expect(client.envelopes.last == .reply(0, Array("re: a".utf8)) && client.frames.last == .acknowledge(3))
    }

    @Test("A request that comes again over the next connection is handled once, and answered there")
    func cut() throws {
        _ = serve { [handlers, runtime] in $0.onRequest(on: runtime) { try await handlers.handle($0) } }
        let client = connect()
        ask(client, 1, 100, "a")
        let incarnation = try #require(client.incarnation)
        client.end(CloseReason(.network))
        runtime.settle()
        let next = connect(incarnation: incarnation)
        ask(next, 1, 100, "a")
        #expect(handlers.begun == ["a"])
        handlers.end("a")
        runtime.settle()
        #expect(next.envelopes == [.reply(100, Array("re: a".utf8))] && next.frames.last == .acknowledge(1))
    }

    @Test("A slow handler holds back acknowledgements for a limited time")
    func slow() throws {
        _ = serve({ $0.supervisor.requests.acknowledgementDelay = .seconds(3) }) { [handlers, runtime] session in
            session.onRequest(on: runtime) { try await handlers.handle($0) }
        }
        let client = connect()
        ask(client, 1, 100, "a")
        client.give(.message(2, bytes("message")))
        runtime.advance(by: .milliseconds(2999))
        #expect(!client.frames.contains { if case .acknowledge = $0 { true } else { false } })
        runtime.advance(by: .milliseconds(1))
        #expect(client.frames.last == .acknowledge(2) && client.envelopes.isEmpty)
        handlers.end("a")
        runtime.settle()
        #expect(client.envelopes == [.reply(100, Array("re: a".utf8))])
    }

    @Test("A number that is used twice at the same time gets one answer")
    func repeated() throws {
        _ = serve { [handlers, runtime] in $0.onRequest(on: runtime) { try await handlers.handle($0) } }
        let client = connect()
        ask(client, 1, 100, "a")
        ask(client, 2, 100, "b")
        #expect(handlers.begun == ["a"])
        handlers.end("a")
        runtime.settle()
        #expect(client.envelopes == [.reply(100, Array("re: a".utf8))] && client.frames.contains(.acknowledge(2)))
    }

    @Test("The end of a session cancels its handlers, and their answers go nowhere")
    func ended() throws {
        _ = serve { [handlers, runtime] in $0.onRequest(on: runtime) { try await handlers.handle($0) } }
        let client = connect()
        ask(client, 1, 100, "a")
        client.give(.bye)
        runtime.settle()
        #expect(handlers.cancelled == 1 && client.envelopes.isEmpty)
    }

    @Test("An answer that is too large for the connection becomes a failure")
    func tooLarge() throws {
        _ = serve { [runtime] in $0.onRequest(on: runtime) { _ in Payload(Array(repeating: 0, count: 1000)) } }
        let client = connect(limit: 500)
        ask(client, 1, 100, "a")
        #expect(client.envelopes == [.failure(100, .answerNotSent)])
    }

    @Test(
        "A flood of requests is bounded by the window in a session, and by the buffer without one",
        arguments: [true, false]
    )
    func flood(isSession: Bool) throws {
        _ = serve({
            $0.supervisor.requests.maximumHandlers = 2
            $0.supervisor.messageBuffer = 16
            if !isSession { $0.supervisor.delivery.mode = .plain }
        }) { [handlers, runtime] in $0.onRequest(on: runtime) { try await handlers.handle($0) } }
        let client = isSession ? connect() : listener.connect()
        runtime.settle()
        for number: UInt64 in 1...2000 {
            let request = RequestEnvelope.request(number, Array("\(number)".utf8)).payload()
            client.give(isSession ? SessionFrame.message(number, request).payload : request)
        }
        runtime.settle()
        #expect(handlers.begun == ["1", "2"])
        if isSession {
            // The peer does not respect the window.
            #expect(client.hasEnded || client.unread > 900)
        } else {
            #expect(!client.hasEnded && client.unread == 2000 - 16)
            handlers.end("1")
            handlers.end("2")
            runtime.settle()
            #expect(handlers.begun == ["1", "2", "3", "4"])
        }
    }

    @Test("Garbage that begins like an envelope does not end the session")
    func garbage() throws {
        _ = serve { [runtime] in $0.onRequest(on: runtime) { $0 } }
        let client = connect()
        var sequence: UInt64 = 0
        for first: UInt8 in [0x13, 0x14, 0x1b] {
            for length in 0..<14 {
                sequence += 1
                client.give(.message(sequence, Payload([first] + Array(repeating: 0xff, count: length))))
            }
        }
        runtime.settle()
        #expect(!client.hasEnded && client.frames.contains(.acknowledge(sequence)))
        // All requests among it have the same number.
        #expect(client.envelopes.first == .reply(.max, []))
    }

    @Test("A server's request is answered by the client, and ends if the client's process has restarted")
    func toTheClient() throws {
        _ = serve { _ in }
        let client = connect()
        let session = try #require(session)
        func ask(_ text: String) -> Pending<RequestAnswer> {
            runtime.begin {
                do throws(RequestError) {
                    return .success(try await session.request(bytes(text), timeout: .seconds(60)))
                } catch {
                    return .failure(error)
                }
            }
        }
        let (one, two) = (ask("1"), ask("2"))
        let numbers = client.requests.map(\.number)
        let message = runtime.begin { await session.send(bytes("message")) }
        #expect(try runtime.run { await session.unacknowledged() } == [bytes("message")] && message.value == nil)
        client.give(.acknowledge(2))
        client.give(.message(1, RequestEnvelope.reply(numbers[0], [7]).payload()))
        runtime.settle()
        #expect(one.value == .success(Payload([7])) && two.value == nil)
        client.end(CloseReason(.network))
        runtime.settle()
        _ = connect()
        guard case .failure(.unknown)? = two.value else {
            Issue.record("\(String(describing: two.value))")
            return
        }
    }
}
