import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests the login of a session, which works alike over every transport.
@Suite("The login of a session", .timeLimit(.minutes(15)), .ownThread)
struct SessionLoginTests {
    /// Knows one valid token at a time, and whom the server has asked about.
    private final class Tokens: Sendable {
        private let state = Locked((valid: 1, asked: [String?](), issued: 0))

        var asked: [String?] { state.withLock { $0.asked } }
        /// How many tokens clients have requested after a refusal.
        var refreshed: Int { state.withLock { $0.issued } }

        func expire() { state.withLock { $0.valid += 1 } }

        func token(isRefresh: Bool, last: Locked<Int>) -> String {
            state.withLock { state in
                if isRefresh {
                    state.issued += 1
                    last.withLock { $0 = state.valid }
                }
                return "ann-\(last.withLock { $0 })"
            }
        }

        func decide(_ request: ClientRequest) -> ClientDecision {
            state.withLock { state in
                state.asked.append(request.token)
                guard request.token == "ann-\(state.valid)" else { return .refuse(status: 401) }
                return .acceptAs(Identity("ann"))
            }
        }
    }

    private func server(_ decide: @escaping @Sendable (ClientRequest) async -> ClientDecision) -> SessionServer {
        SessionServer(decide: decide) { session in
            let messages = session.messages
            Task {
                for await message in messages {
                    _ = try? await session.submit(
                        Payload(text: "\(session.identity?.name ?? "?"): \(message.string ?? "")")
                    )
                }
            }
        }
    }

    private func listen(_ url: String, _ server: SessionServer) async throws -> any Listener {
        let listener = try await TransportRegistry.standard.listen(url)
        Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        return listener
    }

    private func supervisor(_ urls: [String], token: TokenSource?) throws -> Supervisor {
        var configuration = TransportConfiguration(endpoints: try urls.map { try Endpoint($0) })
        configuration.supervisor.delivery.mode = .session
        configuration.supervisor.backoff = .exponential(
            initial: .milliseconds(10),
            maximum: .milliseconds(50),
            multiplier: 2,
            jitter: .full
        )
        return try Supervisor(configuration) { $0.token = token }
    }

