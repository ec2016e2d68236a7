import Testing

@testable import TransportAPI

@Suite struct ConnectionRulesTests {
    private static var watchful: SupervisorConfiguration {
        var configuration = SupervisorConfiguration.session
        configuration.keepalive.interval = .seconds(30)
        configuration.keepalive.timeout = .seconds(8)
        return configuration
    }

    @Test("A connection that falls silent after a message is found dead within interval and timeout")
    func deadInTime() {
        var client = MachineHarness(Self.watchful)
        client.open()
        client.wait(.seconds(30))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 500)))
        client.pass(.milliseconds(7999), SignsOfLife(bytesReceived: 500))
        #expect(!client.hasAbandoned(1))
        client.pass(.milliseconds(1), SignsOfLife(bytesReceived: 500))
        #expect(client.hasAbandoned(1))
    }

    @Test("Bytes of an incomplete message answer a probe")
    func partialMessage() {
        var client = MachineHarness(Self.watchful)
        client.open()
        client.wait(.seconds(30))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 500)))
        client.wait(.seconds(8))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 600)))
        #expect(!client.hasAbandoned(1))
        #expect(client.machine.deadline == Instant.zero.advanced(by: .seconds(60)))
    }

    @Test(
        "A connection that falls silent within a message is found dead within interval and timeout of the last byte"
    )
    func deadWithinMessage() {
        var client = MachineHarness(Self.watchful)
        client.open()
        client.wait(.seconds(30))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 500)))
        #expect(
            client.machine.deadline == Instant.zero.advanced(by: .seconds(32)),
            "the machine checks for bytes while it waits"
        )
        // The last byte comes before 32 s, so that the loss is known before 70 s.
        let limit = Instant.zero.advanced(by: .seconds(70))
        while !client.hasAbandoned(1), let deadline = client.machine.deadline, deadline < limit {
            client.now = deadline
            client.tell(.deadlineReached(SignsOfLife(bytesReceived: 600)))
        }
        #expect(client.hasAbandoned(1))
    }

    @Test("On a lossy transport, one lost probe does not end the connection")
    func lostProbe() {
        var client = MachineHarness(Self.watchful)
        client.open(.datagrams)
        client.wait(.seconds(30))
        var probes = 0
        for _ in 0..<4 {
            probes += client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0))).count
            client.wait(.seconds(2))
        }
        #expect(probes == 4)
        #expect(!client.hasAbandoned(1))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(client.hasAbandoned(1))
    }

    @Test("Without a network, silence does not count, even if reading starts again")
    func silentWithoutNetwork() {
        var client = MachineHarness(Self.watchful)
        client.open()
        client.tell(.path(NetworkPath(isUsable: false)))
        client.tell(.reading(.nothing))
        client.tell(.reading(.all))
        var deadline = client.machine.link.keepalive?.deadline
        #expect(deadline == nil)
        client.tell(.path(NetworkPath(isUsable: true)))
        deadline = client.machine.link.keepalive?.deadline
        #expect(deadline != nil)
    }

    @Test("A change of the network sends no ping on a transport without pings")
    func nothingToAsk() {
        var client = MachineHarness(SupervisorConfiguration())
        client.open(Capabilities(hasNativePing: false, maximumMessageSize: 100))
        client.tell(.path(NetworkPath(isUsable: true, network: "other")))
        #expect(client.machine.deadline == nil)
    }

    @Test("A cancelled attempt to refresh the credentials leaves the refresh to the next attempt")
    func refreshesAgain() {
        var client = MachineHarness(.session)
        client.tell(.connect)
        client.tell(.failed(1, TransportError(.authenticationFailed, .handshake, "expired")))
        client.tell(.suspend)
        client.tell(.resume)
        #expect(client.attempts == [false, true, true])
        client.tell(.connected(3, .session))
        client.tell(.ended(3, lost))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(client.attempts == [false, true, true, false])
    }

    @Test("Credentials are refreshed once for each connection that was open, even if it was short")
    func refreshesAfterShortConnection() {
        let expired = TransportError(.authenticationFailed, .handshake, "expired")
        var client = MachineHarness(.session)
        client.tell(.connect)
        client.tell(.failed(1, expired))
        client.tell(.connected(2, .session))
        client.tell(.received(2, SessionFrame.welcome(incarnation: 7, received: 0).payload))
        client.tell(.ended(2, lost))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        client.tell(.failed(3, expired))
        #expect(client.attempts == [false, true, false, true])
        client.tell(.failed(4, expired))
        #expect(client.machine.isOver)
    }

    @Test("A stable connection that is suspended clears old failures and an old refresh")
    func suspendedStable() {
        var configuration = SupervisorConfiguration.session
        configuration.maximumAttempts = 3
        var client = MachineHarness(configuration)
        let expired = TransportError(.authenticationFailed, .handshake, "expired")
        client.tell(.connect)
        client.tell(.failed(1, gone))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        client.tell(.failed(2, expired))
        client.tell(.connected(3, .session))
        client.tell(.received(3, SessionFrame.welcome(incarnation: 7, received: 0).payload))
        client.wait(.seconds(3600))
        client.tell(.suspend)
        client.tell(.resume)
        client.tell(.failed(4, expired))
        #expect(client.attempts == [false, false, true, false, true])
        #expect(!client.machine.isOver)
    }

    @Test("A connection whose handshake fails after it has opened is not stable, however long that takes")
    func refusedLate() {
        var configuration = SupervisorConfiguration()
        configuration.maximumAttempts = 3
        configuration.backoff = .immediate
        var client = MachineHarness(configuration)
        let late = TransportError(.timedOut, .handshake, "no CONNACK came in time")
        client.tell(.connect)
        for attempt in 1...3 {
            #expect(client.attempts.count == attempt)
            client.tell(.connected(client.machine.connection, .broker))
            client.wait(.seconds(60))
            client.tell(.ended(client.machine.connection, CloseReason(late)))
            client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        }
        #expect(client.machine.isOver && client.attempts.count == 3)
    }

    @Test("Pauses grow if a server accepts each connection and ends it at once")
    func acceptAndClose() {
        var configuration = SupervisorConfiguration.session
        configuration.backoff = .exponential(initial: .seconds(1), maximum: .seconds(60), multiplier: 2, jitter: .none)
        var client = MachineHarness(configuration)
        client.tell(.connect)
        while client.now < Instant.zero.advanced(by: .seconds(3600)) {
            client.tell(.connected(client.machine.connection, .session))
            client.tell(.ended(client.machine.connection, CloseReason(.peer)))
            guard let next = client.machine.deadline else { break }
            client.now = next
            client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        }
        #expect(client.attempts.count > 60)
        #expect(client.attempts.count <= 67)
    }
}
