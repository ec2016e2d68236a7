import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TransportContract
import Transports

@testable import FoundationSupport

/// Runs the transport of the system's WebSocket over ``StandInTask``.
@Suite("WebSocket of the system, over a stand-in", .timeLimit(.minutes(5)), .ownThread)
struct SystemWebSocketTests {
    private let registry = StandInTask.registry

    @Test("It keeps each promise of a transport", arguments: TransportContract.checks)
    func contract(check: ContractCheck) async throws {
        try await check.run(ContractSubject(try registry.transport(named: "ws")))
    }

    /// OpenSSL encrypts in the place of the system. The system does not tell how many bytes TLS adds, so they are not counted.
    @Test(
        "It keeps each promise over TLS",
        .enabled(if: hasOpenSSL, "OpenSSL is not installed"),
        arguments: TransportContract.checks.filter { $0.name != "Sent and received messages are counted" }
    )
    func encryptedContract(check: ContractCheck) async throws {
        try await check.run(ContractSubject(try registry.transport(named: "wss")))
    }

    @Test("It keeps each promise for a caller on the loop of the connection", arguments: TransportContract.checks)
    func contractOnLoop(check: ContractCheck) async throws {
        let subject = ContractSubject(try registry.transport(named: "ws"))
        try await Task(executorPreference: EventLoop.shared) { try await check.run(subject) }.value
    }

    /// Two ends of one connection.
    private func pair(
        _ options: String = "",
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws -> (client: any Connection, server: any Connection, listener: any Listener) {
        let listener = try await registry.listen("ws://127.0.0.1:0/chat", decide: decide)
        async let accepted = listener.accept()
        let client = try await registry.connect("\(listener.endpoint)\(options)", timeout: .seconds(60))
        return (client, try #require(try await accepted), listener)
    }

    @Test("Text and bytes keep their kind in both directions, and the statistics count them")
    func kinds() async throws {
        let (client, server, listener) = try await pair()
        for payload in [Payload(text: "soup 🍲"), Payload([0, 255]), Payload([]), Payload(text: "")] {
            #expect(await client.send(payload) == .written)
            #expect(try await server.receive() == payload)
            #expect(await server.send(payload) == .written)
            #expect(try await client.receive() == payload)
        }
        let statistics = await client.statistics()
        #expect(statistics.messagesSent == 4 && statistics.messagesReceived == 4)
        #expect(client.capabilities.distinguishesText && client.capabilities.hasNativePing)
        #expect(client.capabilities.keepaliveInterval == .seconds(30))
        await client.close()
        await listener.close()
    }

    @Test("A server sees the path, the query, the headers, the credentials, the origin and the subprotocols")
    func request() async throws {
        let seen = Locked<ClientRequest?>(nil)
        let options =
            "?query=a%3Db&header=X-Team:lunch&origin=http://127.0.0.1&subprotocol=chat.v2&subprotocol=chat.v1"
        let decide: @Sendable (ClientRequest) -> ClientDecision = { request in
            seen.withLock { $0 = request }
            return .accept
        }
        let listener = try await registry.listen("ws://127.0.0.1:0/chat?origins=any", decide: decide)
        async let accepted = listener.accept()
        var endpoint = try Endpoint("\(Endpoint("ws://ann:secret@127.0.0.1:\(listener.endpoint.port ?? 0)/chat"))")
        (endpoint.user, endpoint.password) = ("ann", "secret")
        endpoint.options = try Endpoint("ws://host/\(options)").options
        let client = try await registry.connect(endpoint, timeout: .seconds(60))
        _ = try await accepted
        let request = try #require(seen.withLock { $0 })
        #expect(request.path == "/chat" && request.query == "a=b" && request.subprotocols == ["chat.v2", "chat.v1"])
        #expect(request.header("X-Team") == "lunch" && request.header("Origin") == "http://127.0.0.1")
        #expect(request.header("Authorization")?.hasPrefix("Basic ") == true)
        await client.close()
        await listener.close()
    }

    @Test(
        "A refused handshake has the error of this package's WebSocket, for each status",
        arguments: [400, 401, 403, 404, 408, 410, 426, 429, 500, 503, 504]
    )
    func refused(status: Int) async throws {
        let listener = try await registry.listen(
            "ws://127.0.0.1:0/chat",
            decide: { _ in .refuse(status: status, headers: [HTTPHeader(parsed: "Retry-After", "7")]) }
        )
        var errors: [TransportError] = []
        for engine in ["system", "openssl"] {
            let url = "\(listener.endpoint)?engine=\(engine)"
            let error = await #expect(throws: TransportError.self) {
                _ = try await registry.connect(url, timeout: .seconds(60))
            }
            errors.append(try #require(error))
        }
        #expect(errors[0].code == errors[1].code && errors[0].phase == errors[1].phase)
        #expect(errors[0].detail == status && errors[0].retryAfter == .seconds(7))
        #expect(status == 400 || errors[0] == errors[1])
        await listener.close()
    }

    @Test("A refused token is refreshed, as with this package's WebSocket")
    func refresh() async throws {
        let listener = try await registry.listen(
            "ws://127.0.0.1:0/chat",
            decide: { $0.header("Authorization") == "Bearer new" ? .accept : .refuse(status: 401) }
        )
        let refreshes = Locked<[Bool]>([])
        let configuration = TransportConfiguration(endpoints: [listener.endpoint])
        let supervisor = try Supervisor(configuration, registry: registry) { setup in
            setup.preparation = { endpoint, isRefresh in
                refreshes.withLock { $0.append(isRefresh) }
                var endpoint = endpoint
                let value = "Authorization: Bearer \(isRefresh ? "new" : "old")"
                endpoint.options.append(.init(name: "header", value: value))
                return endpoint
            }
        }
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "hello")).isSuccess)
        #expect(refreshes.withLock { $0 } == [false, true])
        await supervisor.close()
        await listener.close()
    }

