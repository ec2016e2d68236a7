import TestSupport
import Testing
import TransportAPI

/// What a supervisor says it is doing, with time under the test's control.
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

    @Test("tell the whole story to each listener, and end at the close")
    func story() throws {
        let script = Script { $0.number == 0 ? .fail(.refused) : .open }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        let listeners = (0..<3).map { _ in supervisor.states }
        let stories = listeners.map { states in
            runtime.begin {
                var story: [SupervisorState] = []
                for await state in states { story.append(state) }
                return story
            }
        }
        supervisor.connect()
        runtime.advance(by: .seconds(30))
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(30))
        try runtime.run { await supervisor.close() }
        runtime.settle()
        for story in stories {
            #expect(
                story.value?.map(name) == [
                    "idle", "connecting 1", "waiting", "connecting 2", "open", "waiting", "connecting 1", "open",
                    "closed",
                ]
            )
            #expect(story.value?.contains(.open(server, isResumed: false)) == true)
            #expect(story.value?.last == .closed(.user))
        }
    }

    @Test("begin with the present one for a late listener")
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

    @Test("are the newest for a listener that fell behind")
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

    @Test("end for a listener whose task is cancelled, and go on for the others")
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

    @Test("can be awaited to their end, or not that long")
    func closed() throws {
        let supervisor = try Supervisor(Script().setup(), on: runtime)
        let patient = runtime.begin { await supervisor.closed() }
        let impatient = runtime.begin { await supervisor.closed() }
        impatient.cancel()
        runtime.settle()
        #expect(impatient.value != nil)
        #expect(patient.value == nil)
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(patient.value != nil)
        try runtime.run { await supervisor.closed() }
    }

    @Test("do not come without an endpoint")
    func noEndpoint() throws {
        var setup = try Script().setup()
        setup.endpoints = []
        let error = #expect(throws: TransportError.self) { _ = try Supervisor(setup, on: runtime) }
        #expect(error?.code == .invalidConfiguration)
    }
}
