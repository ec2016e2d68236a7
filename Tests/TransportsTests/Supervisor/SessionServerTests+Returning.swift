import Testing
import TransportAPI

// Clients that were with another server in the meantime, and apps that answer while they read.
extension SessionServerTests {
    @Test("begins anew with a client that has been with another server, which counts from one again")
    func elsewhere() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        for number in 1...3 { first.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        let former = try #require(sessions.all.first)
        let pending = runtime.begin { await former.send(bytes("for the former")) }
        first.end(CloseReason(.network))
        runtime.settle()

        let second = client(ann, incarnation: incarnation ^ 1)
        #expect(second.frames.first == .welcome(incarnation: try #require(second.incarnation), received: 0))
        #expect(second.incarnation != incarnation)
        second.give(.message(1, bytes("anew")))
        runtime.settle()
        #expect(second.frames.last == .acknowledge(1))
        #expect(sessions.all.count == 2)
        #expect(try received(sessions.all.last, 1) == ["anew"])
        #expect(try runtime.run { await former.messages.reduce(into: []) { $0.append($1.string) } } == ["1", "2", "3"])
        guard case .unknown? = pending.value else {
            return #expect(Bool(false), "it has ended as \(String(describing: pending.value))")
        }
    }

    @Test("goes on with a session in which nothing has happened, though its welcome was lost")
    func untouched() throws {
        _ = server()
        let first = client(ann, incarnation: 7)
        let incarnation = try #require(first.incarnation)
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: 7)
        #expect(second.incarnation == incarnation && sessions.all.count == 1)
    }

    @Test("begins anew, too, where only what came too early was kept")
    func early() throws {
        _ = server()
        let first = client(ann)
        first.give(.message(2, bytes("early")))
        runtime.settle()
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: 7)
        for number in 1...2 { second.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(try received(sessions.all.last, 2) == ["1", "2"])
    }

    @Test("keeps no more than a window beyond its buffer, however often a client comes again")
    func reconnecting() throws {
        _ = server { $0.supervisor.messageBuffer = 2 }
        var connection = client(ann)
        let incarnation = try #require(connection.incarnation)
        var number: UInt64 = 0
        for _ in 1...1200 {
            number += 1
            connection.give(.message(number, bytes("x")))
            runtime.settle()
            connection.end(CloseReason(.network))
            runtime.settle()
            connection = client(ann, incarnation: incarnation)
            guard case .welcome(_, let received)? = connection.frames.first else { break }
            number = received
        }
        #expect(number <= 2 + 1024 + 1)
    }

    @Test("hears acknowledgements behind more messages than there is room for, and acknowledges those when there is")
    func answering() throws {
        _ = server { $0.supervisor.messageBuffer = 2 }
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        let echo = runtime.begin {
            var outcomes: [SendOutcome] = []
            for await message in session.messages.prefix(20) { outcomes.append(await session.send(message)) }
            return outcomes
        }
        for number in 1...20 { connection.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        // One is being answered, two wait; what comes then is kept, and not acknowledged.
        #expect(connection.messages == ["1"])
        #expect(connection.frames.last { if case .acknowledge = $0 { true } else { false } } == .acknowledge(3))
        for number in 1...20 {
            connection.give(.acknowledge(UInt64(number)))
            runtime.settle()
        }
        #expect(echo.value == Array(repeating: .acknowledged, count: 20))
        #expect(connection.messages == (1...20).map(String.init))
        #expect(connection.frames.contains(.acknowledge(20)))
    }

    @Test("ends a session whose client sends more than a window that nobody acknowledges")
    func beyondTheWindow() throws {
        _ = server { $0.supervisor.messageBuffer = 2 }
        let connection = client(ann)
        for number in 1...1025 { connection.give(.message(UInt64(number), bytes("x"))) }
        runtime.settle()
        #expect(!connection.hasEnded)
        for number in 1026...1030 { connection.give(.message(UInt64(number), bytes("x"))) }
        runtime.settle()
        #expect(connection.hasEnded && connection.frames.last == .refused(.broken))
    }
}
