import Testing
import TransportAPI

// Clients that make a server of sessions keep what they send.
extension SessionServerTests {
    private func large(_ number: UInt64) -> SessionFrame {
        .message(number, Payload([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64 << 10)))
    }

    @Test(
        "ends the connection, and not the session, of a client that sends more before its turn than the message buffer holds"
    )
    func earlyBytes() throws {
        _ = server { $0.supervisor.messageBufferBytes = 1 << 20 }
        let connection = client(ann)
        let incarnation = try #require(connection.incarnation)
        var number: UInt64 = 1
        while number < 1000, !connection.hasEnded {
            number += 1
            connection.give(large(number))
            runtime.settle()
        }
        #expect(number == 17 && connection.reason?.error?.code == .resourcesExhausted)
        #expect(!connection.frames.contains(.refused(.broken)))

        let next = client(ann, incarnation: incarnation)
        #expect(next.frames.first == .welcome(incarnation: incarnation, received: 0))
        for number in 1...3 { next.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(try received(sessions.all.first, 3) == ["1", "2", "3"])
    }

    @Test("stops reading a client whose messages nobody takes, at twice the bytes that the message buffer holds")
    func untakenBytes() throws {
        _ = server { $0.supervisor.messageBufferBytes = 1 << 20 }
        let connection = client(ann)
        for number in 1...200 { connection.give(large(UInt64(number))) }
        runtime.settle()
        #expect(connection.unread > 160 && !connection.hasEnded)
        #expect(connection.frames.last { if case .acknowledge = $0 { true } else { false } } == .acknowledge(16))
        let session = try #require(sessions.all.first)
        #expect(try runtime.run { await session.messages.prefix(200).reduce(0) { count, _ in count + 1 } } == 200)
        #expect(connection.unread == 0)
    }

    @Test("counts what the app has taken and not acknowledged towards what all sessions may keep")
    func unacknowledgedBytes() throws {
        _ = server { $0.maximumBuffered = 1 << 20 }
        let connection = client(ann)
        let deliveries = try #require(sessions.all.first).deliveries
        runtime.settle()
        for number in 1...12 { connection.give(large(UInt64(number))) }
        let held = try runtime.run { await deliveries.prefix(12).reduce(into: [ReceivedMessage]()) { $0.append($1) } }
        #expect(held.count == 12 && !connection.hasEnded)
        for number in 13...20 { connection.give(large(UInt64(number))) }
        runtime.settle()
        #expect(connection.hasEnded)
        #expect(try runtime.run { await deliveries.first { _ in true } }?.payload == nil)
    }

    @Test("ends the session for which it keeps most once all together pass their limit, and no other")
    func total() throws {
        _ = server { $0.maximumBuffered = 1 << 20 }
        let (most, less) = (client(ann), client(SessionID(high: 3, low: 4)))
        // What the app has for a client counts as well.
        let lesser = try #require(sessions.all.last)
        let send = runtime.begin { await lesser.send(Payload([UInt8](repeating: 1, count: 200_000))) }
        for number in 1...20 { most.give(large(UInt64(number))) }
        runtime.settle()
        #expect(most.hasEnded && !less.hasEnded && send.value == nil)
        let ended = try #require(sessions.all.first)
        #expect(try runtime.run { await ended.messages.first { _ in true } } == nil)
        #expect(try runtime.run { await ended.send(bytes("late")) }.isSuccess == false)
        // The room is free again.
        let third = client(SessionID(high: 5, low: 6))
        for number in 1...8 { third.give(large(UInt64(number))) }
        runtime.settle()
        #expect(!third.hasEnded && !less.hasEnded)
    }

    @Test("lets callers wait for room in a session's outbox with as many bytes as it holds, and no more")
    func waitingBytes() throws {
        _ = server { $0.supervisor.outbox.maximumBytes = 1000 }
        _ = client(ann)
        let session = try #require(sessions.all.first)
        let sends = (0..<4).map { _ in
            runtime.begin { await session.send(Payload([UInt8](repeating: 1, count: 600))) }
        }
        #expect(sends.map { $0.value == nil } == [true, true, false, false])
        guard case .rejected(let error)? = sends[2].value else {
            return #expect(Bool(false), "it has ended as \(String(describing: sends[2].value))")
        }
        #expect(error.code == .bufferFull)
    }
}
