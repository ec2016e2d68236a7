import TestSupport
import Testing
import TransportAPI

/// How a dead connection is found, with time under the test's control.
@Suite("A supervisor's keepalive", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorKeepaliveTests {
    private let runtime = VirtualRuntime()

    private func keepalive(_ configuration: inout SupervisorConfiguration) {
        configuration.keepalive.interval = .seconds(30)
        configuration.keepalive.timeout = .seconds(10)
    }

    @Test("pings a silent connection, and keeps it while it answers")
    func pings() throws {
        let script = Script()
        let supervisor = try Supervisor(script.setup { keepalive(&$0) }, on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.answerPings(.milliseconds(40))
        runtime.advance(by: .seconds(301))
        #expect(script.last?.pings == 10)
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "asks after the silence that fits the connection's transport, unless it is configured otherwise",
        arguments: [
            (.automatic, 12), (.seconds(60), 5), (.off, 0),
        ] as [(KeepaliveConfiguration.Interval, Int)]
    )
    func transportsInterval(interval: KeepaliveConfiguration.Interval, pings: Int) throws {
        let script = Script(Capabilities(maximumMessageSize: 1 << 20, keepaliveInterval: .seconds(25)))
        let supervisor = try Supervisor(script.setup { $0.keepalive.interval = interval }, on: runtime)
        supervisor.connect()
        runtime.settle()
        script.last?.answerPings(.milliseconds(40))
        runtime.advance(by: .seconds(301))
        #expect(script.last?.pings == pings)
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("gives up a connection that does not answer, and connects anew")
    func dead() throws {
        let script = Script()
        let recorder = Recorder()
        var setup = try script.setup { keepalive(&$0) }
        setup.observer = recorder
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(42))
        #expect(script.connections.count == 2)
        #expect(script.connections[0].reason != nil)
        #expect(
            recorder.notes.contains {
                if case .connectionEnded(_, let why) = $0 { why.initiator == .keepalive } else { false }
            }
        )
        try runtime.run { await supervisor.close() }
    }

    @Test("smooths the round trips that it measures")
    func roundTrip() throws {
        let script = Script()
        let supervisor = try Supervisor(script.setup { keepalive(&$0) }, on: runtime)
        #expect(try runtime.run { await supervisor.roundTripTime() } == nil)
        supervisor.connect()
        runtime.settle()
        script.last?.answerPings(.milliseconds(80))
        runtime.advance(by: .seconds(31))
        #expect(try runtime.run { await supervisor.roundTripTime() } == .milliseconds(80))
        script.last?.answerPings(.milliseconds(160))
        runtime.advance(by: .seconds(30))
        // RFC 6298, section 2.3: 7/8 of what was, 1/8 of what is.
        #expect(try runtime.run { await supervisor.roundTripTime() } == .milliseconds(90))
        try runtime.run { await supervisor.close() }
    }

    @Test("sends the payload that is configured, and does not deliver its answer")
    func payload() throws {
        let script = Script(Capabilities(hasNativePing: false, maximumMessageSize: 1 << 20))
        let setup = try script.setup {
            keepalive(&$0)
            $0.keepalive.probe = .payload(bytes("PING"), answer: bytes("PONG"))
        }
        let supervisor = try Supervisor(setup, on: runtime)
        let messages = supervisor.messages
        supervisor.connect()
        runtime.advance(by: .seconds(31))
        #expect(script.last?.texts == ["PING"])
        script.last?.give(bytes("PONG"))
        script.last?.give(bytes("hello"))
        runtime.advance(by: .seconds(20))
        #expect(script.connections.count == 1)
        #expect(try runtime.run { await messages.first { _ in true } } == bytes("hello"))
        // No answer this time.
        runtime.advance(by: .seconds(60))
        #expect(script.connections.count >= 2)
        try runtime.run { await supervisor.close() }
        #expect(try runtime.run { await messages.first { _ in true } } == nil)
    }

    @Test("expects nothing of a payload without an answer")
    func payloadWithoutAnswer() throws {
        let script = Script(Capabilities(hasNativePing: false, maximumMessageSize: 1 << 20))
        let setup = try script.setup {
            keepalive(&$0)
            $0.keepalive.probe = .payload(bytes("."), answer: nil)
        }
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(301))
        #expect(script.last?.texts == Array(repeating: ".", count: 10))
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("lives with a consumer that takes nothing for hours")
    func slowConsumer() throws {
        let script = Script()
        let supervisor = try Supervisor(
            script.setup {
                keepalive(&$0)
                $0.messageBuffer = 4
            },
            on: runtime
        )
        let messages = supervisor.messages
        supervisor.connect()
        runtime.settle()
        for number in 0..<20 { script.last?.give(bytes("\(number)")) }
        runtime.advance(by: .seconds(7200))
        #expect(script.connections.count == 1)
        #expect(script.last?.unread == 16)
        #expect(try runtime.run { await messages.prefix(20).reduce(into: "") { $0 += $1.string + " " } }.count == 50)
        // It listens again, and so notices the silence.
        runtime.advance(by: .seconds(42))
        #expect(script.connections.count == 2)
        try runtime.run { await supervisor.close() }
    }
}
