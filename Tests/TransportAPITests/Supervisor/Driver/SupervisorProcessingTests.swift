import TestSupport
import Testing
import TransportAPI

/// A client's app that acknowledges messages after it has processed them.
@Suite("A supervisor whose app acknowledges messages", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorProcessingTests {

    @Test("A supervisor acknowledges processed messages to the session server, also over the next connection")
    func session() throws {
        let runtime = VirtualRuntime()
        let script = Script()
        let supervisor = try Supervisor(script.setup { $0.delivery.mode = .session }, on: runtime)
        let deliveries = supervisor.deliveries
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        for number: UInt64 in 1...3 { connection.give(.message(number, bytes("\(number)"))) }
        runtime.settle()
        let messages = try runtime.run { await deliveries.prefix(3).reduce(into: []) { $0.append($1) } }
        messages[0].acknowledge()
        runtime.settle()
        #expect(connection.frames.last == .acknowledge(1))
        connection.end(CloseReason(.network))
        runtime.advance(by: .seconds(2))
        let next = try #require(script.last)
        guard case .hello(_, let hello)? = next.frames.first, hello.incarnation == 7, hello.received == 1 else {
            Issue.record("sent frames: \(next.frames)")
            return
        }
        next.give(.welcome(incarnation: 7, received: 0))
        runtime.settle()
        for message in messages { message.acknowledge() }
        runtime.settle()
        #expect(next.frames.last == .acknowledge(3))
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor reads again when deliveries are requested after its message buffer was full")
    func lateDeliveries() throws {
        let runtime = VirtualRuntime()
        let script = Script(at: runtime)
        let supervisor = try Supervisor(script.setup { $0.messageBuffer = 4 }, on: runtime)
        supervisor.connect()
        runtime.settle()
        for number in 1...12 { script.last?.give(bytes("\(number)")) }
        runtime.settle()
        #expect(script.last?.unread == 8)
        let deliveries = supervisor.deliveries
        var texts: [String] = []
        for _ in 1...12 {
            let message = try #require(try runtime.run { await deliveries.first { _ in true } })
            texts.append(message.payload.string)
            message.acknowledge()
            runtime.settle()
        }
        #expect(texts == (1...12).map { "\($0)" } && script.last?.unread == 0)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A supervisor reports an unacknowledged message and stops reading at its limit",
        arguments: [true, false]
    )
    func neverAcknowledged(isHere: Bool) throws {
        let runtime = VirtualRuntime()
        let script = Script(at: isHere ? runtime : nil)
        let recorder = Recorder()
        var setup = try script.setup {
            $0.messageBuffer = 4
            $0.delivery.acknowledgementReminder = .seconds(5)
        }
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        let deliveries = supervisor.deliveries
        supervisor.connect()
        runtime.settle()
        for number in 1...12 { script.last?.give(bytes("\(number)")) }
        let messages = try runtime.run { await deliveries.prefix(4).reduce(into: []) { $0.append($1) } }
        #expect(script.last?.unread == 8)
        runtime.advance(by: .seconds(12))
        let reports = recorder.events.compactMap { if case .unacknowledged(let held) = $0 { held } else { nil } }
        #expect(reports.map(\.count) == [4, 4] && reports.map(\.oldest) == [.seconds(5), .seconds(10)])
        for message in messages { message.acknowledge() }
        runtime.settle()
        #expect(script.last?.unread == 4)
        try runtime.run { await supervisor.close() }
    }

    @Test("A closed supervisor still delivers received messages, and acknowledging them has no effect")
    func closed() throws {
        let runtime = VirtualRuntime()
        let script = Script()
        let supervisor = try Supervisor(script.setup { $0.delivery.mode = .session }, on: runtime)
        let deliveries = supervisor.deliveries
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        for number: UInt64 in 1...3 { connection.give(.message(number, bytes("\(number)"))) }
        runtime.settle()
        try runtime.run { await supervisor.close() }
        let frames = connection.frames
        let messages = try runtime.run { await deliveries.reduce(into: [ReceivedMessage]()) { $0.append($1) } }
        #expect(messages.map(\.payload.string) == ["1", "2", "3"])
        for message in messages + messages { message.acknowledge() }
        runtime.settle()
        #expect(connection.frames == frames)
    }

    @Test("A supervisor sends its identity and its number of starts to a session server")
    func identity() throws {
        let runtime = VirtualRuntime()
        let script = Script()
        var setup = try script.setup { $0.delivery.mode = .session }
        setup.client = SessionClient(id: SessionID(high: 3, low: 4), launch: 5)
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        guard case .hello(let id, let hello)? = script.last?.frames.first else {
            Issue.record("sent frames: \(String(describing: script.last?.frames))")
            return
        }
        #expect(id == SessionID(high: 3, low: 4) && hello.incarnation == 0 && hello.received == 0)
        #expect(hello.attempt == 5 << 16 | 1 && hello.limit == (1 << 20) - 9 && hello.numbering.ended == 0)
        try runtime.run { await supervisor.close() }
    }
}
