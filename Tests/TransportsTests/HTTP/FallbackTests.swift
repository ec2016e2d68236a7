import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("The fallback of WebSocket", .timeLimit(.minutes(2)))
struct FallbackTests {
    private let registry = TransportRegistry.standard

    @Test("One port serves WebSockets and sessions over HTTP")
    func onePort() async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/chat?fallback=on")
        let port = try #require(server.endpoint.port)
        for url in ["ws://127.0.0.1:\(port)/chat", "http://127.0.0.1:\(port)/chat"] {
            let client = try await registry.connect(url)
            #expect(await client.send(Payload(text: url)) == .written)
            #expect(try await client.receive() == Payload(text: url))
            await client.close()
        }
        await server.stop()
    }

    @Test("Where WebSocket works it is used, and the fallback is not asked")
    func unused() async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/chat")
        let client = try await registry.connect("\(server.endpoint)?fallback=on")
        #expect(await client.send(Payload(text: "hi")) == .written)
        #expect(try await client.receive() == Payload(text: "hi"))
        await client.close()
        await server.stop()
    }

    private static let bad = Middlebox.Mode.allCases.filter { $0 != .open }

    @Test("Where a middlebox breaks WebSocket, messages go over HTTP", arguments: bad)
    func blocked(mode: Middlebox.Mode) async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/chat?fallback=on")
        let box = try Middlebox(to: try #require(server.endpoint.port), mode)
        let client = try await registry.connect("ws://127.0.0.1:\(box.port)/chat?fallback=on")
        for number in 0..<20 {
            #expect(await client.send(Payload(text: "\(number)")) == .written)
            #expect(try await client.receive() == Payload(text: "\(number)"))
        }
        await client.close()
        box.stop()
        await server.stop()
    }

    @Test(
        "Without the option, a blocked WebSocket is an error",
        arguments: bad.filter { $0 != .swallowing && $0 != .resetting }
    )
    func off(mode: Middlebox.Mode) async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/chat?fallback=on")
        let box = try Middlebox(to: try #require(server.endpoint.port), mode)
        await #expect(throws: TransportError.self) { try await registry.connect("ws://127.0.0.1:\(box.port)/chat") }
        box.stop()
        await server.stop()
    }

    @Test("An answer of the server is no reason to go over HTTP", arguments: [401, 403])
    func refused(status: Int) async throws {
        let paths = Locked<[String]>([])
        let server = try await EmbeddedServer.start(
            "wss://127.0.0.1:0/chat?fallback=on",
            registry: .trial,
            decide: { request in
                paths.withLock { $0.append(request.query) }
                return .refuse(status: status)
            }
        )
        let error = await #expect(throws: TransportError.self) {
            try await TransportRegistry.trial.connect(server.endpoint)
        }
        #expect(error?.detail == status && error?.reason.contains("fallback") == false)
        // The decision was asked once, and so HTTP was not tried.
        #expect(paths.withLock { $0.count } == 1)
        await server.stop()
    }

    @Test("A session changes between WebSocket and HTTP, and loses and doubles nothing")
    func changes() async throws {
        let count = 400
        let received = Locked<[String]>([])
        let sessions = SessionServer(SessionServer.Configuration(), on: EventLoop.shared) { session in
            let messages = session.messages
            Task {
                for await message in messages {
                    received.withLock { $0.append(message.string) }
                    _ = await session.send(message)
                }
            }
        }
        let listener = try await TransportRegistry.trial.listen("ws://127.0.0.1:0/chat?fallback=on")
        let serving = Task(executorPreference: EventLoop.shared) { try await sessions.serve(listener) }
        let box = try Middlebox(to: try #require(listener.endpoint.port), .withoutUpgrade)
        var settings = SupervisorConfiguration()
        settings.delivery.mode = .session
        settings.backoff = .fixed(.milliseconds(20))
        let supervisor = try Supervisor(
            "ws://127.0.0.1:\(box.port)/chat?fallback=on&retry-preferred=100ms",
            settings,
            registry: .trial
        )
        let messages = supervisor.messages
        supervisor.connect()
        let sending = Task {
            for number in 0..<count {
                #expect(await supervisor.send(Payload(text: "\(number)")) == .acknowledged)
                if number % 80 == 79 {
                    box.set([.open, .forbidding, .resetting, .collecting][number / 80 % 4])
                }
            }
        }
        var returned: [String] = []
        for await message in messages {
            returned.append(message.string)
            if returned.count == count { break }
        }
        await sending.value
        #expect(returned == (0..<count).map(String.init))
        #expect(received.withLock { $0 } == (0..<count).map(String.init))
        await supervisor.close()
        await listener.close()
        try await serving.value
        box.stop()
    }
}
