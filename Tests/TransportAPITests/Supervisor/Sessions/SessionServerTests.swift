import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Tests a session server. The test plays the clients, and time is under its control.
@Suite("A session server", .timeLimit(.minutes(5)), .ownThread)
struct SessionServerTests {
    let runtime = VirtualRuntime()
    let listener = ScriptedListener()
    let ann = SessionID(high: 1, low: 2)
    private let ben = SessionID(high: 3, low: 4)

    /// The sessions that a server has started.
    final class Sessions: Sendable {
        private let list = Locked<[Session]>([])
        var all: [Session] { list.withLock { $0 } }
        func add(_ session: Session) { list.withLock { $0.append(session) } }
        func forget() { list.withLock { $0 = [] } }
    }

    let sessions = Sessions()

    func server(_ change: (inout SessionServer.Configuration) -> Void = { _ in }) -> SessionServer {
        var configuration = SessionServer.Configuration()
        configuration.supervisor.keepalive.interval = .off
        change(&configuration)
        let server = SessionServer(configuration, onRuntime: runtime) { [sessions] in sessions.add($0) }
        _ = runtime.begin { [listener] in try? await server.serve(listener) }
        return server
    }

    /// Connects a client, which sends hello.
    func client(
        _ id: SessionID,
        incarnation: UInt64 = 0,
        received: UInt64 = 0,
        from network: UInt64? = nil
    ) -> ScriptedConnection {
        let connection = listener.connect(from: network)
        connection.give(.hello(id, ClientHello(incarnation: incarnation, received: received)))
        runtime.settle()
        return connection
    }

    func received(_ session: Session?, _ count: Int) throws -> [String] {
        guard let session else { return [] }
        return try runtime.run { await session.messages.prefix(count).reduce(into: []) { $0.append($1.string) } }
    }

