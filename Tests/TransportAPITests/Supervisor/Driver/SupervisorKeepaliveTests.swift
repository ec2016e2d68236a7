import TestSupport
import Testing
import TransportAPI

/// Tests how a supervisor detects a dead connection, with time under the test's control.
@Suite("A supervisor's keepalive", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorKeepaliveTests {
    private let runtime = VirtualRuntime()

    private func keepalive(_ configuration: inout SupervisorConfiguration) {
        configuration.keepalive.interval = .seconds(30)
        configuration.keepalive.timeout = .seconds(10)
    }

    @Test("A supervisor pings a silent connection and keeps it while the peer answers")
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
        "A supervisor pings after the keepalive interval of the transport, unless another interval is configured",
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

    @Test("A supervisor closes a connection that does not answer and connects again")
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
            recorder.events.contains {
                if case .connectionEnded(_, let why) = $0 { why.initiator == .keepalive } else { false }
            }
        )
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor smooths the round-trip times that it measures")
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
        // RFC 6298, section 2.3: the estimate is 7/8 of the old estimate plus 1/8 of the new sample.
        #expect(try runtime.run { await supervisor.roundTripTime() } == .milliseconds(90))
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor sends the configured payload as its probe and does not deliver the answer")
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
        // This probe has no answer.
        runtime.advance(by: .seconds(60))
        #expect(script.connections.count >= 2)
        try runtime.run { await supervisor.close() }
        #expect(try runtime.run { await messages.first { _ in true } } == nil)
    }

    @Test("A supervisor expects no answer to a payload that is configured without one")
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

    @Test("A supervisor keeps a connection whose messages the app does not take for hours")
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
        // The app takes messages again, so the supervisor detects the silence.
        runtime.advance(by: .seconds(42))
        #expect(script.connections.count == 2)
        try runtime.run { await supervisor.close() }
    }
}
