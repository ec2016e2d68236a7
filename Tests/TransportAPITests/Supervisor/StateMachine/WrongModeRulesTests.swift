import TestSupport
import Testing

@testable import TransportAPI

@Suite("Supervisors whose server has another delivery mode")
struct WrongModeRulesTests {
    private static let pinging = Capabilities(hasNativePing: true, maximumMessageSize: 1 << 20)

    /// The last state, with the error in it.
    private func last(_ harness: MachineHarness) -> (isClosed: Bool, error: TransportError)? {
        for action in harness.actions.reversed() {
            switch action {
            case .state(.closed(let reason)): return (true, reason.asError)
            case .state(.waiting(_, let reason)): return (false, reason.asError)
            default: continue
            }
        }
        return nil
    }

    private func awaitingWelcome(_ capabilities: Capabilities = .session) -> MachineHarness {
        var configuration = SupervisorConfiguration.session
        configuration.backoff = .fixed(.seconds(60))
        var harness = MachineHarness(configuration)
        harness.tell(.connect)
        harness.tell(.connected(harness.machine.connection, capabilities))
        return harness
    }

    @Test("A session over a broker that acknowledges nothing is refused with the option to change")
    func brokerWithoutAcknowledgements() throws {
        let harness = awaitingWelcome(Capabilities(routesByTopic: true, maximumMessageSize: 1 << 20))
        let (isClosed, error) = try #require(last(harness))
        #expect(isClosed && error.code == .invalidConfiguration && error.reason.contains("write qos=1"), "\(error)")
        #expect(harness.hasAbandoned(harness.machine.connection))
    }

    @Test("A supervisor gives up on a server that returns the hello, and says why")
    func echo() throws {
        var harness = awaitingWelcome()
        let hello = try #require(
            harness.actions.lazy.compactMap { action in
                if case .transmit(_, nil, let payload) = action { payload } else { nil }
            }.first
        )
        harness.tell(.received(harness.machine.connection, hello))
        let (isClosed, error) = try #require(last(harness))
        #expect(isClosed && error.code == .protocolViolation && error.phase == .handshake)
        #expect(error.reason.contains("an echo server") && error.reason.contains("delivery mode to plain"))
    }

    @Test("A supervisor keeps the reason of a refusal")
    func refusal() throws {
        for refusal in [SessionFrame.Refusal.version, .full, .broken, .otherIdentity, .helloExpected] {
            var harness = awaitingWelcome()
            harness.tell(.received(harness.machine.connection, SessionFrame.refused(refusal).payload))
            #expect(try #require(last(harness)).error == refusal.error)
        }
    }

    /// One attempt at a server that does not answer the hello.
    private func silentAttempt(_ harness: inout MachineHarness, isAlive: Bool) {
        harness.wait(.seconds(60))
        harness.tell(.connect)
        let connection = harness.machine.connection
        harness.tell(.connected(connection, Self.pinging))
        harness.wait(.seconds(5))
        let actions = harness.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(actions.contains { if case .ping(connection) = $0 { true } else { false } })
        if isAlive { harness.tell(.pong(connection, .milliseconds(1))) }
        harness.wait(.seconds(5))
        harness.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
    }

    @Test(
        "A server that does not answer the hello is tried again, and the error says what may be wrong",
        arguments: [true, false]
    )
    func silence(isAlive: Bool) throws {
        var configuration = SupervisorConfiguration.session
        configuration.backoff = .fixed(.seconds(60))
        var harness = MachineHarness(configuration)
        for _ in 1...5 {
            silentAttempt(&harness, isAlive: isAlive)
            let (isClosed, error) = try #require(last(harness))
            #expect(!isClosed && error.code == .timedOut)
            #expect(error.reason.contains("set the delivery mode to plain"))
            #expect(error.reason.contains("answers pings") == isAlive)
        }
    }

    @Test("A server that ends the connection in place of the welcome is tried again")
    func closedInstead() throws {
        var harness = awaitingWelcome()
        harness.tell(.ended(harness.machine.connection, CloseReason(.peer, code: 1000)))
        let (isClosed, error) = try #require(last(harness))
        #expect(!isClosed && error.code == .closedByPeer && error.reason.contains("set the delivery mode to plain"))
    }

    // MARK: Plain

    private func plain(endpoints: Int = 1) -> MachineHarness {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.seconds(60))
        var harness = MachineHarness(configuration, endpoints: endpoints)
        harness.tell(.connect)
        harness.tell(.connected(harness.machine.connection, .session))
        return harness
    }

    private func delivered(_ harness: MachineHarness) -> Int {
        harness.actions.count { if case .deliver = $0 { true } else { false } }
    }

    @Test("A plain supervisor gives up on a session server by its close code, or by its frame without a close code")
    func plainClient() throws {
        for reason in [CloseReason(peerClosed: 1003, text: "sessions"), CloseReason(.peer)] {
            var harness = plain()
            let connection = harness.machine.connection
            harness.tell(.received(connection, SessionFrame.refused(.helloExpected).payload))
            harness.tell(.ended(connection, reason))
            let (isClosed, error) = try #require(last(harness))
            #expect(isClosed && error.code == .unsupported)
            #expect(delivered(harness) == 0)
        }
    }

    @Test("The frame from another member of a plain room ends nothing")
    func forged() throws {
        let frame = SessionFrame.refused(.helloExpected).payload
        for (messages, reason) in [
            ([bytes("a"), frame], CloseReason(.peer)), ([frame, bytes("a")], CloseReason(.peer)),
            ([frame], CloseReason(.network)), ([frame], CloseReason(peerClosed: 1001, text: "")),
        ] {
            var harness = plain()
            let connection = harness.machine.connection
            for message in messages { harness.tell(.received(connection, message)) }
            harness.tell(.ended(connection, reason))
            #expect(try #require(last(harness)).isClosed == false)
        }
    }

    @Test("Only those endpoints that speak another protocol are given up")
    func endpoints() throws {
        let foreign = CloseReason(TransportError(.handshakeFailed, .handshake, "it speaks TLS"))
        var harness = plain(endpoints: 2)
        harness.tell(.ended(harness.machine.connection, foreign))
        #expect(try #require(last(harness)).isClosed == false)
        harness.wait(.seconds(60))
        harness.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(harness.machine.endpoint == 1)
        harness.tell(.connected(harness.machine.connection, .session))
        harness.tell(.ended(harness.machine.connection, CloseReason(.network)))
        harness.wait(.seconds(60))
        harness.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(harness.machine.endpoint == 1, "the one that speaks another protocol is not tried again")
        harness.tell(.connected(harness.machine.connection, .session))
        harness.tell(.ended(harness.machine.connection, foreign))
        let (isClosed, error) = try #require(last(harness))
        #expect(isClosed && error.code == .handshakeFailed)
    }
}