    @Test("A returning client continues its session, and each message arrives once and in order")
    func resumes() throws {
        _ = server()
        let first = client(ann)
        let incarnation = try #require(first.incarnation)
        for number in 1...3 { first.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(first.frames.last == .acknowledge(3))
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: incarnation)
        #expect(second.frames == [.scriptedWelcome(incarnation: incarnation, received: 3)])
        for number in [3, 5, 4, 4, 6] { second.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(second.frames.last == .acknowledge(6))
        #expect(sessions.all.count == 1)
        #expect(try received(sessions.all.first, 6) == ["1", "2", "3", "4", "5", "6"])
    }

    @Test("A session keeps messages for an absent client and sends the unacknowledged ones again")
    func toTheClient() throws {
        _ = server()
        let first = client(ann)
        let session = try #require(sessions.all.first)
        let incarnation = try #require(first.incarnation)
        let sends = (1...3).map { number in runtime.begin { await session.send(bytes("\(number)")) } }
        first.give(.acknowledge(1))
        runtime.settle()
        #expect(sends.map(\.value) == [.acknowledged, nil, nil])
        first.end(CloseReason(.network))
        runtime.settle()
        let fourth = runtime.begin { await session.send(bytes("4")) }
        let second = client(ann, incarnation: incarnation, received: 2)
        #expect(second.messages == ["3", "4"])
        #expect(sends[1].value == .acknowledged)
        second.give(.acknowledge(4))
        runtime.settle()
        #expect(sends[2].value == .acknowledged && fourth.value == .acknowledged)
    }

    @Test("A session server closes the former connection of a client that opens another one")
    func takesOver() throws {
        _ = server()
        let first = client(ann)
        let second = client(ann, incarnation: try #require(first.incarnation))
        #expect(first.hasEnded && !second.hasEnded)
        #expect(sessions.all.count == 1)
    }

    @Test("A session server discards a session whose client does not return in time")
    func lifetime() throws {
        _ = server { $0.sessionLifetime = .seconds(600) }
        let first = client(ann)
        let session = try #require(sessions.all.first)
        let send = runtime.begin { await session.send(bytes("never taken")) }
        first.end(CloseReason(.network))
        runtime.advance(by: .seconds(599))
        #expect(send.value == nil)
        runtime.advance(by: .seconds(2))
        #expect(send.value?.isSuccess == false)
        #expect(try runtime.run { await session.messages.first { _ in true } } == nil)
        let second = client(ann, incarnation: try #require(first.incarnation))
        #expect(second.incarnation != first.incarnation)
        #expect(sessions.all.count == 2)
    }

    @Test("A session server accepts no more clients than its limit")
    func maximumSessions() throws {
        _ = server { $0.maximumSessions = 1 }
        let first = client(ann)
        let second = client(ben)
        #expect(second.frames == [.refused(.full)])
        #expect(second.hasEnded && !first.hasEnded)
        first.give(.bye)
        runtime.settle()
        #expect(client(ben).incarnation != nil)
    }

    @Test("A session server closes a connection that sends no hello")
    func helloTimeout() throws {
        _ = server { $0.helloTimeout = .seconds(10) }
        let silent = listener.connect()
        let legitimate = client(ann)
        runtime.advance(by: .seconds(11))
        #expect(silent.hasEnded && !legitimate.hasEnded)
        #expect(runtime.timerCount == 0)
    }

    @Test(
        "A session server refuses a first frame that is not a hello",
        arguments: [[], [1], [99, 1, 2], [4, 0, 0], [1, 77] + [UInt8](repeating: 0, count: 32)]
    )
    func garbage(frame: [UInt8]) throws {
        _ = server()
        let connection = listener.connect()
        connection.give(Payload(frame))
        runtime.settle()
        #expect(connection.hasEnded)
        if case .refused = connection.frames.first {} else { Issue.record("sent frames: \(connection.frames)") }
        #expect(sessions.all.isEmpty)
    }

    @Test("A bye frame of the client ends its session")
    func bye() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        connection.give(.message(1, bytes("last message")))
        connection.give(.bye)
        runtime.settle()
        #expect(connection.hasEnded)
        #expect(
            try runtime.run { await session.messages.reduce(into: []) { $0.append($1.string) } } == ["last message"]
        )
        #expect(try runtime.run { await session.send(bytes("late")) }.isSuccess == false)
    }

    @Test("A closed session server ends all sessions and accepts no client")
    func closes() throws {
        let server = server()
        let connection = client(ann)
        let second = listener.connect()
        runtime.settle()
        let session = try #require(sessions.all.first)
        try runtime.run { await server.close() }
        runtime.settle()
        #expect(connection.frames.last == .bye)
        #expect(connection.hasEnded && second.hasEnded)
        #expect(try runtime.run { await session.messages.first { _ in true } } == nil)
        #expect(client(ben).hasEnded)
        #expect(runtime.timerCount == 0)
    }

    @Test("A session server releases everything of a session that has ended")
    func released() throws {
        _ = server()
        weak var connection: ScriptedConnection?
        weak var session: Session?
        do {
            let client = client(ann)
            let kept = try #require(sessions.all.first)
            _ = runtime.begin { await kept.send(bytes("unacknowledged")) }
            (connection, session) = (client, kept)
            try runtime.run { await kept.close() }
        }
        sessions.forget()
        runtime.settle()
        #expect(connection == nil && session == nil)
        #expect(runtime.timerCount == 0)
    }

    @Test("A plain session server closes a client that answers no ping, and refuses clients beyond its limit")
    func plain() throws {
        _ = server {
            $0.supervisor.delivery.mode = .plain
            $0.supervisor.keepalive.interval = .seconds(30)
            $0.maximumSessions = 1
        }
        let connection = listener.connect()
        connection.answerPings(.milliseconds(5))
        runtime.advance(by: .seconds(65))
        #expect(connection.pings == 2)
        let other = listener.connect()
        runtime.settle()
        #expect(other.hasEnded && other.sent.isEmpty && !connection.hasEnded)
        let session = try #require(sessions.all.first)
        #expect(try runtime.run { await session.send(bytes("hello")) } == .written)
        connection.answerPings(nil)
        runtime.advance(by: .seconds(65))
        #expect(connection.hasEnded)
        #expect(try runtime.run { await session.messages.first { _ in true } } == nil)
    }

    @Test("A session server closes a client that sends and does not read, before too much is queued for it")
    func doesNotRead() throws {
        _ = server()
        let connection = client(ann)
        connection.block(true)
        for _ in 0..<10_000 { connection.give(.ping(1)) }
        runtime.settle()
        #expect(connection.hasEnded)
    }
}

// Keepalive.
extension SessionServerTests {
    @Test("A session server closes a connection without pongs, and the client's next connection continues the session")
    func keepalive() throws {
        _ = server {
            $0.supervisor.keepalive.interval = .seconds(30)
            $0.supervisor.keepalive.timeout = .seconds(10)
        }
        let first = client(ann)
        runtime.advance(by: .seconds(31))
        #expect(first.frames.last == .ping(1))
        first.give(.pong(1))
        runtime.advance(by: .seconds(30))
        #expect(!first.hasEnded)
        runtime.advance(by: .seconds(42))
        #expect(first.hasEnded)
        #expect(client(ann, incarnation: try #require(first.incarnation)).incarnation == first.incarnation)
    }

