import Codecs
import Foundation
import Primitives
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("Requests over real connections", .timeLimit(.minutes(5)), .ownThread)
struct RequestTests {
    /// A session server at one endpoint that can be replaced by another one.
    private final class Host: Sendable {
        private let state: Locked<(listener: any Listener, server: SessionServer)>
        private let listening: Endpoint
        private let port: ReservedPort?
        let endpoint: Endpoint

        private let acknowledgementDelay: Duration

        init(
            _ name: String,
            _ mode: DeliveryConfiguration.Mode,
            acknowledgementDelay: Duration = .milliseconds(50),
            _ onSession: @escaping @Sendable (Session) -> Void
        ) async throws {
            self.acknowledgementDelay = acknowledgementDelay
            let registry = TransportRegistry.trial
            port = try .serving(name)
            let listener = try await registry.listen("\(name)://127.0.0.1:\(port?.port ?? 0)")
            listening = listener.endpoint
            var endpoint = listener.endpoint
            endpoint.options = try registry.transport(named: name).loopback("requests")
            self.endpoint = endpoint
            state = Locked((listener, Self.serve(listener, mode, acknowledgementDelay, onSession)))
        }

        var server: SessionServer { state.withLock { $0.server } }

        private static func serve(
            _ listener: any Listener,
            _ mode: DeliveryConfiguration.Mode,
            _ acknowledgementDelay: Duration,
            _ onSession: @escaping @Sendable (Session) -> Void
        ) -> SessionServer {
            var configuration = SessionServer.Configuration()
            configuration.supervisor.delivery.mode = mode
            configuration.supervisor.requests.maximumHandlers = 256
            configuration.supervisor.requests.acknowledgementDelay = acknowledgementDelay
            let server = SessionServer(configuration, on: EventLoop.shared, onSession: onSession)
            Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
            return server
        }

        /// Ends the server without a word to its sessions, and begins another one.
        func replace(_ onSession: @escaping @Sendable (Session) -> Void) async throws {
            let (listener, server) = state.withLock { $0 }
            await listener.close()
            await server.dropConnections()
            let next = try await TransportRegistry.trial.listen("\(listening)")
            state.withLock { $0 = (next, Self.serve(next, .session, acknowledgementDelay, onSession)) }
        }

        func stop() async {
            let (listener, server) = state.withLock { $0 }
            await listener.close()
            await server.close()
        }
    }

