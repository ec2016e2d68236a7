import TestSupport
import Testing
import TransportAPI

/// Tests a supervisor in session mode. The test plays the server, and time is under its control.
@Suite("A supervisor's session", .timeLimit(.minutes(5)), .ownThread)
struct SessionClientTests {
    private let runtime = VirtualRuntime()
    private let script = Script()
    private let recorder = Recorder()

    private func supervisor(
        over script: Script? = nil,
        _ change: (inout SupervisorConfiguration) -> Void = { _ in }
    ) throws -> Supervisor {
        let script = script ?? self.script
        var setup = try script.setup {
            $0.delivery.mode = .session
            change(&$0)
        }
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.settle()
        return supervisor
    }

    private func welcome(_ incarnation: UInt64, received: UInt64 = 0) {
        script.last?.give(.welcome(incarnation: incarnation, received: received))
        runtime.settle()
    }

    private func breakConnection() {
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(2))
    }

    @Test("A supervisor sends hello first, and acknowledgements complete its messages")
    func acknowledged() throws {
        let supervisor = try supervisor()
        let sends = (1...3).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        #expect(script.last?.frames.count == 1)
        welcome(7)
        #expect(script.last?.messages == ["1", "2", "3"])
        script.last?.give(.acknowledge(2))
        runtime.settle()
        #expect(sends.map(\.value) == [.acknowledged, .acknowledged, nil])
        script.last?.give(.acknowledge(3))
        runtime.settle()
        #expect(sends[2].value == .acknowledged)
        try runtime.run { await supervisor.close() }
        #expect(script.last?.frames.last == .bye)
    }

    @Test("A supervisor sends only the unacknowledged messages again")
    func resumed() throws {
        let supervisor = try supervisor()
        welcome(7)
        let sends = (1...3).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        breakConnection()
        guard case .hello(_, let hello) = script.last?.frames.first, hello.incarnation == 7, hello.received == 0 else {
            Issue.record("sent frames: \(String(describing: script.last?.frames))")
            return
        }
        welcome(7, received: 1)
        #expect(script.last?.messages == ["2", "3"])
        #expect(sends.map(\.value) == [.acknowledged, nil, nil])
        #expect(try runtime.run { await supervisor.state() } == .open(Endpoint("memory://server"), isResumed: true))
        try runtime.run { await supervisor.close() }
        guard case .unknown = sends[1].value else {
            Issue.record("outcome: \(String(describing: sends[1].value))")
            return
        }
    }

    @Test(
        "A supervisor starts a new session with a server that lost the old one, and sends unacknowledged messages again"
    )
    func lost() throws {
        let supervisor = try supervisor()
        welcome(7)
        let sends = (1...3).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        script.last?.give(.acknowledge(1))
        breakConnection()
        welcome(8)
        #expect(recorder.events.contains(.sessionLost))
        let again = (2...3).map { SessionFrame.message($0, bytes("\($0)"), isRepeated: true) }
        #expect(script.last.map { Array($0.frames.dropFirst()) } == again)
        script.last?.give(.acknowledge(3))
        runtime.settle()
        #expect(sends.allSatisfy { $0.value == .acknowledged })
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor delivers each message once and in order over several connections")
    func receives() throws {
        let supervisor = try supervisor()
        let messages = supervisor.messages
        welcome(7)
        for number in [1, 3, 2, 2] { script.last?.give(.message(UInt64(number), bytes("\(number)"))) }
        breakConnection()
        guard case .hello(_, let hello) = script.last?.frames.first, hello.incarnation == 7, hello.received == 3 else {
            Issue.record("sent frames: \(String(describing: script.last?.frames))")
            return
        }
        welcome(7)
        for number in [3, 4] { script.last?.give(.message(UInt64(number), bytes("\(number)"))) }
        runtime.settle()
        #expect(try runtime.run { await messages.prefix(4).reduce("") { $0 + $1.string } } == "1234")
        #expect(recorder.events.contains(.duplicate))
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor retries when the server is full, and limits its wait for the welcome")
    func refused() throws {
        let supervisor = try supervisor { $0.connectTimeout = .seconds(5) }
        script.last?.give(.refused(.full))
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        // The server sends no welcome.
        runtime.advance(by: .seconds(10))
        #expect(script.connections.count == 3)
        #expect(script.connections.dropLast().allSatisfy { $0.hasEnded })
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor answers the server's pings and measures the round trip of its own")
    func pings() throws {
        let supervisor = try supervisor {
            $0.keepalive.interval = .seconds(30)
            $0.keepalive.timeout = .seconds(10)
        }
        welcome(7)
        script.last?.give(.ping(5))
        runtime.advance(by: .seconds(30))
        #expect(script.last?.frames.suffix(2) == [.pong(5), .ping(1)])
        runtime.advance(by: .milliseconds(250))
        script.last?.give(.pong(1))
        runtime.settle()
        #expect(try runtime.run { await supervisor.roundTripTime() } == .milliseconds(250))
        runtime.advance(by: .seconds(42))
        #expect(script.connections.count == 2)
        try runtime.run { await supervisor.close() }
    }

    @Test("Over a connection that loses messages, the oldest one is repeated at least every ten seconds")
    func repeated() throws {
        let script = Script(.datagrams)
        let supervisor = try supervisor(over: script) { $0.keepalive.interval = .off }
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        let sending = runtime.begin { await supervisor.send(bytes("sent")) }
        // The peer's acknowledgements, or all copies, are lost for five minutes.
        for _ in 0..<30 {
            let count = connection.messages.count
            runtime.advance(by: .seconds(10))
            #expect(connection.messages.count > count)
        }
        #expect(connection.messages.count < 40)
        connection.give(.acknowledge(1))
        runtime.settle()
        #expect(sending.value == .acknowledged)
        try runtime.run { await supervisor.close() }
    }

    @Test("The time in which messages wait for the repetition of a lost one is no round trip")
    func waitForRepetition() throws {
        let script = Script(.datagrams)
        let supervisor = try supervisor(over: script) { $0.keepalive.interval = .off }
        let connection = try #require(script.last)
        connection.give(.welcome(incarnation: 7, received: 0))
        let first = runtime.begin { await supervisor.send(bytes("1")) }
        runtime.advance(by: .milliseconds(50))
        connection.give(.acknowledge(1))
        // The second message and its first repetitions are lost. Of the messages after it, only the oldest are repeated.
        let sends = (2...20).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        runtime.advance(by: .seconds(30))
        #expect(connection.messages.count { $0 == "20" } == 1)
        connection.give(.acknowledge(20))
        runtime.settle()
        #expect(first.value == .acknowledged && sends.allSatisfy { $0.value == .acknowledged })
        let last = runtime.begin { await supervisor.send(bytes("21")) }
        runtime.advance(by: .seconds(1))
        #expect(connection.messages.count { $0 == "21" } > 1)
        connection.give(.acknowledge(21))
        runtime.settle()
        #expect(last.value == .acknowledged)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A supervisor closes a connection on an invalid frame and continues with the next connection",
        arguments: [[], [99], [7], [4, 0]]
    )
    func nonsense(frame: [UInt8]) throws {
        let supervisor = try supervisor()
        welcome(7)
        script.last?.give(Payload(frame))
        runtime.advance(by: .seconds(2))
        #expect(script.connections.count == 2)
        #expect(script.connections[0].hasEnded)
        try runtime.run { await supervisor.close() }
    }
}
