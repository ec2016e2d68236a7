import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Tests greetings over real connections.
@Suite("A greeting over a real connection", .timeLimit(.minutes(5)), .ownThread)
struct GreetingTests {
    static let names = TransportRegistry.available.transports.map(\.name)

    /// A server that closes a connection unless its first message is `login` and a token. It confirms the login, and keeps
    /// the texts of each connection.
    private final class LoginServer: Sendable {
        private let listener: any Listener
        private let texts = Locked<[[String]]>([])
        private let connections = Locked<[any Connection]>([])
        let token: String

        init(_ url: String, token: String = "fresh") async throws {
            self.token = token
            listener = try await TransportRegistry.trial.listen(url)
            Task(executorPreference: EventLoop.shared) {
                while let connection = try await self.listener.accept() {
                    let number = self.texts.withLock { texts in
                        texts.append([])
                        return texts.count - 1
                    }
                    self.connections.withLock { $0.append(connection) }
                    Task(executorPreference: EventLoop.shared) { await self.serve(connection, number) }
                }
            }
        }

        var endpoint: Endpoint { listener.endpoint }
        /// The texts that each connection has brought.
        var received: [[String]] { texts.withLock { $0 } }

        private func serve(_ connection: any Connection, _ number: Int) async {
            while let payload = try? await connection.receive() {
                let isFirst = texts.withLock { texts in
                    texts[number].append(payload.string)
                    return texts[number].count == 1
                }
                guard isFirst else { continue }
                let isAccepted = payload.string == "login \(token)"
                _ = await connection.send(Payload(text: isAccepted ? "welcome" : "wrong"))
                if isAccepted { _ = await connection.send(Payload(text: "news")) }
            }
        }

        func dropConnections() async {
            let open = connections.withLock { connections in
                defer { connections = [] }
                return connections
            }
            for connection in open { await connection.close() }
        }

        func stop() async {
            await listener.close()
            await dropConnections()
        }
    }

    /// Sends the endpoint's password, and waits for the answer.
    private static let login: ConnectionGreeting = { connection, endpoint in
        _ = await connection.send(Payload(text: "login \(endpoint.password ?? "")"))
        guard let answer = try await connection.receive() else {
            throw TransportError(.closedByPeer, .handshake, "the server has closed before it answered the login")
        }
        guard answer.string == "welcome" else {
            throw TransportError(.authenticationFailed, .handshake, "the server answered \(answer.string)")
        }
    }

