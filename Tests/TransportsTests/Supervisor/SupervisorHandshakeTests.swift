import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests how a supervisor reacts to the answers of a web server, and to a server that does not answer.
@Suite("A supervisor and a server that refuses", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorHandshakeTests {
    private func endpoint(_ server: RawServer, _ scheme: String = "ws") -> Endpoint {
        Endpoint(scheme: scheme, host: "127.0.0.1", port: server.port, path: scheme == "ws" ? "/" : "")
    }

    @Test("A supervisor waits for the time that a 503 response gives")
    func retryAfter() async throws {
        let busy = try RawServer(
            .http("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        )
        let (supervisor, recorder) = try Supervisor.recorded([endpoint(busy)])
        supervisor.connect()
        await recorder.wait { $0.contains { if case .state(.waiting) = $0 { true } else { false } } }
        guard case .waiting(let delay, let reason) = recorder.states.last else {
            Issue.record("last state: \(String(describing: recorder.states.last))")
            return
        }
        #expect(delay == .seconds(7))
        #expect(reason.error?.code == .serverUnavailable)
        await supervisor.close()
        busy.stop()
    }

    @Test("A supervisor requests fresh credentials once after a 401 response", arguments: [true, false])
    func unauthorized(works: Bool) async throws {
        let strict = try RawServer(.http("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
        let server = try await PlainServer("ws")
        let asked = Locked<[Bool]>([])
        let (supervisor, recorder) = try Supervisor.recorded([endpoint(strict)]) { setup in
            setup.preparation = { endpoint, isRefresh in
                asked.withLock { $0.append(isRefresh) }
                return isRefresh && works ? server.endpoint : endpoint
            }
        }
        supervisor.connect()
        if works {
            await recorder.waitUntilOpen()
            #expect(await supervisor.send(bytes("hello")) == .written)
            await supervisor.close()
        } else {
            await supervisor.closed()
            let state = await supervisor.state()
            if case .closed(let reason) = state {
                #expect(reason.initiator == .authentication)
                #expect(reason.error?.detail == 401)
            } else {
                Issue.record("state: \(state)")
            }
        }
        #expect(asked.withLock { $0 } == [false, true])
        strict.stop()
        await server.stop()
    }

    @Test("A broker that resets connections before CONNACK has accepted none, so the attempts count")
    func resetBeforeAcceptance() async throws {
        // It takes the first bytes. The rest of the message makes the kernel send a reset.
        let broker = try RawServer(.exchange([[]]))
        var configuration = SupervisorConfiguration.quick
        configuration.maximumAttempts = 3
        // Any connection that was accepted would start the count again.
        configuration.stableAfter = .zero
        let endpoint = try Endpoint("mqtt://127.0.0.1:\(broker.port)/?publish=t&early-publish=on")
        let (supervisor, recorder) = try Supervisor.recorded([endpoint], configuration)
        async let outcome = supervisor.send(Payload(longBytes(200_000)))
        supervisor.connect()
        await supervisor.closed()
        #expect(await !outcome.isSuccess)
        let endings = recorder.events.compactMap { event -> TransportError.Phase? in
            if case .connectionEnded(_, let reason) = event { reason.error?.phase } else { nil }
        }
        #expect(!endings.isEmpty && endings.allSatisfy { $0 == .handshake })
        broker.stop()
    }

    @Test("A supervisor does not return to an endpoint that answers 404")
    func notFound() async throws {
        let wrong = try RawServer(.http("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
        let (lost, recorder) = try Supervisor.recorded([endpoint(wrong)])
        lost.connect()
        await lost.closed()
        guard case .closed(let reason) = recorder.states.last else {
            Issue.record("last state: \(String(describing: recorder.states.last))")
            return
        }
        #expect(reason.error?.code == .notFound)

        let server = try await PlainServer("tcp")
        let (supervisor, secondRecorder) = try Supervisor.recorded([endpoint(wrong), server.endpoint])
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        #expect(secondRecorder.events.count { if case .attemptFailed = $0 { true } else { false } } == 1)
        await supervisor.close()
        wrong.stop()
        await server.stop()
    }

    @Test("A supervisor detects a server that receives everything and answers nothing", arguments: ["tcp"])
    func blackHole(name: String) async throws {
        let hole = try RawServer(.silent)
        var configuration = SupervisorConfiguration.quick
        configuration.keepalive.interval = .milliseconds(20)
        configuration.keepalive.timeout = .milliseconds(20)
        let (supervisor, recorder) = try Supervisor.recorded([endpoint(hole, name)], configuration)
        supervisor.connect()
        await recorder.wait {
            $0.contains { if case .connectionEnded(_, let why) = $0 { why.initiator == .keepalive } else { false } }
        }
        await recorder.waitUntilOpen(2)
        await supervisor.close()
        hole.stop()
    }

    @Test("A payload keepalive over plain TCP keeps a connection whose server answers it", arguments: [true, false])
    func heartbeat(answers: Bool) async throws {
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0?framing=u16")
        let (pinged, ping) = AsyncStream<Void>.makeStream()
        let serving = Task {
            var connections: [any Connection] = []
            while let connection = try await listener.accept() {
                connections.append(connection)
                while answers, let payload = try await connection.receive() {
                    guard payload == bytes("PING") else { continue }
                    ping.yield()
                    _ = await connection.send(bytes("PONG"))
                }
            }
        }
        var configuration = SupervisorConfiguration.quick
        configuration.keepalive.interval = .milliseconds(5)
        configuration.keepalive.isIdleOnly = false
        configuration.keepalive.timeout = answers ? .seconds(60) : .milliseconds(50)
        configuration.keepalive.probe = .payload(bytes("PING"), answer: bytes("PONG"))
        let (supervisor, recorder) = try Supervisor.recorded([listener.endpoint], configuration)
        let messages = supervisor.messages
        supervisor.connect()
        if answers {
            var answered = 0
            for await _ in pinged.prefix(5) { answered += 1 }
            #expect(answered == 5)
            #expect(recorder.states.count(where: \.isOpen) == 1)
        } else {
            await recorder.waitUntilOpen(2)
            #expect(
                recorder.events.contains {
                    if case .connectionEnded(_, let why) = $0 { why.initiator == .keepalive } else { false }
                }
            )
        }
        await supervisor.close()
        #expect(await messages.first { _ in true } == nil)
        await listener.close()
        _ = await serving.result
    }
}
