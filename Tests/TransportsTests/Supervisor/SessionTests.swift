import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Tests sessions between a supervisor and a session server, over every transport that does not acknowledge messages
/// itself.
@Suite("Sessions over a real server", .timeLimit(.minutes(5)), .ownThread)
struct SessionTests {
    /// Transports with a broker are left out, because a broker has no sessions of its own.
    static let names = TransportRegistry.available.transports.map(\.name).filter { name in
        let endpoint = Endpoint(scheme: name, host: "127.0.0.1", port: 1)
        return (try? TransportRegistry.trial.transport(for: endpoint).capabilities.routesByTopic) == false
    }

    private static var configuration: SupervisorConfiguration {
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = .session
        return configuration
    }

    private func submit(_ supervisor: Supervisor, _ numbers: Range<Int>) -> Task<[SendOutcome], Never> {
        Task(executorPreference: EventLoop.shared) {
            await withTaskGroup { group in
                for number in numbers {
                    group.addTask(executorPreference: EventLoop.shared) { await supervisor.send(bytes("\(number)")) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
    }

    @Test("A session acknowledges each message", arguments: names)
    func acknowledged(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, _) = try Supervisor.recorded([host.endpoint], Self.configuration)
        supervisor.connect()
        for number in 0..<20 { #expect(await supervisor.send(bytes("\(number)")) == .acknowledged) }
        await host.wait(for: 20)
        #expect(host.received == (0..<20).map(String.init))
        await supervisor.close()
        await host.stop()
    }

    @Test(
        "A session delivers each message once and in order although its connections are cut repeatedly",
        arguments: names
    )
    func cut(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration)
        supervisor.connect()
        let outcomes = submit(supervisor, 0..<500)
        for round in 1...5 {
            await recorder.waitUntilOpen(round)
            await host.wait(for: round * 20)
            await host.server?.dropConnections()
        }
        #expect(await outcomes.value == Array(repeating: .acknowledged, count: 500))
        await host.wait(for: 500)
        #expect(host.received == (0..<500).map(String.init))
        #expect(host.sessions.count == 1)
        await supervisor.close()
        await host.stop()
    }

    @Test("A session continues after a restart of the server's listener", arguments: names)
    func restart(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration)
        supervisor.connect()
        #expect(await supervisor.send(bytes("0")) == .acknowledged)
        await host.stop()
        await recorder.wait { $0.contains { if case .attemptFailed = $0 { true } else { false } } }
        let outcomes = submit(supervisor, 1..<50)
        try await host.start()
        #expect(await outcomes.value.allSatisfy { $0 == .acknowledged })
        await host.wait(for: 50)
        #expect(host.received == (0..<50).map(String.init))
        #expect(recorder.states.last(where: \.isOpen) == .open(host.endpoint, isResumed: true))
        #expect(!recorder.events.contains(.sessionLost))
        await supervisor.close()
        await host.stop()
    }

    @Test("A supervisor starts a new session with a server that lost the old one, and reports it", arguments: names)
    func lost(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration)
        supervisor.connect()
        #expect(await supervisor.send(bytes("0")) == .acknowledged)
        await host.stop()
        await recorder.wait { $0.contains { if case .attemptFailed = $0 { true } else { false } } }
        let outcomes = submit(supervisor, 1..<50)
        host.replaceServer()
        try await host.start()
        #expect(await outcomes.value.allSatisfy { $0 == .acknowledged })
        await host.wait(for: 50)
        #expect(host.received == (0..<50).map(String.init))
        #expect(recorder.events.contains(.sessionLost))
        #expect(host.sessions.count == 2)
        await supervisor.close()
        await host.stop()
    }

    @Test("A session carries messages to the client over all its connections", arguments: names)
    func toTheClient(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, recorder) = try Supervisor.recorded([host.endpoint], Self.configuration)
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")) == .acknowledged)
        let session = try #require(host.sessions.first)
        let sends = Task(executorPreference: EventLoop.shared) {
            await withTaskGroup { group in
                for number in 0..<200 {
                    group.addTask(executorPreference: EventLoop.shared) { await session.send(bytes("\(number)")) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        for number in 0..<200 {
            #expect(await messages.next() == bytes("\(number)"))
            if number % 50 == 25 { await host.server?.dropConnections() }
        }
        #expect(await sends.value == Array(repeating: .acknowledged, count: 200))
        await supervisor.close()
        await host.stop()
        #expect(!recorder.events.contains(.sessionLost))
    }

    @Test("A session ends at the server when the client is closed", arguments: names)
    func clientCloses(name: String) async throws {
        let host = try await SessionHost(name)
        let (supervisor, _) = try Supervisor.recorded([host.endpoint], Self.configuration)
        supervisor.connect()
        #expect(await supervisor.send(bytes("hello")) == .acknowledged)
        let messages = try #require(host.sessions.first).messages
        await supervisor.close()
        #expect(await messages.first { _ in true } == nil)
        await host.stop()
    }
}