    @Test("A redirect keeps the headers at the same origin, and loses them at another one")
    func redirects() async throws {
        let seen = Locked<[String: [Bool]]>([:])
        let note: @Sendable (String, ClientRequest) -> Void = { name, request in
            let has = request.header("Authorization") != nil || request.header("Cookie") != nil
            seen.withLock { $0[name, default: []].append(has) }
        }
        let accept: @Sendable (ClientRequest) -> ClientDecision = { request in
            note("other", request)
            return .accept
        }
        let other = try await registry.listen("ws://127.0.0.1:0", decide: accept)
        let target = "ws://127.0.0.1:\(other.endpoint.port ?? 0)/there"
        let redirect: @Sendable (ClientRequest) -> ClientDecision = { request in
            note(request.path, request)
            let location = request.path == "/first" ? "/second" : target
            return .refuse(status: 307, headers: [HTTPHeader(parsed: "Location", location)])
        }
        let first = try await registry.listen("ws://127.0.0.1:0", decide: redirect)
        let url = "ws://ann:x@127.0.0.1:\(first.endpoint.port ?? 0)/first?header=Cookie:c"
        let refused = await #expect(throws: TransportError.self) {
            _ = try await registry.connect(url, timeout: .seconds(60))
        }
        #expect(refused == .httpStatus(307))
        seen.withLock { $0 = [:] }
        let client = try await registry.connect("\(url)&redirects=2", timeout: .seconds(60))
        #expect(seen.withLock { $0 } == ["/first": [true], "/second": [true], "other": [false]])
        await client.close()
        await first.close()
        await other.close()
    }

    @Test("Close codes and texts go both ways", arguments: [1000, 1001, 1008, 1011, 3000, 4001] as [UInt16])
    func closeCodes(code: UInt16) async throws {
        let (client, server, listener) = try await pair()
        await client.close(CloseReason(.user, code: code, text: "lunch"))
        let reason = await server.closed()
        #expect(reason.code == code && reason.text == "lunch")
        let own = await client.closed()
        #expect(own.initiator == .user)

        async let accepted = listener.accept()
        let second = try await registry.connect("\(listener.endpoint)", timeout: .seconds(60))
        let its = try #require(try await accepted)
        await its.close(CloseReason(.user, code: code, text: "over"))
        let seen = await second.closed()
        #expect(seen == CloseReason(peerClosed: code, text: "over"))
        await listener.close()
    }

    @Test("Messages that were accepted arrive before the close frame")
    func sentBeforeClose() async throws {
        let (client, server, listener) = try await pair()
        let sending = Task {
            for number in 0..<200 {
                #expect(await client.send(Payload("\(number) ".utf8 + [UInt8](repeating: 32, count: 9000))) == .written)
            }
            #expect(await client.close() == 0)
        }
        var count = 0
        while let payload = try await server.receive() {
            #expect(payload.string.hasPrefix("\(count) "))
            count += 1
        }
        #expect(count == 200)
        await sending.value
        await listener.close()
    }

    @Test("A ping measures the round trip, also while a message waits")
    func ping() async throws {
        let (client, server, listener) = try await pair()
        for _ in 0..<3 { #expect(try await client.ping() > .zero) }
        #expect(await server.send(Payload(text: "waiting")).isSuccess)
        #expect(try await client.ping() > .zero)
        #expect(try await client.receive() == Payload(text: "waiting"))
        await client.close()
        await #expect(throws: TransportError.self) { _ = try await client.ping() }
        await listener.close()
    }

    @Test("A message above the limit is rejected, and a received one ends the connection with its error")
    func tooLarge() async throws {
        let (client, server, listener) = try await pair("?max-message=100")
        let long = Payload([UInt8](repeating: 0, count: 101))
        guard case .rejected(let error) = await client.send(long) else { throw CancellationError() }
        #expect(error.code == .messageTooLarge)
        #expect(await client.send(Payload([1])) == .written)
        #expect(await server.send(long).isSuccess)
        let ended = await #expect(throws: TransportError.self) { _ = try await client.receive() }
        #expect(ended?.code == .messageTooLarge && ended?.detail == 1009)
        let peer = await server.closed()
        #expect(peer.code == 1009)
        await listener.close()
    }

    @Test("Text that is not UTF-8, a topic, and a retained message are rejected")
    func refusedMessages() async throws {
        let (client, server, listener) = try await pair()
        for (payload, code) in [
            (Payload([0xff], kind: .text), .invalidText), (Payload([], topic: "lunch"), .unsupported),
            (Payload([], isRetained: true), .unsupported),
        ] as [(Payload, TransportError.Code)] {
            guard case .rejected(let error) = await client.send(payload) else { throw CancellationError() }
            #expect(error.code == code)
        }
        await client.close()
        await server.close()
        await listener.close()
    }

    @Test("The engine is chosen by the URL, and an option that the system lacks is an error that names it")
    func engine() async throws {
        let ours = try registry.transport(for: try Endpoint("ws://host/?engine=openssl&deflate=on"))
        #expect(!(ours is SystemWebSocketTransport))
        #expect(try registry.transport(for: Endpoint("wss://host/")) is SystemWebSocketTransport)
        for (url, words) in [
            ("ws://host/?deflate=on", ["deflate has no equivalent in the system's WebSocket", "engine=openssl"]),
            ("wss://host/?certificate=a.pem", ["certificate has no equivalent", "registerSystemWebSocket(identity:)"]),
            ("ws://host/?engine=network", ["engine", "system", "openssl"]),
            ("ws://host/?colour=red", ["colour is not known", "max-message"]),
            ("ws://host/?pin=sha256/x", ["pin", "wss://"]),
            ("wss://host/?ca=/nowhere/ca.pem", ["ca has", "cannot be read"]),
            (
                "wss://host/?dangerously-trust-any-certificate=on&ca=/x.pem",
                ["dangerously-trust-any-certificate", "ca"]
            ),
            ("ws://host/?header=Upgrade:x", ["Upgrade"]),
        ] {
            let error = #expect(throws: TransportError.self) { _ = try registry.transport(for: Endpoint(url)) }
            #expect(error?.code == .invalidConfiguration)
            for word in words { #expect(error?.reason.contains(word) == true, "\(error as Any)") }
        }
        // A server has no engine, and ignores that of its URL.
        let listener = try await registry.listen("ws://127.0.0.1:0?engine=system")
        await listener.close()
    }

    @Test("An attempt ends when its task is cancelled, and after its time")
    func attempts() async throws {
        let silent = ScriptedTask()
        let registry = silent.registry
        let timeout = await #expect(throws: TransportError.self) {
            _ = try await registry.connect("ws://127.0.0.1:1", timeout: .milliseconds(1))
        }
        #expect(timeout?.code == .timedOut && timeout?.phase == .handshake)
        #expect(silent.calls.contains("cancel"))

        let other = ScriptedTask()
        let attempt = Task { try await other.registry.connect("ws://127.0.0.1:1", timeout: .seconds(60)) }
        await other.waitForCall("resume")
        attempt.cancel()
        let error = await #expect(throws: TransportError.self) { _ = try await attempt.value }
        #expect(error?.code == .cancelled)
        await other.waitForCall("cancel")
    }

    @Test(
        "The real task of the system connects",
        .enabled(
            if: realTaskWorks,
            "Foundation of Linux is built without WebSocket (IM_URLSESSION_WEBSOCKET=1 tries it)"
        )
    )
    func realTask() async throws {
        var registry = TransportRegistry.standard
        registry.registerSystemWebSocket()
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0", .echo)
        let client = try await registry.connect("\(server.endpoint)?engine=system", timeout: .seconds(60))
        #expect(await client.send(Payload(text: "hello")) == .written)
        #expect(try await client.receive() == Payload(text: "hello"))
        #expect(try await client.ping() > .zero)
        await client.close(CloseReason(.user, code: 4001, text: "lunch"))
        await server.stop()
    }

    @Test(
        "A system without WebSocket is an error that says what to do",
        .enabled(if: !realTaskWorks, "this system has one")
    )
    func noSystemWebSocket() async throws {
        var registry = TransportRegistry.standard
        registry.registerSystemWebSocket()
        let error = await #expect(throws: TransportError.self) {
            _ = try await registry.connect("ws://127.0.0.1:1?engine=system", timeout: .seconds(60))
        }
        #expect(error?.code == .unsupported && error?.reason.contains("engine=openssl") == true)
    }
}

/// Whether this system's `URLSessionWebSocketTask` works.
private let realTaskWorks: Bool = {
    #if canImport(Darwin)
    true
    #else
    ProcessInfo.processInfo.environment["IM_URLSESSION_WEBSOCKET"] == "1"
    #endif
}()
