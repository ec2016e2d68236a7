import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests how a supervisor reacts to changes of the network and to the app's `suspend` and `resume`.
@Suite("A supervisor and its network path", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorPathTests {
    private let runtime = VirtualRuntime()
    private let paths = ManualPathMonitor()
    private let script = Script()

    private func supervisor(_ change: (inout SupervisorConfiguration) -> Void = { _ in }) throws -> Supervisor {
        var setup = try script.setup(["memory://server"], change)
        setup.paths = paths
        return try Supervisor(setup, on: runtime)
    }

    @Test("A supervisor makes no attempt without a network and connects as soon as there is one")
    func offline() throws {
        paths.set(NetworkPath(isUsable: false))
        let supervisor = try supervisor()
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.isEmpty)
        #expect(try runtime.run { await supervisor.state() } == .offline)
        paths.set(NetworkPath(isUsable: true))
        runtime.settle()
        #expect(script.attempts.count == 1)
        #expect(try runtime.run { await supervisor.state() }.isOpen)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor skips the backoff when the network changes")
    func another() throws {
        script.answer { $0.number == 0 ? .fail(.refused) : .open }
        let supervisor = try supervisor { $0.backoff = .fixed(.seconds(600)) }
        supervisor.connect()
        runtime.advance(by: .seconds(1))
        paths.set(NetworkPath(isUsable: true, network: "train"))
        runtime.settle()
        #expect(try runtime.run { await supervisor.state() }.isOpen)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor keeps an open connection during a short absence of the network")
    func shortAbsence() throws {
        let supervisor = try supervisor()
        supervisor.connect()
        runtime.settle()
        script.last?.answerPings(.milliseconds(20))
        paths.set(NetworkPath(isUsable: false))
        runtime.advance(by: .seconds(600))
        #expect(try runtime.run { await supervisor.state() }.isOpen)
        paths.set(NetworkPath(isUsable: true))
        runtime.advance(by: .seconds(1))
        #expect(script.last?.pings == 1)
        #expect(script.attempts.count == 1)
        try runtime.run { await supervisor.close() }
    }

    /// A monitor that reports whether it is watched.
    private final class Watched: PathMonitor {
        private final class Watch: Sendable {}
        private let watch = Locked<Weak>(Weak())
        private struct Weak: Sendable { weak var watch: Watch? }

        var isWatched: Bool { watch.withLock { $0.watch != nil } }

        func watch(_: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
            let new = Watch()
            watch.withLock { $0.watch = new }
            return new
        }
    }

    @Test("A closed supervisor stops watching the path")
    func stopsWatching() throws {
        let paths = Watched()
        var setup = try script.setup()
        setup.paths = paths
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        #expect(paths.isWatched)
        try runtime.run { await supervisor.close() }
        #expect(!paths.isWatched)
    }

    @Test("A suspended supervisor makes no attempt and keeps its messages")
    func suspended() throws {
        let supervisor = try supervisor()
        supervisor.connect()
        runtime.settle()
        supervisor.suspend()
        runtime.settle()
        #expect(script.last?.reason?.initiator == .user)
        let outcome = runtime.begin { await supervisor.send(bytes("later")) }
        paths.set(NetworkPath(isUsable: true, network: "train"))
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.count == 1)
        #expect(outcome.value == nil)
        supervisor.resume()
        runtime.settle()
        #expect(script.attempts.count == 2)
        #expect(script.last?.texts == ["later"])
        #expect(outcome.value == .written)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor that was never asked to connect is idle again after suspend and resume")
    func resumedWhileIdle() throws {
        let supervisor = try supervisor()
        supervisor.suspend()
        supervisor.resume()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.isEmpty)
        #expect(try runtime.run { await supervisor.state() } == .idle)
        supervisor.connect()
        runtime.settle()
        #expect(script.attempts.count == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor that is asked to connect while it is suspended does so when it is resumed")
    func connectedWhileSuspended() throws {
        let supervisor = try supervisor()
        supervisor.suspend()
        supervisor.suspend()
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.isEmpty)
        supervisor.resume()
        runtime.settle()
        #expect(script.attempts.count == 1)
        try runtime.run { await supervisor.close() }
    }
}
