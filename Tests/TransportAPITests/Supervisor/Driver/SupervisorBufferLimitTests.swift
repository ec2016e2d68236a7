import TestSupport
import Testing
import TransportAPI

/// Tests of servers that send more than a supervisor may buffer.
@Suite("The byte limits of a supervisor's buffers", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorBufferLimitTests {
    private let runtime = VirtualRuntime()

    private func message(_ number: UInt64) -> Payload {
        Payload([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64 << 10))
    }

    @Test(
        "A supervisor closes a connection that sends more early messages than the buffer holds, and reconnects"
    )
    func early() throws {
        let script = Script()
        let setup = try script.setup {
            $0.delivery.mode = .session
            $0.messageBufferBytes = 1 << 20
        }
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        for number: UInt64 in 2...1000 where !connection.hasEnded {
            connection.give(.message(number, message(number)))
            runtime.settle()
        }
        #expect(connection.reason?.error?.code == .resourcesExhausted)
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        let next = try #require(script.last)
        next.give(.welcome(incarnation: 7, received: 0))
        for number: UInt64 in 1...3 { next.give(.message(number, bytes("\(number)"))) }
        let messages = supervisor.messages
        #expect(try runtime.run { await messages.prefix(3).reduce("") { $0 + $1.string } } == "123")
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A session over a connection that loses messages is read while its buffer is full",
        arguments: [true, false]
    )
    func lossySession(isHere: Bool) throws {
        let script = Script(.datagrams, at: isHere ? runtime : nil)
        let setup = try script.setup {
            $0.delivery.mode = .session
            $0.messageBuffer = 2
        }
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        let sending = runtime.begin { await supervisor.send(bytes("sent")) }
        for number: UInt64 in 1...4 { connection.give(.message(number, bytes("\(number)"))) }
        connection.give(.acknowledge(1))
        runtime.settle()
        #expect(sending.value == .acknowledged && connection.unread == 0)
        #expect(connection.frames.last == .acknowledge(2))
        let messages = supervisor.messages
        let count = connection.sent.count
        #expect(try runtime.run { await messages.prefix(2).reduce("") { $0 + $1.string } } == "12")
        runtime.settle()
        #expect(connection.frames.dropFirst(count) == [.acknowledge(2)])
        for number: UInt64 in 3...4 { connection.give(.message(number, bytes("\(number)"))) }
        #expect(try runtime.run { await messages.prefix(2).reduce("") { $0 + $1.string } } == "34")
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor stops reading a connection when the buffer of a listener is full", arguments: [true, false])
    func untaken(isHere: Bool) throws {
        let script = Script(at: isHere ? runtime : nil)
        let supervisor = try Supervisor(script.setup { $0.messageBufferBytes = 1 << 20 }, on: runtime)
        supervisor.connect()
        runtime.settle()
        let messages = supervisor.messages
        for number in 0..<100 as Range<UInt64> { script.last?.give(message(number)) }
        runtime.settle()
        #expect(script.last?.unread == 84)
        #expect(try runtime.run { await messages.prefix(100).reduce(0) { count, _ in count + 1 } } == 100)
        #expect(script.last?.unread == 0)
        try runtime.run { await supervisor.close() }
    }
}
