import SocketIO
import TestSupport
import Testing
import TransportAPI

/// A server of sessions towards clients that a test plays, with time under the test's control.
@Suite("A session server", .timeLimit(.minutes(5)), .ownThread)
struct SessionServerTests {
    let runtime = VirtualRuntime()
    let listener = ScriptedListener()
    let ann = SessionID(high: 1, low: 2)
    private let ben = SessionID(high: 3, low: 4)

    /// What a server hands over.
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

    /// A client connects and says hello.
    func client(
        _ id: SessionID,
        incarnation: UInt64 = 0,
        received: UInt64 = 0,
        from network: UInt64? = nil
    ) -> ScriptedConnection {
        let connection = listener.connect(from: network)
        connection.give(.hello(id, incarnation: incarnation, received: received))
        runtime.settle()
        return connection
    }

    func received(_ session: Session?, _ count: Int) throws -> [String] {
        guard let session else { return [] }
        return try runtime.run { await session.messages.prefix(count).reduce(into: []) { $0.append($1.string) } }
    }

    @Test("goes on with the session of a client that returns: each message once, in order")
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
        #expect(second.frames == [.welcome(incarnation: incarnation, received: 3)])
        for number in [3, 5, 4, 4, 6] { second.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(second.frames.last == .acknowledge(6))
        #expect(sessions.all.count == 1)
        #expect(try received(sessions.all.first, 6) == ["1", "2", "3", "4", "5", "6"])
    }

    @Test("keeps messages to a client that is away, and sends what it has not acknowledged again")
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

    @Test("closes the former connection of a client that comes with another one")
    func takesOver() throws {
        _ = server()
        let first = client(ann)
        let second = client(ann, incarnation: try #require(first.incarnation))
        #expect(first.hasEnded && !second.hasEnded)
        #expect(sessions.all.count == 1)
    }

    @Test("forgets a session whose client does not return in time")
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

    @Test("takes no more clients than it may have")
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

    @Test("hangs up on a connection that says nothing")
    func helloTimeout() throws {
        _ = server { $0.helloTimeout = .seconds(10) }
        let silent = listener.connect()
        let honest = client(ann)
        runtime.advance(by: .seconds(11))
        #expect(silent.hasEnded && !honest.hasEnded)
        #expect(runtime.timerCount == 0)
    }

    @Test(
        "refuses a first frame that is no hello",
        arguments: [[], [1], [99, 1, 2], [4, 0, 0], [1, 77] + [UInt8](repeating: 0, count: 32)]
    )
    func garbage(frame: [UInt8]) throws {
        _ = server()
        let connection = listener.connect()
        connection.give(Payload(frame))
        runtime.settle()
        #expect(connection.hasEnded)
        if case .refused = connection.frames.first {} else { Issue.record("it got \(connection.frames)") }
        #expect(sessions.all.isEmpty)
    }

    @Test("ends the session of a client that says goodbye")
    func bye() throws {
        _ = server()
        let connection = client(ann)
        let session = try #require(sessions.all.first)
        connection.give(.message(1, bytes("last words")))
        connection.give(.bye)
        runtime.settle()
        #expect(connection.hasEnded)
        #expect(try runtime.run { await session.messages.reduce(into: []) { $0.append($1.string) } } == ["last words"])
        #expect(try runtime.run { await session.send(bytes("late")) }.isSuccess == false)
    }

    @Test("ends all sessions when it closes, and takes no further client")
    func closes() throws {
        let server = server()
        let connection = client(ann)
        let newcomer = listener.connect()
        runtime.settle()
        let session = try #require(sessions.all.first)
        try runtime.run { await server.close() }
        runtime.settle()
        #expect(connection.frames.last == .bye)
        #expect(connection.hasEnded && newcomer.hasEnded)
        #expect(try runtime.run { await session.messages.first { _ in true } } == nil)
        #expect(client(ben).hasEnded)
        #expect(runtime.timerCount == 0)
    }

    @Test("leaves nothing behind of a session that has ended")
    func letGo() throws {
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

    @Test("lets go of a client in plain style that answers no ping, and turns those away that are too many")
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

    @Test("ends the connection of a client that sends and does not read, before too much is waiting for it")
    func doesNotRead() throws {
        _ = server()
        let connection = client(ann)
        connection.block(true)
        for _ in 0..<10_000 { connection.give(.ping(1)) }
        runtime.settle()
        #expect(connection.hasEnded)
    }
}
