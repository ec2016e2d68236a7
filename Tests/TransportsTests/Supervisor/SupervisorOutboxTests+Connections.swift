import Testing
import TransportAPI

// Connections that give messages back, refuse them, or make them wait.
extension SupervisorOutboxTests {
    @Test("holds what the connection gave back, in order, until the next connection")
    func givenBack() throws {
        let supervisor = try supervisor(10)
        supervisor.connect()
        runtime.settle()
        script.last?.block(true)
        let sends = send(supervisor, 1...5)
        script.last?.end(CloseReason(TransportError(.connectionReset, .open, "reset")))
        let more = send(supervisor, 6...8)
        #expect((sends + more).allSatisfy { $0.value == nil })
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        #expect(script.last?.texts == ["1", "2", "3", "4", "5", "6", "7", "8"])
        #expect((sends + more).allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("does not offer a message again and again to a connection that gives it back", arguments: [true, false])
    func refusingConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.settle(.rejected(TransportError(.connectionLost, .open, "it is about to end")))
        let sends = send(supervisor, 1...2)
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        #expect(script.connections[0].sent.count <= 2)
        #expect(script.last?.texts == ["1", "2"])
        #expect(sends.allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("keeps a message that came too late for a connection, whatever that ended by", arguments: [true, false])
    func lateForConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        // What ended the connection would never be mended by sending again, were it the message's fault.
        script.last?.settle(.rejected(TransportError(.messageTooLarge, .closing, "the far side hung up", detail: 1009)))
        let sends = send(supervisor, 1...2)
        runtime.advance(by: .seconds(2))
        #expect(script.last?.texts == ["1", "2"])
        #expect(sends.allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("lets nothing overtake a message that waits for the connection", arguments: [true, false])
    func blockedConnection(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.block(true)
        let first = send(supervisor, 1...3)
        script.last?.block(false)
        let more = send(supervisor, 4...6)
        #expect(script.last?.texts == (1...6).map(String.init))
        #expect((first + more).allSatisfy { $0.value == .written })
        try runtime.run { await supervisor.close() }
    }

    @Test("ends a message that no connection would take, and sends those behind it", arguments: [true, false])
    func poison(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        for code in [TransportError.Code.messageTooLarge, .invalidText] {
            script.last?.settle(.rejected(TransportError(code, .open, "not this one")))
            #expect(self.code(try runtime.run { await supervisor.send(bytes("poison")) }) == code)
        }
        script.last?.settle(.written)
        #expect(try runtime.run { await supervisor.send(bytes("good")) } == .written)
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }
}
