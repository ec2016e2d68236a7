import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests a greeting that speaks STOMP 1.2 by hand to a broker of another project, over WebSocket.
extension PeerTests {
    /// Sends CONNECT and SUBSCRIBE for the endpoint's user.
    private static let connect: ConnectionGreeting = { connection, endpoint in
        let (user, password) = (endpoint.user ?? "", endpoint.password ?? "")
        let connect = "CONNECT\naccept-version:1.2\nhost:/\nlogin:\(user)\npasscode:\(password)\n\n\0"
        _ = await connection.send(Payload(text: connect))
        guard let answer = try await connection.receive() else {
            throw TransportError(.closedByPeer, .handshake, "the broker has closed the connection")
        }
        guard answer.string.hasPrefix("CONNECTED") else {
            throw TransportError(.authenticationFailed, .handshake, answer.string)
        }
        _ = await connection.send(Payload(text: "SUBSCRIBE\nid:0\ndestination:/topic/room\n\n\0"))
    }

    @Test(
        "A greeting connects to RabbitMQ by STOMP over WebSocket, on each connection and before all messages",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func stompByHand() async throws {
        let broker = try await aside { try RabbitMQ() }
        var configuration = TransportConfiguration(endpoints: [try broker.stomp()])
        configuration.supervisor.backoff = .fixed(.milliseconds(10))
        let recorder = Recorder()
        let open = Locked<(any Connection)?>(nil)
        let supervisor = try Supervisor(configuration) { setup in
            setup.observer = recorder
            setup.greeting = { connection, endpoint in
                // The handshake of WebSocket needs no user. RabbitMQ reads the one of CONNECT.
                var endpoint = endpoint
                (endpoint.user, endpoint.password) = ("guest", "guest")
                try await Self.connect(connection, endpoint)
                open.withLock { $0 = connection }
            }
        }
        let messages = supervisor.messages
        var iterator = messages.makeAsyncIterator()
        for round in 1...20 {
            let frame = "SEND\ndestination:/topic/room\nreceipt:\(round)\n\nhello \(round)\0"
            // Before the first connection, and after the end of each one, the message waits in the outbox.
            async let outcome = supervisor.send(Payload(text: frame))
            if round == 1 { supervisor.connect() }
            #expect(await outcome == .written)
            var texts: [String] = []
            while texts.count < 2, let payload = await iterator.next() { texts.append(payload.string) }
            #expect(texts.contains { $0.hasPrefix("MESSAGE\n") && $0.hasSuffix("\n\nhello \(round)\0\n") })
            #expect(texts.contains { $0.hasPrefix("RECEIPT\n") && $0.contains("receipt-id:\(round)\n") })
            await open.withLock { $0 }?.close()
            await recorder.wait { events in
                events.count { if case .connectionEnded = $0 { true } else { false } } >= round
            }
        }
        #expect(recorder.states.count { $0.isOpen } >= 20)
        #expect(!recorder.events.contains { if case .attemptFailed = $0 { true } else { false } })
        await supervisor.close()
    }

    @Test(
        "A STOMP login that RabbitMQ refuses asks for other credentials, and no message leaves",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func refusedStompLogin() async throws {
        let broker = try await aside { try RabbitMQ() }
        let refreshed = Locked<[Bool]>([])
        let supervisor = try Supervisor(TransportConfiguration(endpoints: [try broker.stomp()])) { setup in
            setup.preparation = { endpoint, isRefresh in
                refreshed.withLock { $0.append(isRefresh) }
                return endpoint
            }
            setup.greeting = Self.connect
        }
        async let outcome = supervisor.send(Payload(text: "SEND\ndestination:/topic/room\n\nhello\0"))
        supervisor.connect()
        await supervisor.closed()
        guard case .rejected(let error) = await outcome else {
            Issue.record("sent")
            return
        }
        #expect(error.code == .authenticationFailed)
        #expect(refreshed.withLock { $0 } == [false, true])
    }
}