    @Test("A session server pings after the keepalive interval of the transport, unless another interval is configured")
    func transportsInterval() throws {
        _ = server { $0.supervisor.keepalive.interval = .automatic }
        let connection = client(ann)
        // The interval of a connection is 60 s unless its transport sets another one.
        runtime.advance(by: .seconds(59))
        #expect(connection.frames.last != .ping(1))
        runtime.advance(by: .seconds(2))
        #expect(connection.frames.last == .ping(1))
    }

    @Test("A session server keeps a client whose messages the app does not take")
    func slowConsumer() throws {
        _ = server {
            $0.supervisor.keepalive.interval = .seconds(30)
            $0.supervisor.keepalive.timeout = .seconds(10)
            $0.supervisor.messageBuffer = 4
        }
        let connection = client(ann)
        for number in 1...20 { connection.give(.message(UInt64(number), bytes("\(number)"))) }
        for number in 1...20 as ClosedRange<UInt32> {
            runtime.advance(by: .seconds(31))
            connection.give(.pong(number))
        }
        runtime.settle()
        #expect(!connection.hasEnded)
        #expect(try received(sessions.all.first, 20) == (1...20).map(String.init))
    }
}

// Clients that were connected to another server in between, and apps that answer while they read.
extension SessionServerTests {
    @Test("A client that returns from another server gets a new session")
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
        #expect(second.frames.first == .scriptedWelcome(incarnation: try #require(second.incarnation), received: 0))
        #expect(second.incarnation != incarnation)
        second.give(.message(1, bytes("new")))
        runtime.settle()
        #expect(second.frames.last == .acknowledge(1))
        #expect(sessions.all.count == 2)
        #expect(try received(sessions.all.last, 1) == ["new"])
        #expect(try runtime.run { await former.messages.reduce(into: []) { $0.append($1.string) } } == ["1", "2", "3"])
        guard case .unknown? = pending.value else {
            Issue.record("outcome: \(String(describing: pending.value))")
            return
        }
    }

    @Test("A client whose welcome was lost continues its unused session")
    func untouched() throws {
        _ = server()
        let first = client(ann, incarnation: 7)
        let incarnation = try #require(first.incarnation)
        first.end(CloseReason(.network))
        runtime.settle()
        let second = client(ann, incarnation: 7)
        #expect(second.incarnation == incarnation && sessions.all.count == 1)
    }

    @Test("A client starts a new session if the old one has only early messages")
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

    @Test("A session keeps at most one window beyond its buffer, however often the client reconnects")
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
            guard case .welcome(_, let received, _, _)? = connection.frames.first else {
                Issue.record("after message \(number): \(connection.frames)")
                return
            }
            number = received
        }
        #expect(number <= 2 + 1024 + 1)
        #expect(number >= 1024)
    }

    @Test("A session processes acknowledgements that come behind more messages than its buffer holds")
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
        // The app answers one message, and two wait in the buffer. Later ones are kept without acknowledgement.
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

    @Test("A session server ends a session whose client sends more than one unacknowledged window")
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

// Clients that send more than a session server may buffer.
extension SessionServerTests {
    private func large(_ number: UInt64) -> SessionFrame {
        .message(number, Payload([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64 << 10)))
    }

    @Test(
        "A client that sends too many early messages loses its connection and keeps its session"
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
        #expect(next.frames.first == .scriptedWelcome(incarnation: incarnation, received: 0))
        for number in 1...3 { next.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(try received(sessions.all.first, 3) == ["1", "2", "3"])
    }

    @Test("A session server stops reading a client at twice the bytes of its buffer if the app takes nothing")
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

    @Test("Messages that the app has taken and not acknowledged count towards the limit of all sessions")
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

    @Test("When all sessions together exceed their limit, the session that keeps most ends and no other")
    func total() throws {
        _ = server { $0.maximumBuffered = 1 << 20 }
        let (most, less) = (client(ann), client(SessionID(high: 3, low: 4)))
        // Messages from the app to a client count too.
        let lesser = try #require(sessions.all.last)
        let send = runtime.begin { await lesser.send(Payload([UInt8](repeating: 1, count: 200_000))) }
        for number in 1...20 { most.give(large(UInt64(number))) }
        runtime.settle()
        #expect(most.hasEnded && !less.hasEnded && send.value == nil)
        let ended = try #require(sessions.all.first)
        #expect(try runtime.run { await ended.messages.first { _ in true } } == nil)
        #expect(try runtime.run { await ended.send(bytes("late")) }.isSuccess == false)
        // The memory of the ended session is free again.
        let third = client(SessionID(high: 5, low: 6))
        for number in 1...8 { third.give(large(UInt64(number))) }
        runtime.settle()
        #expect(!third.hasEnded && !less.hasEnded)
    }

    @Test("Waiting senders may hold as many bytes as the outbox, and further senders are rejected")
    func waitingBytes() throws {
        _ = server { $0.supervisor.outbox.maximumBytes = 1000 }
        _ = client(ann)
        let session = try #require(sessions.all.first)
        let sends = (0..<4).map { _ in
            runtime.begin { await session.send(Payload([UInt8](repeating: 1, count: 600))) }
        }
        #expect(sends.map { $0.value == nil } == [true, true, false, false])
        guard case .rejected(let error)? = sends[2].value else {
            Issue.record("outcome: \(String(describing: sends[2].value))")
            return
        }
        #expect(error.code == .bufferFull)
    }
}

// Clients that occupy all sessions of a server.
extension SessionServerTests {
    private func id(_ number: Int) -> SessionID { SessionID(high: UInt64(number), low: 99) }

