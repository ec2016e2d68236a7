import TestSupport
import Testing
import TransportAPI

/// Tests that a supervisor leaves nothing behind after its end.
@Suite("A supervisor's lifetime", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorLifetimeTests {
    private let runtime = VirtualRuntime()
    private let script = Script()

    /// The objects that must be released.
    private struct Witnesses {
        weak var supervisor: Supervisor?
        weak var connection: ScriptedConnection?
        weak var observer: Recorder?

        var areGone: Bool { supervisor == nil && connection == nil && observer == nil }
    }

    private func live(_ end: (Supervisor) throws -> Void) throws -> Witnesses {
        let recorder = Recorder()
        var setup = try script.setup {
            $0.messageBuffer = 2
            $0.maximumAttempts = 2
        }
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        let states = supervisor.states
        let listening = runtime.begin { for await _ in states {} }
        supervisor.connect()
        runtime.settle()
        let witnesses = Witnesses(supervisor: supervisor, connection: script.last, observer: recorder)
        // The connection is paused, one message is in flight, and another one waits.
        for number in 0..<5 { script.last?.give(bytes("\(number)")) }
        script.last?.block(true)
        let sends = (0..<2).map { _ in runtime.begin { await supervisor.send(bytes("message")) } }
        let ping = runtime.begin { await supervisor.closed() }
        runtime.settle()
        #expect(script.last?.unread == 3)
        try end(supervisor)
        runtime.settle()
        #expect(sends.allSatisfy { $0.value?.isSuccess == false })
        #expect(ping.value != nil && listening.value != nil)
        script.forget()
        return witnesses
    }

    @Test("A supervisor releases everything when it is closed")
    func closed() throws {
        let witnesses = try live { supervisor in _ = try runtime.run { await supervisor.close() } }
        runtime.settle()
        #expect(witnesses.areGone)
        #expect(runtime.timerCount == 0)
    }

    @Test("A supervisor releases everything when it gives up")
    func gaveUp() throws {
        let witnesses = try live { _ in
            script.answer { _ in .fail(.refused) }
            script.last?.end(CloseReason(.network))
            runtime.advance(by: .seconds(100))
        }
        runtime.settle()
        #expect(witnesses.areGone)
        #expect(runtime.timerCount == 0)
    }

    @Test("A close returns the undelivered bytes of the latest connection", arguments: [false, true])
    func undelivered(whileSuspended: Bool) throws {
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.leaveUndelivered(7)
        if whileSuspended { supervisor.suspend() }
        runtime.settle()
        #expect(try runtime.run { await supervisor.close() } == 7)
    }

    @Test("A close without a connection does not count the undelivered bytes of a connection before the lost one")
    func undeliveredBefore() throws {
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.leaveUndelivered(7)
        supervisor.suspend()
        supervisor.resume()
        runtime.settle()
        #expect(script.connections.count == 2)
        script.last?.end(CloseReason(.network))
        runtime.settle()
        #expect(try runtime.run { await supervisor.close() } == 0)
    }

    @Test("A supervisor releases everything if it was never started")
    func neverStarted() throws {
        weak var supervisor: Supervisor?
        weak var observer: Recorder?
        do {
            var setup = try script.setup()
            let recorder = Recorder()
            setup.observer = recorder
            let made = try Supervisor(setup, on: runtime)
            (supervisor, observer) = (made, recorder)
            runtime.settle()
        }
        runtime.settle()
        #expect(supervisor == nil && observer == nil)
    }

    @Test("A listener that is released gives up its subscription")
    func subscriptions() throws {
        let supervisor = try Supervisor(script.setup { $0.messageBuffer = 2 }, on: runtime)
        supervisor.connect()
        for _ in 0..<100 { _ = supervisor.messages }
        runtime.settle()
        // A listener that kept its subscription would not take its messages, and reading would stop.
        let messages = supervisor.messages
        for number in 0..<10 {
            script.last?.give(bytes("\(number)"))
            runtime.settle()
            #expect(try runtime.run { await messages.first { _ in true } } == bytes("\(number)"))
        }
        try runtime.run { await supervisor.close() }
    }
}
