import TestSupport
import Testing
import TransportAPI

/// Tests messages over an open connection, which lives on the supervisor's own runtime or elsewhere. Time is under the
/// test's control.
@Suite("Messages over an open connection", .timeLimit(.minutes(5)), .ownThread)
struct OpenConnectionTests {
    private let runtime = VirtualRuntime()
    private let recorder = Recorder()

    private func supervisor(
        _ script: Script,
        _ change: (inout SupervisorConfiguration) -> Void = { _ in }
    ) throws -> Supervisor {
        var setup = try script.setup(["memory://server"], change)
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        return supervisor
    }

    private func script(isHere: Bool) -> Script {
        Script(at: isHere ? runtime : nil)
    }

    /// The events that the observer has received.
    private var events: [SupervisorEvent] {
        recorder.events.filter {
            switch $0 {
            case .submitted, .finished, .received: true
            default: false
            }
        }
    }

    @Test("A supervisor reports each message to its observer", arguments: [true, false])
    func observed(isHere: Bool) throws {
        let script = script(isHere: isHere)
        let supervisor = try supervisor(script)
        for number in 1...3 { #expect(try runtime.run { await supervisor.send(bytes("\(number)")) } == .written) }
        script.last?.give(bytes("back"))
        runtime.settle()
        let sent = (1...3 as ClosedRange<UInt64>).flatMap {
            [SupervisorEvent.submitted(MessageID($0), bytes: 1), .finished(MessageID($0), .written)]
        }
        #expect(events == sent + [.received(bytes: 4)])
        #expect(script.last?.texts == ["1", "2", "3"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A new message does not overtake a message that is queued", arguments: [true, false])
    func order(isHere: Bool) throws {
        let script = script(isHere: isHere)
        let supervisor = try supervisor(script)
        #expect(try runtime.run { await supervisor.send(bytes("1")) } == .written)
        script.last?.block(true)
        let waiting = runtime.begin { await supervisor.send(bytes("2")) }
        let behind = runtime.begin { await supervisor.send(bytes("3")) }
        #expect(waiting.value == nil && behind.value == nil)
        script.last?.block(false)
        runtime.settle()
        #expect(waiting.value == .written && behind.value == .written)
        #expect(try runtime.run { await supervisor.send(bytes("4")) } == .written)
        #expect(script.last?.texts == ["1", "2", "3", "4"])
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A message waits for the next connection if this one has ended and the supervisor is not notified yet",
        arguments: [true, false]
    )
    func endedConnection(isHere: Bool) throws {
        let script = script(isHere: isHere)
        let supervisor = try supervisor(script)
        #expect(try runtime.run { await supervisor.send(bytes("1")) } == .written)
        // The supervisor is notified of the end after it has accepted the message.
        let late = runtime.begin {
            script.last?.end(CloseReason(.network))
            return await supervisor.send(bytes("2"))
        }
        #expect(late.value == nil)
        runtime.advance(by: .seconds(2))
        #expect(late.value == .written)
        #expect(script.connections.map(\.texts) == [["1"], ["2"]])
        try runtime.run { await supervisor.close() }
    }

    @Test("A received message counts as a sign of life and delays the next ping", arguments: [true, false])
    func keepalive(isHere: Bool) throws {
        let script = script(isHere: isHere)
        let supervisor = try supervisor(script) {
            $0.keepalive.interval = .seconds(30)
            $0.keepalive.timeout = .seconds(5)
        }
        for _ in 0..<5 {
            runtime.advance(by: .seconds(25))
            script.last?.give(bytes("here"))
            runtime.settle()
        }
        #expect(script.last?.pings == 0)
        runtime.advance(by: .seconds(31))
        #expect(script.last?.pings == 1)
        runtime.advance(by: .seconds(5))
        #expect(script.connections[0].reason != nil)
        try runtime.run { await supervisor.close() }
    }
}