    /// Connects a client that sends hello and disconnects.
    private func leaveUnused(_ number: Int, from network: UInt64? = nil) {
        client(id(number), from: network).end(CloseReason(.network))
        runtime.settle()
    }

    /// Connects a client that sends a message and disconnects. Returns the incarnation of its session.
    private func use(_ number: Int, from network: UInt64? = nil) throws -> UInt64 {
        let connection = client(id(number), from: network)
        connection.give(.message(1, bytes("hello")))
        runtime.settle()
        connection.end(CloseReason(.network))
        runtime.settle()
        return try #require(connection.incarnation)
    }

    private func isKept(_ number: Int, _ incarnation: UInt64) -> Bool {
        let connection = client(id(number), incarnation: incarnation)
        defer {
            connection.end(CloseReason(.network))
            runtime.settle()
        }
        return connection.incarnation == incarnation
    }

    @Test("A new client is accepted although one address has left as many sessions as the limit allows")
    func unusedSessions() throws {
        _ = server { $0.maximumSessions = 1000 }
        for number in 0..<2000 { leaveUnused(number, from: 7) }
        let connection = client(ann, from: 8)
        #expect(connection.incarnation != nil && !connection.hasEnded)
        // A new client from the same address is accepted too.
        #expect(client(SessionID(high: 5, low: 5), from: 7).incarnation != nil)
    }

    @Test("Unused sessions end before used ones, and among those the ones that have been absent longest")
    func order() throws {
        _ = server { $0.maximumSessions = 4 }
        let (first, second) = (try use(1), try use(2))
        leaveUnused(3)
        leaveUnused(4)
        for number in 5...6 { _ = client(id(number)) }
        #expect(isKept(1, first) && isKept(2, second))
        // Both were absent since then, the first one for longer.
        _ = client(id(7))
        #expect(isKept(2, second))
        #expect(!isKept(1, first))
    }

    @Test("Sessions of an address with a 64th of all sessions end before all others, even if they were used")
    func crowd() throws {
        _ = server { $0.maximumSessions = 128 }
        leaveUnused(0, from: 1)
        let legitimate = try use(1, from: 2)
        for number in 2..<128 { _ = try use(number, from: 3) }
        for number in 128..<200 { leaveUnused(number, from: UInt64(number)) }
        #expect(isKept(1, legitimate))
    }

    @Test(
        "A new client is accepted although one address holds all sessions with connections that are silent after hello"
    )
    func unusedConnections() throws {
        _ = server { $0.maximumSessions = 100 }
        let connections = (0..<100).map { client(id($0), from: 7) }
        #expect(client(ann, from: 8).incarnation != nil)
        #expect(connections.count { $0.hasEnded } == 1 && connections[1].hasEnded)
    }

    @Test("A used session with a connection does not end to make room, so the new client is refused")
    func inUse() throws {
        _ = server { $0.maximumSessions = 2 }
        for number in 0..<2 {
            let connection = client(id(number), from: 7)
            connection.give(.message(1, bytes("hello")))
            runtime.settle()
        }
        #expect(client(ann, from: 8).frames == [.refused(.full)])
    }

    @Test(
        "At the limit, the oldest connection without a hello ends, first of an address that has many"
    )
    func silentConnections() throws {
        _ = server { $0.maximumUnidentifiedConnections = 64 }
        let legitimate = listener.connect(from: 1)
        let silent = (0..<200).map { _ in listener.connect(from: 7) }
        runtime.settle()
        #expect(silent.count { !$0.hasEnded } == 63 && !legitimate.hasEnded)
        legitimate.give(.hello(ann, ClientHello(incarnation: 0, received: 0)))
        runtime.settle()
        #expect(legitimate.incarnation != nil)
        runtime.advance(by: .seconds(11))
        #expect(silent.allSatisfy { $0.hasEnded })
        #expect(runtime.timerCount == 0)
    }
}
