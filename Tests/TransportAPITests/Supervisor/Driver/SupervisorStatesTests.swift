import TestSupport
import Testing
import TransportAPI

/// Tests the states that a supervisor reports, with time under the test's control.
@Suite("A supervisor's states", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorStatesTests {
    private let runtime = VirtualRuntime()
    private let server = Endpoint(scheme: "memory", host: "server")

    private func name(_ state: SupervisorState) -> String {
        switch state {
        case .idle: "idle"
        case .connecting(let attempt, _): "connecting \(attempt)"
        case .open: "open"
        case .waiting: "waiting"
        case .offline: "offline"
        case .suspended: "suspended"
        case .closed: "closed"
        }
    }

    @Test("Each listener receives all states, and its sequence ends when the supervisor is closed")
    func allStates() throws {
        let script = Script { $0.number == 0 ? .fail(.refused) : .open }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        let listeners = (0..<3).map { _ in supervisor.states }
        let received = listeners.map { states in
            runtime.begin {
                var seen: [SupervisorState] = []
                for await state in states { seen.append(state) }
                return seen
            }
        }
        supervisor.connect()
        runtime.advance(by: .seconds(30))
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(30))
        try runtime.run { await supervisor.close() }
        runtime.settle()
        for states in received {
            #expect(
                states.value?.map(name) == [
                    "idle", "connecting 1", "waiting", "connecting 2", "open", "waiting", "connecting 1", "open",
                    "closed",
                ]
            )
            #expect(states.value?.contains(.open(server, isResumed: false)) == true)
            #expect(states.value?.last == .closed(.user))
        }
    }

    @Test("A late listener receives the current state first")
    func late() throws {
        let supervisor = try Supervisor(Script().setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        let states = supervisor.states
        #expect(try runtime.run { await states.first { _ in true } } == .open(server, isResumed: false))
        #expect(try runtime.run { await supervisor.state() } == .open(server, isResumed: false))
        try runtime.run { await supervisor.close() }
        let afterwards = supervisor.states
        #expect(try runtime.run { await afterwards.reduce(into: []) { $0.append($1) } } == [.closed(.user)])
    }

    @Test("A listener that falls behind receives the newest states")
    func behind() throws {
        let supervisor = try Supervisor(Script { _ in .fail(.refused) }.setup(), on: runtime)
        let states = supervisor.states
        supervisor.connect()
        runtime.advance(by: .seconds(200))
        try runtime.run { await supervisor.close() }
        let seen = try runtime.run { await states.reduce(into: []) { $0.append($1) } }
        #expect(seen.count == 64)
        #expect(seen.last == .closed(.user))
        #expect(!seen.contains(.idle))
        #expect(seen.contains(.connecting(attempt: 201, server)))
    }

    @Test("Cancelling one listener's task ends its sequence and not the others")
    func cancelled() throws {
        let supervisor = try Supervisor(Script().setup(), on: runtime)
        let (first, second) = (supervisor.states, supervisor.states)
        let cancelled = runtime.begin { await first.reduce(into: []) { $0.append($1) } }
        let other = runtime.begin { await second.reduce(into: []) { $0.append($1) } }
        cancelled.cancel()
        runtime.settle()
        #expect(cancelled.value == [.idle])
        supervisor.connect()
        runtime.settle()
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(other.value?.map(name) == ["idle", "connecting 1", "open", "closed"])
    }

    @Test("A task can wait for the end of a supervisor, and can be cancelled while it waits")
    func closed() throws {
        let supervisor = try Supervisor(Script().setup(), on: runtime)
        let waiting = runtime.begin { await supervisor.closed() }
        let cancelled = runtime.begin { await supervisor.closed() }
        cancelled.cancel()
        runtime.settle()
        #expect(cancelled.value != nil)
        #expect(waiting.value == nil)
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(waiting.value != nil)
        try runtime.run { await supervisor.closed() }
    }

    @Test("A supervisor without an endpoint is refused")
    func noEndpoint() throws {
        var setup = try Script().setup()
        setup.endpoints = []
        let error = #expect(throws: TransportError.self) { _ = try Supervisor(setup, on: runtime) }
        #expect(error?.code == .invalidConfiguration)
    }
}