    @Test(
        "A token logs in over every transport, and a refused one is replaced",
        arguments: ["ws", "tcp", "udp", "http", "memory"]
    )
    func everywhere(scheme: String) async throws {
        let (tokens, last) = (Tokens(), Locked(1))
        let server = server { tokens.decide($0) }
        let listener = try await listen(scheme == "memory" ? "memory://login" : "\(scheme)://127.0.0.1:0", server)
        tokens.expire()
        let supervisor = try supervisor(["\(listener.endpoint)"]) { tokens.token(isRefresh: $0, last: last) }
        let messages = supervisor.messages
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "hello")) == .acknowledged)
        #expect(await messages.first { _ in true }?.string == "ann: hello")
        #expect(tokens.asked == ["ann-1", "ann-2"] && tokens.refreshed == 1)
        await supervisor.close()
        await server.close()
        await listener.close()
    }

    @Test("A client without a token reaches the decision, and a refusal ends it")
    func without() async throws {
        let server = server { $0.token == nil ? .refuse(status: 401) : .accept }
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let supervisor = try supervisor(["\(listener.endpoint)"], token: nil)
        supervisor.connect()
        await supervisor.closed()
        guard case .closed(let reason) = await supervisor.state() else { return }
        #expect(reason.error?.code == .authenticationFailed)
        await server.close()
        await listener.close()
    }

    @Test(
        "Other refusals say whether the client may return",
        arguments: [(403, TransportError.Code.forbidden), (503, .serverUnavailable), (429, .serverUnavailable)]
    )
    func refused(status: Int, code: TransportError.Code) async throws {
        let server = server { _ in .refuse(status: status) }
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let supervisor = try supervisor(["\(listener.endpoint)"]) { _ in "token" }
        let states = supervisor.states
        supervisor.connect()
        let reason = await states.compactMap { state -> CloseReason? in
            switch state {
            case .waiting(_, let reason), .closed(let reason): reason
            default: nil
            }
        }.first { _ in true }
        #expect(reason?.error?.code == code)
        await supervisor.close()
        await server.close()
        await listener.close()
    }

    @Test("A session continues only for the client with its name")
    func otherName() async throws {
        let names = Locked("ann")
        let server = server { _ in .acceptAs(Identity(names.withLock { $0 })) }
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let supervisor = try supervisor(["\(listener.endpoint)"]) { _ in "token" }
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "hello")) == .acknowledged)
        names.withLock { $0 = "ben" }
        await server.dropConnections()
        await supervisor.closed()
        guard case .closed(let reason) = await supervisor.state() else { return }
        #expect(reason.error?.code == .forbidden)
        await server.close()
        await listener.close()
    }

    @Test("A token is not sent without encryption to another machine, unless the URL allows it")
    func insecure() throws {
        for url in ["tcp://192.0.2.1:9", "ws://chat.example/", "udp://[2001:db8::1]:9", "http://chat.example/"] {
            let error = #expect(throws: TransportError.self) { try supervisor([url]) { _ in "token" } }
            #expect(error?.code == .invalidConfiguration && error?.reason.contains("insecure-credentials=on") == true)
            _ = try supervisor([url], token: nil)
            _ = try supervisor(["\(url)?insecure-credentials=on"]) { _ in "token" }
        }
        for url in ["tcp://localhost:9", "ws://127.0.0.1:9/", "tcp://[::1]:9", "memory://login"] {
            _ = try supervisor([url]) { _ in "token" }
        }
    }

    @Test("A broker, which has no hello, is refused beside a token")
    func broker() throws {
        let url = "mqtts://broker.example/?publish=t&subscribe=t&qos=1"
        let error = #expect(throws: TransportError.self) { try supervisor([url]) { _ in "token" } }
        #expect(error?.code == .invalidConfiguration && error?.reason.contains("hello") == true)
    }

    @Test("A token in the file is never in an error, and is refused in plain mode and over a path that others can read")
    func file() throws {
        func error(_ text: String) -> TransportError? {
            #expect(throws: TransportError.self) { try TransportConfiguration(json: text.utf8) }
        }
        let plain = error(#"{"endpoints": ["wss://chat.example"], "token": "secret"}"#)
        #expect(plain?.reason.contains("delivery.mode") == true)
        let open = error(
            #"{"endpoints": ["tcp://chat.example:1"], "token": "secret", "delivery": {"mode": "session"}}"#
        )
        #expect(open?.reason.contains("insecure-credentials=on") == true)
        let number = error(#"{"endpoints": ["wss://chat.example"], "token": 5, "delivery": {"mode": "session"}}"#)
        for error in [plain, open, number] { #expect(error.map { "\($0)" }?.contains("secret") == false) }
        let good = #"{"endpoints": ["tcp://127.0.0.1:1"], "token": "secret", "delivery": {"mode": "session"}}"#
        let configuration = try TransportConfiguration(json: good.utf8)
        #expect(configuration.token == "secret" && !"\(configuration)".contains("secret"))
        _ = try Supervisor(configuration)
    }

    @Test("A token that is too long fails the attempt with its size")
    func long() async throws {
        let server = server { _ in .accept }
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let supervisor = try supervisor(["\(listener.endpoint)"]) { _ in String(repeating: "x", count: 8193) }
        supervisor.connect()
        await supervisor.closed()
        guard case .closed(let reason) = await supervisor.state() else { return }
        #expect(reason.error?.reason.contains("8193") == true)
        await server.close()
        await listener.close()
    }

    @Test("A client of another version is refused by that reason")
    func version() async throws {
        let server = server { _ in .accept }
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let connection = try await TransportRegistry.standard.connect("\(listener.endpoint)")
        // A hello of version 2.
        _ = await connection.send(Payload([1, 2] + [UInt8](repeating: 0, count: 44)))
        #expect(try await connection.receive()?.bytes == [10, 1])
        await connection.close()
        await server.close()
        await listener.close()
    }

    @Test("A decision that takes too long ends the connection")
    func slow() async throws {
        var configuration = SessionServer.Configuration()
        configuration.helloTimeout = .milliseconds(50)
        let (never, release) = AsyncStream.makeStream(of: Void.self)
        let server = SessionServer(
            configuration,
            decide: { _ in
                for await _ in never {}
                return .accept
            },
            onSession: { _ in }
        )
        let listener = try await listen("tcp://127.0.0.1:0", server)
        let connection = try await TransportRegistry.standard.connect("\(listener.endpoint)")
        _ = await connection.send(
            Payload([1, 3] + [UInt8](repeating: 0, count: 51) + [1] + [UInt8](repeating: 0, count: 8))
        )
        _ = try? await connection.receive()
        _ = await connection.closed()
        release.finish()
        await server.close()
        await listener.close()
    }

    @Test(
        "One token logs in over each endpoint of a file, as each server in turn goes away",
        .enabled(if: hasOpenSSL),
        arguments: [["wss", "tls", "udp"], ["dtls", "wss"]]
    )
    func failover(schemes: [String]) async throws {
        let rounds = ProcessInfo.processInfo.environment["IM_FAILOVERS"].flatMap(Int.init) ?? 9
        // A long run also has tokens that expire by the clock.
        let lifetime = Duration.seconds(rounds > 9 ? 60 : 3600)
        var issued = ContinuousClock.now
        let certificates = try TestCertificates()
        let folder = try ScratchFolder()
        let certificate = try folder.write("certificate.pem", certificates.server.certificate)
        let key = try folder.write("key.pem", certificates.server.key)
        let authority = try folder.write("authority.pem", certificates.authority)
        let (tokens, last) = (Tokens(), Locked(1))
        let server = server { tokens.decide($0) }
        let secret = "?certificate=\(certificate)&key=\(key)"
        var urls = schemes.map { "\($0)://127.0.0.1:0" + ($0 == "wss" ? "/" : "") + ($0 == "udp" ? "" : secret) }
        var listeners: [any Listener] = []
        for index in urls.indices {
            let listener = try await listen(urls[index], server)
            listeners.append(listener)
            var endpoint = listener.endpoint
            endpoint.options = []
            urls[index] = "\(endpoint)" + (schemes[index] == "udp" ? "" : "?ca=\(authority)")
        }
        let file = """
            {"endpoints": [\(urls.map { "\"\($0)\"" }.joined(separator: ", "))],
             "delivery": {"mode": "session"}, "backoff": {"initial": "10ms", "maximum": "50ms"}}
            """
        let configuration = try TransportConfiguration(json: file.utf8)
        let supervisor = try Supervisor(configuration) { $0.token = { tokens.token(isRefresh: $0, last: last) } }
        let messages = supervisor.messages
        supervisor.connect()
        var used: [String: Int] = [:]
        for round in 0..<rounds {
            #expect(await supervisor.send(Payload(text: "\(round)")) == .acknowledged)
            #expect(await messages.first { _ in true }?.string == "ann: \(round)")
            guard case .open(let endpoint, _) = await supervisor.state() else { continue }
            used[endpoint.scheme, default: 0] += 1
            if rounds > 9 ? issued.duration(to: .now) >= lifetime : round % 4 == 3 {
                tokens.expire()
                issued = .now
            }
            // A long run takes several minutes on purpose.
            if rounds > 9 { try await aside { Thread.sleep(forTimeInterval: 2) } }
            // The server that the client uses goes away, and comes back once the client has another one.
            let index = try #require(urls.firstIndex { $0.hasPrefix("\(endpoint.scheme):") })
            await listeners[index].close()
            await server.dropConnections()
            _ = await supervisor.states.first { state in
                if case .open(let next, _) = state { next.scheme != endpoint.scheme } else { false }
            }
            let port = try #require(listeners[index].endpoint.port)
            let suffix = schemes[index] == "udp" ? "" : secret
            listeners[index] = try await listen("\(endpoint.scheme)://127.0.0.1:\(port)\(suffix)", server)
        }
        print("\(rounds) failovers: \(used), \(tokens.asked.count) logins, \(tokens.refreshed) tokens refreshed")
        #expect(tokens.asked.allSatisfy { $0?.hasPrefix("ann-") == true } && used.count > 1)
        await supervisor.close()
        await server.close()
        for listener in listeners { await listener.close() }
        withExtendedLifetime(folder) {}
    }
}
