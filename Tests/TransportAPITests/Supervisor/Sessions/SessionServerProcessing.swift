import TestSupport
import Testing
import TransportAPI

// Tests of apps that acknowledge messages after they have processed them.
extension SessionServerTests {
    /// Returns the next deliveries of a session.
    private func take(_ count: Int, from deliveries: Subscription<ReceivedMessage>) throws -> [ReceivedMessage] {
        try runtime.run { await deliveries.prefix(count).reduce(into: []) { $0.append($1) } }
    }

    private func acknowledge(_ message: ReceivedMessage) {
        message.acknowledge()
        runtime.settle()
    }

    private func acknowledgements(_ connection: ScriptedConnection) -> [UInt64] {
        connection.frames.compactMap { if case .acknowledge(let number) = $0 { number } else { nil } }
    }

    private func give(_ numbers: ClosedRange<UInt64>, over connection: ScriptedConnection) {
        for number in numbers { connection.give(.message(number, bytes("\(number)"))) }
        runtime.settle()
    }

    @Test("A session server acknowledges the messages that the app has acknowledged, in the order of receipt")
    func processed() throws {
        _ = server()
        let connection = client(ann)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        give(1...4, over: connection)
        let messages = try take(4, from: deliveries)
        #expect(messages.map(\.payload.string) == ["1", "2", "3", "4"])
        #expect(acknowledgements(connection).isEmpty)
        acknowledge(messages[1])
        acknowledge(messages[1])
        #expect(acknowledgements(connection).isEmpty)
        acknowledge(messages[0])
        #expect(acknowledgements(connection) == [2])
        acknowledge(messages[3])
        acknowledge(messages[2])
        #expect(acknowledgements(connection) == [2, 4])
    }

