import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Tests one supervisor over every registered transport, with servers that stop and start again.
@Suite("A supervisor over a real server", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorReconnectTests {
    static let names = TransportRegistry.available.transports.map(\.name)

    @Test("A supervisor connects again after the server has closed the connection", arguments: names)
    func serverCloses(name: String) async throws {
        let server = try await PlainServer(name)
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint])
        supervisor.connect()
        for round in 1...3 {
            await recorder.waitUntilOpen(round)
            #expect(await supervisor.send(bytes("\(round)")).isSuccess)
            await server.wait(for: round)
            await server.dropConnections()
        }
        await recorder.waitUntilOpen(4)
        #expect(server.received == ["1", "2", "3"])
        await supervisor.close()
        await server.stop()
    }

    @Test(
        "A supervisor keeps messages while the server is away and sends them in order when it is back",
        arguments: names
    )
    func restart(name: String) async throws {
        let server = try await PlainServer(name)
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint])
        supervisor.connect()
        await recorder.waitUntilOpen()
        #expect(await supervisor.send(bytes("before")).isSuccess)
        await server.wait(for: 1)
        await server.stop()
        await recorder.wait { $0.contains { if case .attemptFailed = $0 { true } else { false } } }
        let sends = (0..<50).map { number in
            Task(executorPreference: EventLoop.shared) { await supervisor.send(bytes("\(number)")) }
        }
        try await server.start()
        for send in sends { #expect(await send.value.isSuccess) }
        await server.wait(for: 51)
        #expect(server.received == ["before"] + (0..<50).map(String.init))
        await supervisor.close()
        await server.stop()
    }

    @Test("A supervisor continues after a reset")
    func reset() async throws {
        let bad = try RawServer(.reset)
        let server = try await PlainServer("tcp")
        let endpoints = [Endpoint(scheme: "tcp", host: "127.0.0.1", port: bad.port), server.endpoint]
        let (supervisor, _) = try Supervisor.recorded(endpoints) { setup in
            // The first attempt goes to the server that resets, and the later ones to the other server.
            let attempts = Locked(0)
            setup.preparation = { _, _ in
                endpoints[
                    min(
                        attempts.withLock {
                            $0 += 1; return $0
                        } - 1,
                        1
                    )
                ]
            }
        }
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        await supervisor.close()
        bad.stop()
        await server.stop()
    }

    @Test("A supervisor changes from a refused transport to one that works, and stays there", arguments: names, names)
    func mixed(first: String, second: String) async throws {
        let away = try Away(first)
        let server = try await PlainServer(second)
        let (supervisor, recorder) = try Supervisor.recorded([away.endpoint, server.endpoint])
        supervisor.connect()
        await recorder.waitUntilOpen()
        #expect(await supervisor.send(bytes("1")).isSuccess)
        await server.wait(for: 1)
        let before = recorder.states.count
        await server.dropConnections()
        await recorder.waitUntilOpen(2)
        #expect(await supervisor.send(bytes("2")).isSuccess)
        await server.wait(for: 2)
        let attempts = recorder.states[before...].compactMap {
            if case .connecting(_, let endpoint) = $0 { endpoint.scheme } else { nil }
        }
        #expect(attempts == [second])
        await supervisor.close()
        await server.stop()
        withExtendedLifetime(away) {}
    }

    @Test("A closed supervisor does not connect again", arguments: names)
    func closed(name: String) async throws {
        let server = try await PlainServer(name)
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint])
        supervisor.connect()
        await recorder.waitUntilOpen()
        let connection = try await serverConnection(server, supervisor)
        await supervisor.close()
        await supervisor.closed()
        #expect(await connection.closed().initiator == .peer)
        supervisor.connect()
        #expect(await supervisor.state() == .closed(.user))
        #expect(await supervisor.send(bytes("late")).isSuccess == false)
        #expect(recorder.states.filter(\.isOpen).count == 1)
        await server.stop()
    }

    /// Returns the server's side of the connection when it is open.
    private func serverConnection(_ server: PlainServer, _ supervisor: Supervisor) async throws -> any Connection {
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        await server.wait(for: 1)
        return try #require(server.connections.first)
    }

    @Test("An observer receives states, failed attempts, ends of connections, and the start and end of each message")
    func observer() async throws {
        let away = try Away("tcp")
        let server = try await PlainServer("ws")
        let (supervisor, recorder) = try Supervisor.recorded([away.endpoint, server.endpoint])
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")).isSuccess)
        await server.wait(for: 1)
        let connection = try #require(server.connections.first)
        #expect(await connection.send(bytes("welcome!")).isSuccess)
        await recorder.wait { $0.contains(.received(bytes: 8)) }
        await server.dropConnections()
        await recorder.waitUntilOpen(2)
        await supervisor.close()
        let events = recorder.events
        #expect(
            events.contains {
                if case .attemptFailed(let to, let why) = $0 {
                    to == away.endpoint && why.code == .refused
                } else {
                    false
                }
            }
        )
        #expect(
            events.contains {
                if case .connectionEnded(let to, let why) = $0 {
                    to == server.endpoint && why.initiator == .peer
                } else {
                    false
                }
            }
        )
        #expect(events.contains(.submitted(MessageID(1), bytes: 5)))
        #expect(events.contains(.finished(MessageID(1), .written)))
        #expect(events.last == .state(.closed(.user)))
        await server.stop()
        withExtendedLifetime(away) {}
    }
}
