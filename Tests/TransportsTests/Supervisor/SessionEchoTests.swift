import Codecs
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Tests apps that send inside the loop in which they receive, and that leave this loop and begin another one, with
/// message buffers that are full most of the time.
@Suite("Apps that send inside their receive loops", .timeLimit(.minutes(5)), .ownThread)
struct SessionEchoTests {
    private static let count = 200

    private static func configuration(_ buffer: Int) -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = .session
        configuration.messageBuffer = buffer
        return configuration
    }

    /// A session server whose app runs `body` for each session.
    private func serve(
        _ name: String,
        _ buffer: Int,
        _ body: @escaping @Sendable (Session) async -> Void
    ) async throws -> (endpoint: Endpoint, stop: @Sendable () async -> Void) {
        let registry = TransportRegistry.trial
        var configuration = SessionServer.Configuration()
        configuration.supervisor.messageBuffer = buffer
        let server = SessionServer(configuration, on: EventLoop.shared) { session in
            Task { await body(session) }
        }
        let listener = try await registry.listen("\(name)://127.0.0.1:0")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: name).loopback("echo")
        return (
            endpoint,
            {
                await listener.close()
                try? await serving.value
                await server.close()
            }
        )
    }

    @Test(
        "An echo that sends inside its loop answers every message, although message buffers are full",
        arguments: SessionTests.names,
        [1, 16]
    )
    func echo(name: String, buffer: Int) async throws {
        let (endpoint, stop) = try await serve(name, buffer) { session in
            for await message in session.messages { _ = await session.send(message) }
        }
        let (supervisor, _) = try Supervisor.recorded([endpoint], Self.configuration(buffer))
        let answers = supervisor.messages
        supervisor.connect()
        let sending = Task {
            for number in 0..<Self.count { _ = try await supervisor.submit(bytes("\(number)")) }
        }
        var seen: [String] = []
        for await answer in answers {
            seen.append(answer.string)
            if seen.count == Self.count { break }
        }
        try await sending.value
        #expect(seen == (0..<Self.count).map(String.init))
        await supervisor.close()
        await stop()
    }

    @Test(
        "An app that leaves its loop and begins another one receives every message of its session",
        arguments: SessionTests.names
    )
    func leaves(name: String) async throws {
        let (received, note) = AsyncStream.makeStream(of: String.self)
        let (endpoint, stop) = try await serve(name, 16) { session in
            let chat = session.channel(of: ChatMessage.self)
            var (count, before) = (0, -1)
            while count < Self.count, count > before {
                before = count
                for await message in chat.messages {
                    note.yield(message.id)
                    count += 1
                    _ = await chat.send(message)
                    if count % 5 == 0 { break }
                }
            }
        }
        let (supervisor, _) = try Supervisor.recorded([endpoint], Self.configuration(16))
        let chat = supervisor.channel(of: ChatMessage.self)
        supervisor.connect()
        let sending = Task {
            for number in 0..<Self.count {
                var message = ChatMessage()
                message.id = "\(number)"
                _ = try await chat.submit(message)
            }
        }
        let all = (0..<Self.count).map(String.init)
        var seen: [String] = []
        var before = -1
        while seen.count < Self.count, seen.count > before {
            before = seen.count
            for await message in chat.messages {
                seen.append(message.id)
                if seen.count % 7 == 0 || seen.count == Self.count { break }
            }
        }
        #expect(seen == all)
        #expect(await received.prefix(Self.count).reduce(into: []) { $0.append($1) } == all)
        try await sending.value
        await supervisor.close()
        await stop()
    }
}