    @Test("A message that the app still holds is not delivered again, and is acknowledged over the next connection")
    func inHand() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        give(1...2, over: first)
        let messages = try take(2, from: deliveries)
        acknowledge(messages[0])
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: incarnation)
        #expect(second.frames.first == .scriptedWelcome(incarnation: incarnation, received: 1))
        give(2...3, over: second)
        acknowledge(messages[1])
        #expect(acknowledgements(second).last == 2)
        #expect(try take(1, from: deliveries).map(\.payload.string) == ["3"])
    }

    @Test("A message that the app releases unacknowledged is delivered again over the next connection")
    func abandoned() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        give(1...3, over: first)
        do {
            let messages = try take(3, from: deliveries)
            acknowledge(messages[1])
        }
        runtime.settle()
        #expect(acknowledgements(first).isEmpty)
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: incarnation)
        #expect(second.frames.first == .scriptedWelcome(incarnation: incarnation, received: 0))
        give(1...3, over: second)
        let again = try take(2, from: deliveries)
        #expect(again.map(\.payload.string) == ["1", "3"])
        for message in again { acknowledge(message) }
        #expect(acknowledgements(second).last == 3)
    }

    @Test("The next listener receives the messages that the last one did not take")
    func untaken() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        do {
            let deliveries = session.deliveries
            runtime.settle()
            give(1...3, over: connection)
            acknowledge(try #require(try take(1, from: deliveries).first))
        }
        runtime.settle()
        let rest = try take(2, from: session.deliveries)
        #expect(rest.map(\.payload.string) == ["2", "3"])
        for message in rest { acknowledge(message) }
        #expect(acknowledgements(connection).last == 3)
    }

    @Test("A session server stops reading at its limit of unacknowledged messages")
    func bounded() throws {
        _ = server {
            $0.supervisor.messageBuffer = 4
            $0.supervisor.messageBufferBytes = 64 << 10
        }
        let connection = client(ann)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        for number in 1...40 as ClosedRange<UInt64> {
            connection.give(.message(number, Payload([UInt8](repeating: 1, count: 8 << 10))))
        }
        runtime.settle()
        // The limit is twice the bytes that the buffer holds.
        #expect(connection.unread == 24)
        for _ in 1...40 { for message in try take(1, from: deliveries) { acknowledge(message) } }
        #expect(connection.unread == 0 && acknowledgements(connection).last == 40)
    }

    @Test("Messages also go to `messages`, which has no part in their acknowledgement")
    func both() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        let (messages, deliveries) = (session.messages, session.deliveries)
        runtime.settle()
        give(1...2, over: connection)
        #expect(try runtime.run { await messages.prefix(2).reduce("") { $0 + $1.string } } == "12")
        #expect(acknowledgements(connection).isEmpty)
        for message in try take(2, from: deliveries) { acknowledge(message) }
        #expect(acknowledgements(connection).last == 2)
    }

    @Test("Cancelling a task that waits for a delivery loses no delivery")
    func cancelledWait() throws {
        _ = server()
        let connection = client(ann)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        let waiting = runtime.begin { await deliveries.first { _ in true } }
        waiting.cancel()
        runtime.settle()
        #expect(waiting.value != nil && waiting.value??.payload == nil)
        // The cancellation comes at the same moment as a message. The message goes to this task or to the next one.
        let late = runtime.begin { await deliveries.first { _ in true } }
        connection.give(.message(1, bytes("1")))
        connection.give(.message(2, bytes("2")))
        late.cancel()
        runtime.settle()
        let first = late.value ?? nil
        let messages = (first.map { [$0] } ?? []) + (try take(first == nil ? 2 : 1, from: deliveries))
        #expect(messages.map(\.payload.string) == ["1", "2"])
        for message in messages { acknowledge(message) }
        #expect(acknowledgements(connection).last == 2)
    }

    @Test("A session reports an unacknowledged or released message every 30 s")
    func neverAcknowledged() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        let (deliveries, events) = (session.deliveries, session.events)
        runtime.settle()
        give(1...64, over: connection)
        var held: [ReceivedMessage] = try take(64, from: deliveries)
        runtime.advance(by: .seconds(45))
        held = []
        runtime.advance(by: .seconds(20))
        let reports = try runtime.run { await events.prefix(2).reduce(into: []) { $0.append($1) } }
            .compactMap { if case .unacknowledged(let messages) = $0 { messages } else { nil } }
        #expect(reports.map(\.count) == [64, 64] && reports.map(\.isAbandoned) == [false, true])
        #expect(reports.map(\.oldest) == [.seconds(30), .seconds(60)])
        #expect(acknowledgements(connection).isEmpty && !connection.hasEnded)
        _ = consume held
    }

    @Test("A closed session still delivers received messages, and acknowledging them has no effect")
    func closed() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        let deliveries = session.deliveries
        runtime.settle()
        give(1...3, over: connection)
        let first = try take(1, from: deliveries)
        try runtime.run { await session.close() }
        let rest = try runtime.run { await deliveries.reduce(into: [ReceivedMessage]()) { $0.append($1) } }
        #expect(rest.map(\.payload.string) == ["2", "3"])
        let frames = connection.frames
        for message in first + rest + first { acknowledge(message) }
        #expect(connection.frames == frames && acknowledgements(connection).isEmpty)
    }

    @Test("The next welcome acknowledges the messages that the app acknowledged without a connection")
    func withoutConnection() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        give(1...3, over: first)
        let messages = try take(3, from: deliveries)
        first.end(CloseReason(.network))
        runtime.settle()
        for message in [messages[1], messages[0], messages[0]] { acknowledge(message) }
        let second = client(ann, incarnation: incarnation)
        #expect(second.frames == [.scriptedWelcome(incarnation: incarnation, received: 2)])
        give(3...3, over: second)
        acknowledge(messages[2])
        #expect(acknowledgements(second).last == 3)
    }

    @Test("A client that restarts continues its session, and its unacknowledged messages come again, once")
    func restartedClient() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        let session = try #require(sessions.all.first)
        let sends = (1...3).map { number in runtime.begin { await session.send(bytes("\(number)")) } }
        give(1...1, over: first)
        first.give(.acknowledge(1))
        runtime.settle()
        first.end(CloseReason(.network))
        runtime.settle()
        let connection = listener.connect()
        connection.give(.hello(ann, ClientHello(incarnation: 0, received: 0, attempt: 1 << 16 | 1)))
        runtime.settle()
        let next = try #require(connection.incarnation)
        #expect(next != incarnation && sessions.all.count == 1)
        #expect(connection.messages == ["2", "3"])
        connection.give(.message(1, bytes("new")))
        connection.give(.acknowledge(3))
        runtime.settle()
        #expect(sends.map(\.value) == [.acknowledged, .acknowledged, .acknowledged])
        #expect(try received(session, 2) == ["1", "new"])
        // A late connection of the former process is refused.
        let late = listener.connect()
        late.give(.hello(ann, ClientHello(incarnation: 0, received: 0, attempt: 9)))
        runtime.settle()
        #expect(late.hasEnded && !connection.hasEnded)
    }
}