    private static func configuration(_ mode: DeliveryConfiguration.Mode = .session) -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = mode
        return configuration
    }

    @Test(
        "A channel's request is answered over every transport, with and without a session",
        arguments: SessionTests.names,
        [.plain, .session] as [DeliveryConfiguration.Mode]
    )
    func answered(name: String, mode: DeliveryConfiguration.Mode) async throws {
        let host = try await Host(name, mode) { session in
            session.channel(of: ChatMessage.self).onRequest(on: EventLoop.shared) { (question: ChatMessage) in
                guard question.text != "forbidden" else { throw RequestFailure(code: 403, reason: "not for you") }
                var answer = question
                answer.text = "re: " + question.text
                return answer
            }
        }
        let (supervisor, _) = try Supervisor.recorded([host.endpoint], Self.configuration(mode))
        let chat = supervisor.channel(of: ChatMessage.self)
        supervisor.connect()
        var question = ChatMessage()
        question.text = "hello"
        let answer = try await chat.request(question, timeout: .seconds(60), answeredBy: ChatMessage.self)
        #expect(answer.text == "re: hello")
        question.text = "forbidden"
        await #expect(throws: RequestError.refused(code: 403, reason: "not for you")) {
            let _: ChatMessage = try await chat.request(question, timeout: .seconds(60))
        }
        await #expect(throws: RequestError.refused(code: 3, reason: RequestFailure.unreadable.reason)) {
            _ = try await supervisor.request(bytes("no JSON"), timeout: .seconds(60))
        }
        await supervisor.close()
        await host.stop()
    }

    @Test("An answer that the codec cannot read is an error of its own, and a request can be made in both directions")
    func bothDirections() async throws {
        let (answers, answer) = AsyncStream.makeStream(of: Result<ChatMessage, RequestError>.self)
        let host = try await Host("memory", .session) { session in
            session.onRequest(on: EventLoop.shared) { _ in
                Task {
                    do throws(RequestError) {
                        let chat = session.channel(of: ChatMessage.self)
                        answer.yield(.success(try await chat.request(ChatMessage(), timeout: .seconds(60))))
                    } catch {
                        answer.yield(.failure(error))
                    }
                }
                return bytes("no JSON")
            }
        }
        let (supervisor, _) = try Supervisor.recorded([host.endpoint], Self.configuration())
        let chat = supervisor.channel(of: ChatMessage.self)
        chat.onRequest(on: EventLoop.shared) { (question: ChatMessage) in
            var answer = question
            answer.text = "from the client"
            return answer
        }
        supervisor.connect()
        do throws(RequestError) {
            let _: ChatMessage = try await chat.request(ChatMessage(), timeout: .seconds(60))
            Issue.record("an answer that is not JSON was read")
        } catch {
            guard case .unreadable(let problem) = error else { throw error }
            #expect(problem.contains("no JSON") && problem.contains("expected JSON"))
        }
        for await answer in answers {
            #expect(try answer.get().text == "from the client")
            break
        }
        await supervisor.close()
        await host.stop()
    }

    @Test(
        "A request that a killed server has not answered is answered by the next one",
        arguments: ["memory", "tcp", "udp"]
    )
    func restarted(name: String) async throws {
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let host = try await Host(name, .session, acknowledgementDelay: .seconds(60)) { session in
            session.onRequest(on: EventLoop.shared) { _ in
                begin.yield()
                // Never answers.
                try await Self.untilCancelled()
                throw CancellationError()
            }
        }
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration())
        supervisor.connect()
        let request = Task { () async throws(RequestError) -> Payload in
            try await supervisor.request(bytes("hello"), timeout: .seconds(60))
        }
        for await _ in begun { break }
        try await host.replace { $0.onRequest(on: EventLoop.shared) { bytes("re: " + $0.string) } }
        #expect(try await request.value == bytes("re: hello"))
        #expect(recorder.events.contains(.sessionLost))
        #expect(try await supervisor.request(bytes("again"), timeout: .seconds(60)) == bytes("re: again"))
        await supervisor.close()
        await host.stop()
    }

    /// Waits until the task is cancelled.
    private static func untilCancelled() async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        await withTaskCancellationHandler {
            for await _ in stream {}
        } onCancel: {
            continuation.finish()
        }
        try Task.checkCancellation()
    }

    // MARK: Many requests

    /// The requests that a server has handled, by their text.
    private final class Handled: Sendable {
        private let counts = Locked<[String: Int]>([:])

        func note(_ text: String) { counts.withLock { $0[text, default: 0] += 1 } }
        var mostOften: Int { counts.withLock { $0.values.max() ?? 0 } }
        var count: Int { counts.withLock { $0.count } }
    }

    /// `IM_REQUESTS` sets how many there are; the default is 1,000.
    @Test(
        "Thousands of requests whose connections are cut, or servers replaced, end once each, in their own answer or a typed error",
        arguments: ["memory", "tcp", "udp"],
        [false, true]
    )
    func storm(name: String, replacesServer: Bool) async throws {
        let total = ProcessInfo.processInfo.environment["IM_REQUESTS"].flatMap(Int.init) ?? 1000
        let (workers, hangs) = (100, 97)
        let handled = Handled()
        let serve: @Sendable (Session) -> Void = { session in
            session.onRequest(on: EventLoop.shared) { payload in
                let text = payload.string
                handled.note(text)
                let number = Int(text) ?? 0
                if number % hangs == 0 { try await Self.untilCancelled() }
                if number % 5 == 0 { throw RequestFailure(code: 50, reason: text) }
                return bytes("re: " + text)
            }
        }
        let host = try await Host(name, .session, serve)
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration())
        let messages = supervisor.messages
        supervisor.connect()
        let (ends, end) = AsyncStream.makeStream(of: (Int, RequestAnswer).self)
        let next = Locked(0)
        let asking = Task(executorPreference: EventLoop.shared) {
            await withTaskGroup { group in
                for _ in 0..<workers {
                    group.addTask(executorPreference: EventLoop.shared) {
                        while true {
                            let number = next.withLock { next in
                                next += 1
                                return next
                            }
                            guard number <= total else { return }
                            let timeout: Duration = number % hangs == 0 ? .milliseconds(100) : .seconds(240)
                            do throws(RequestError) {
                                let answer = try await supervisor.request(bytes("\(number)"), timeout: timeout)
                                end.yield((number, .success(answer)))
                            } catch {
                                end.yield((number, .failure(error)))
                            }
                        }
                    }
                }
            }
            end.finish()
        }
        var random = RandomSource.seeded(7)
        var seen = Set<Int>()
        var counts = (answers: 0, refusals: 0, timeouts: 0, unsent: 0, unknown: 0)
        var cut = 50
        for await (number, answer) in ends {
            #expect(seen.insert(number).inserted, "request \(number) ended twice")
            switch answer {
            case .success(let payload):
                counts.answers += 1
                #expect(payload == bytes("re: \(number)"))
            case .failure(.refused(let code, let reason)):
                counts.refusals += 1
                #expect(code == 50 && reason == "\(number)")
            case .failure(.timedOut):
                counts.timeouts += 1
                #expect(number % hangs == 0)
            case .failure(.notSent(let error)):
                counts.unsent += 1
                #expect(number % hangs == 0 && error.code == .timedOut)
            // The server that has received it is gone, and with it the answer.
            case .failure(.unknown) where replacesServer: counts.unknown += 1
            case .failure(let error): Issue.record("request \(number): \(error)")
            }
            if seen.count == cut {
                if replacesServer { try await host.replace(serve) } else { await host.server.dropConnections() }
                cut += 10 + Int(random.next() % 100)
            }
        }
        await asking.value
        print("\(total) requests over \(name), \(replacesServer ? "servers replaced" : "connections cut"): \(counts)")
        #expect(seen.count == total)
        if !replacesServer {
            #expect(counts.timeouts + counts.unsent == total / hangs)
            #expect(counts.refusals == total / 5 - total / (5 * hangs))
            #expect(handled.mostOften == 1 && handled.count >= total - counts.unsent - counts.timeouts)
            #expect(!recorder.events.contains(.unexpectedReply) && !recorder.events.contains(.sessionLost))
        }
        await supervisor.close()
        for await message in messages { Issue.record("the app got \(message)") }
        await host.stop()
    }
}