    @Test("A login over TCP gets a fresh token after a refusal, and messages follow it")
    func login() async throws {
        let server = try await LoginServer("tcp://127.0.0.1:0")
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint]) { setup in
            setup.preparation = { endpoint, isRefresh in
                var endpoint = endpoint
                endpoint.password = isRefresh ? "fresh" : "stale"
                return endpoint
            }
            setup.greeting = Self.login
        }
        let messages = supervisor.messages
        async let outcome = supervisor.send(Payload(text: "hello"))
        supervisor.connect()
        #expect(await outcome == .written)
        #expect(await messages.first { _ in true }?.string == "news")
        let failed = recorder.events.compactMap { event -> TransportError.Code? in
            if case .attemptFailed(_, let error) = event { error.code } else { nil }
        }
        #expect(failed == [.authenticationFailed])
        await supervisor.close()
        #expect(server.received == [["login stale"], ["login fresh", "hello"]])
        await server.stop()
    }

    @Test("The supervisor is closed by a login that stays refused")
    func refusedLogin() async throws {
        let server = try await LoginServer("ws://127.0.0.1:0")
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint]) { $0.greeting = Self.login }
        supervisor.connect()
        await supervisor.closed()
        guard case .closed(let reason) = recorder.states.last else {
            Issue.record("last state: \(String(describing: recorder.states.last))")
            return
        }
        #expect(reason.error?.code == .authenticationFailed)
        #expect(!recorder.states.contains { $0.isOpen })
        #expect(server.received == [["login "], ["login "]])
        await server.stop()
    }

    @Test("In 1,000 reconnects with messages queued, no message comes before the greeting", arguments: ["tcp", "ws"])
    func reconnects(name: String) async throws {
        let listener = try await TransportRegistry.trial.listen("\(name)://127.0.0.1:0")
        let firsts = Locked<[String]>([])
        let repeated = Locked(0)
        let arrived = Locked<Set<String>>([])
        let serving = Task(executorPreference: EventLoop.shared) {
            while let connection = try await listener.accept() {
                Task(executorPreference: EventLoop.shared) {
                    guard let first = try? await connection.receive() else { return }
                    firsts.withLock { $0.append(first.string) }
                    _ = await connection.send(Payload(text: "welcome"))
                    if let message = try? await connection.receive() {
                        if message.string.hasPrefix("login") { repeated.withLock { $0 += 1 } }
                        _ = arrived.withLock { $0.insert(message.string) }
                    }
                    await connection.close()
                }
            }
        }
        var configuration = SupervisorConfiguration.quick
        configuration.backoff = .immediate
        let connections = Locked(0)
        let (supervisor, _) = try Supervisor.recorded([listener.endpoint], configuration) { setup in
            setup.greeting = { connection, _ in
                let number = connections.withLock { count in
                    count += 1
                    return count
                }
                _ = await connection.send(Payload(text: "login \(number)"))
                _ = try await connection.receive()
            }
        }
        supervisor.connect()
        // There is always a message in the outbox, so that one is sent as soon as a connection takes it.
        for number in 0..<10 { _ = try await supervisor.submit(Payload(text: "message \(number)")) }
        var number = 10
        while firsts.withLock({ $0.count }) < 1_000 {
            number += 1
            _ = try await supervisor.submit(Payload(text: "message \(number)"))
        }
        await supervisor.close()
        await listener.close()
        _ = await serving.result
        let all = firsts.withLock { $0 }
        #expect(all.count >= 1_000)
        #expect(all.allSatisfy { $0.hasPrefix("login ") })
        #expect(repeated.withLock { $0 } == 0)
        #expect(arrived.withLock { $0.count } > 100)
    }

    @Test("The texts of a configuration file come first on each connection, over every transport", arguments: names)
    func texts(name: String) async throws {
        let server = try await PlainServer(name)
        let file = #"""
            {"endpoints": ["\#(server.endpoint)"], "greeting": ["CONNECT\naccept-version:1.2\n\n\u0000", "{\"join\": 7}"],
             "backoff": {"policy": "fixed", "delay": "10ms"}}
            """#
        let recorder = Recorder()
        let configuration = try TransportConfiguration(json: file.utf8)
        let supervisor = try Supervisor(configuration, registry: .trial) { $0.observer = recorder }
        let greeting = ["CONNECT\naccept-version:1.2\n\n\0", "{\"join\": 7}"]
        supervisor.connect()
        var expected: [String] = []
        for round in 1...3 {
            #expect(await supervisor.send(Payload(text: "\(round)")).isSuccess)
            await recorder.waitUntilOpen(round)
            expected += greeting + ["\(round)"]
            await server.wait(for: expected.count)
            await server.dropConnections()
            await recorder.wait { events in
                events.count { if case .connectionEnded = $0 { true } else { false } } >= round
            }
        }
        #expect(server.received.prefix(expected.count).elementsEqual(expected))
        await supervisor.close()
        await server.stop()
    }

    @Test("A greeting at a server that answers nothing ends at the connect timeout, and its connection is closed")
    func silence() async throws {
        let hole = try RawServer(.silent)
        var configuration = SupervisorConfiguration.quick
        configuration.connectTimeout = .milliseconds(50)
        configuration.maximumAttempts = 2
        let endings = Locked<[CloseReason]>([])
        let endpoint = Endpoint(scheme: "tcp", host: "127.0.0.1", port: hole.port)
        let (supervisor, recorder) = try Supervisor.recorded([endpoint], configuration) { setup in
            setup.greeting = { connection, _ in
                _ = await connection.send(Payload(text: "login"))
                do {
                    _ = try await connection.receive()
                } catch {}
                let reason = await connection.closed()
                endings.withLock { $0.append(reason) }
            }
        }
        supervisor.connect()
        await supervisor.closed()
        let errors = recorder.events.compactMap { event -> TransportError? in
            if case .attemptFailed(_, let error) = event { error } else { nil }
        }
        #expect(errors.count == 2)
        #expect(errors.allSatisfy { $0.code == .timedOut && $0.reason.contains("greeting") })
        hole.stop()
    }

    @Test("A greeting that goes on receiving after its end costs its connection, and the error says so")
    func keepsReceiving() async throws {
        let server = try await PlainServer("tcp")
        let receivers = Locked<[Task<Void, Never>]>([])
        var configuration = SupervisorConfiguration.quick
        configuration.backoff = .fixed(.seconds(60))
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint], configuration) { setup in
            setup.greeting = { connection, _ in
                let (begun, begin) = AsyncStream<Void>.makeStream()
                let receiver = Task(executorPreference: EventLoop.shared) {
                    begin.finish()
                    _ = try? await connection.receive()
                }
                receivers.withLock { $0.append(receiver) }
                for await _ in begun {}
            }
        }
        supervisor.connect()
        await recorder.wait { $0.contains { if case .connectionEnded = $0 { true } else { false } } }
        let codes = recorder.events.compactMap { event -> TransportError.Code? in
            if case .connectionEnded(_, let reason) = event { reason.error?.code } else { nil }
        }
        #expect(codes == [.busy])
        await supervisor.close()
        for receiver in receivers.withLock({ $0 }) { await receiver.value }
        await server.stop()
    }

    @Test("A greeting over MQTT publishes after CONNACK and before the outbox")
    func mqtt() async throws {
        let server = try await PlainServer("mqtt")
        var endpoint = server.endpoint
        endpoint.options.append(.init(name: "qos", value: "1"))
        let (supervisor, _) = try Supervisor.recorded([endpoint]) { setup in
            setup.greeting = { connection, _ in
                let outcome = await connection.send(Payload(text: "online"))
                #expect(outcome == .acknowledged)
            }
        }
        async let first = supervisor.send(Payload(text: "1"))
        supervisor.connect()
        #expect(await first == .acknowledged)
        await server.wait(for: 2)
        #expect(server.received == ["online", "1"])
        await supervisor.close()
        await server.stop()
    }

    @Test("A file with a greeting is refused in session mode, and the greeting of code too")
    func session() throws {
        let file =
            "{\"endpoints\": [\"tcp://host\"],\n\"greeting\": [\"S3cret\"],\n\"delivery\": {\"mode\": \"session\"}}"
        let refused = refusal(file)
        #expect(refused?.hasPrefix("config.json:2: \"greeting\" is not allowed") == true)
        #expect(refused?.contains("'preparation'") == true && refused?.contains("S3cret") == false)
        var configuration = TransportConfiguration(endpoints: [try Endpoint("tcp://host")])
        configuration.supervisor.delivery.mode = .session
        let ofCode = #expect(throws: TransportError.self) {
            try Supervisor(configuration) { $0.greeting = { _, _ in } }
        }
        configuration.greeting = ["S3cret"]
        let ofFile = #expect(throws: TransportError.self) { try Supervisor(configuration) }
        for error in [ofCode, ofFile] {
            #expect(error?.code == .invalidConfiguration && error?.reason.contains("'preparation'") == true)
        }
        #expect(!String(reflecting: configuration).contains("S3cret"))
    }
}
