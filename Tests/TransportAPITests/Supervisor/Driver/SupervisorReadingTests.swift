import TestSupport
import Testing
import TransportAPI

/// Tests received messages and listeners that take them slowly, with time under the test's control.
@Suite("A supervisor's messages", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorReadingTests {
    /// A supervisor whose connections either share its runtime and call it, or live elsewhere and are read by tasks.
    private struct Rig {
        let runtime = VirtualRuntime()
        let script: Script

        init(isHere: Bool) {
            script = Script(at: isHere ? runtime : nil)
        }

        func supervisor(buffer: Int) throws -> Supervisor {
            let supervisor = try Supervisor(
                script.setup {
                    $0.messageBuffer = buffer
                    $0.keepalive.interval = .seconds(30)
                },
                on: runtime
            )
            supervisor.connect()
            runtime.settle()
            return supervisor
        }

        func give(_ numbers: Range<Int>) {
            for number in numbers { script.last?.give(bytes("\(number)")) }
            runtime.settle()
        }
    }

    @Test("Every listener receives every message", arguments: [true, false])
    func listeners(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let runtime = rig.runtime
        let supervisor = try rig.supervisor(buffer: 8)
        let listeners = (0..<3).map { _ in supervisor.messages }
        rig.give(0..<8)
        for listener in listeners {
            let seen = try runtime.run { await listener.prefix(8).reduce(into: []) { $0.append($1.string) } }
            #expect(seen == (0..<8).map(String.init))
        }
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "Without a listener, a supervisor buffers messages up to its limit and then stops reading",
        arguments: [true, false]
    )
    func backlog(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let (runtime, script) = (rig.runtime, rig.script)
        let supervisor = try rig.supervisor(buffer: 4)
        rig.give(0..<10)
        #expect(script.last?.unread == 6)
        let listener = supervisor.messages
        let seen = try runtime.run { await listener.prefix(10).reduce(into: []) { $0.append($1.string) } }
        #expect(seen == (0..<10).map(String.init))
        #expect(script.last?.unread == 0)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A supervisor reads again when half of its buffer is free, and not after each message",
        arguments: [true, false]
    )
    func hysteresis(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let (runtime, script) = (rig.runtime, rig.script)
        let supervisor = try rig.supervisor(buffer: 8)
        let messages = supervisor.messages
        rig.give(0..<20)
        #expect(script.last?.unread == 12)
        for unread in [12, 12, 12, 8] {
            #expect(try runtime.run { await messages.first { _ in true } } != nil)
            runtime.settle()
            #expect(script.last?.unread == unread)
        }
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A supervisor notices the end of a connection while reading is paused, and loses no message",
        arguments: [true, false]
    )
    func endWhilePaused(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let (runtime, script) = (rig.runtime, rig.script)
        let supervisor = try rig.supervisor(buffer: 4)
        rig.give(0..<6)
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(1))
        #expect(script.connections.count == 2)
        #expect(try runtime.run { await supervisor.send(bytes("goes on")) } == .written)
        rig.give(6..<9)
        let listener = supervisor.messages
        let seen = try runtime.run { await listener.prefix(9).reduce(into: []) { $0.append($1.string) } }
        #expect(seen == (0..<9).map(String.init))
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "The messages of many broken connections stay within a limit if no listener takes them",
        arguments: [true, false]
    )
    func bounded(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let (runtime, script) = (rig.runtime, rig.script)
        let supervisor = try rig.supervisor(buffer: 4)
        for _ in 0..<50 {
            rig.give(0..<10)
            script.last?.end(CloseReason(.network))
            runtime.advance(by: .seconds(1))
        }
        #expect(script.connections.count == 51)
        let messages = supervisor.messages
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(try runtime.run { await messages.reduce(0) { count, _ in count + 1 } } <= 9)
    }

    @Test("The keepalive also monitors a connection that follows one with unread messages", arguments: [true, false])
    func keepaliveAfterPause(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let (runtime, script) = (rig.runtime, rig.script)
        let supervisor = try rig.supervisor(buffer: 4)
        let messages = supervisor.messages
        rig.give(0..<10)
        supervisor.suspend()
        runtime.settle()
        #expect(try runtime.run { await messages.first { _ in true } } != nil)
        #expect(try runtime.run { await messages.prefix(3).reduce(0) { count, _ in count + 1 } } == 3)
        supervisor.resume()
        runtime.settle()
        #expect(script.connections.count == 2)
        // The new connection never answers.
        runtime.advance(by: .seconds(42))
        #expect(script.connections.count == 3)
        try runtime.run { await supervisor.close() }
    }

    @Test("Cancelling a listener's task ends its wait and loses no message", arguments: [true, false])
    func cancelled(isHere: Bool) throws {
        let rig = Rig(isHere: isHere)
        let runtime = rig.runtime
        let supervisor = try rig.supervisor(buffer: 8)
        let messages = supervisor.messages
        let waiting = runtime.begin { await messages.first { _ in true } }
        waiting.cancel()
        runtime.settle()
        #expect(waiting.value == .some(nil))
        rig.give(0..<2)
        #expect(try runtime.run { await messages.prefix(2).reduce("") { $0 + $1.string } } == "01")
        try runtime.run { await supervisor.close() }
    }
}
