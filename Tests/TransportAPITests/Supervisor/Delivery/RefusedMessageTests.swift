import Testing

@testable import TransportAPI

/// Messages that a peer refuses by ending the connection, or would refuse because of their size.
@Suite("Messages that the peer refuses")
struct RefusedMessageTests {
    private static let tooLarge = CloseReason(peerClosed: 1009, text: "")
    private static let closed = CloseReason(TransportError(.connectionLost, .open, "no close frame"))
    private static let kept = Capabilities(
        acknowledgesMessages: true,
        completesSends: true,
        routesByTopic: true,
        maximumMessageSize: 1 << 20
    )

    /// The sequence numbers of the messages, and of the skip frames as negative numbers.
    private func sequences(_ actions: [SupervisorAction]) throws -> [Int] {
        try actions.compactMap { action in
            guard case .transmit(_, _, let payload) = action else { return nil }
            return switch try SessionFrame(payload) {
            case .message(let sequence, _, _): Int(sequence)
            case .skip(let numbers): -Int(numbers.upperBound)
            default: nil
            }
        }
    }

    /// Opens the next connection of a session. Returns the messages that are sent over it.
    private func reopen(_ client: inout MachineHarness, received: UInt64) throws -> [Int] {
        client.tell(.connect)
        client.tell(.connected(client.machine.connection, .session))
        let welcome = SessionFrame.welcome(incarnation: 7, received: received)
        return try sequences(client.tell(.received(client.machine.connection, welcome.payload)))
    }

    @Test("A session rejects a message for which the peer names a cause, and goes on with those behind it")
    func named() throws {
        var client = MachineHarness(.session)
        client.open()
        let ids = (1...4).map { _ in client.submit() }
        client.tell(.ended(1, Self.tooLarge))
        // The peer has received the first message, and refuses the second.
        #expect(try reopen(&client, received: 1) == [2])
        client.tell(.ended(2, Self.tooLarge))
        #expect(try reopen(&client, received: 1) == [2])
        #expect(client.outcomes(ids[1]).isEmpty)
        client.tell(.ended(3, Self.tooLarge))
        #expect(client.outcomes(ids[1]) == [.rejected(try #require(Self.tooLarge.error))])
        // Its number is skipped, because the peer waits for it.
        #expect(try reopen(&client, received: 1) == [-2])
        func acknowledge(_ sequence: UInt64) throws -> [Int] {
            let frame = SessionFrame.acknowledge(sequence).payload
            return try sequences(client.tell(.received(client.machine.connection, frame)))
        }
        #expect(try acknowledge(2) == [3])
        #expect(try acknowledge(3) == [4])
        client.submit()
        client.submit()
        #expect(try acknowledge(4) == [5, 6])
        #expect([0, 2, 3].allSatisfy { client.outcomes(ids[$0]) == [.acknowledged] })
    }

    @Test("A session sets a message aside after five connections that end without a reason, and goes on")
    func unexplained() throws {
        var client = MachineHarness(.session)
        client.open()
        let ids = (1...3).map { _ in client.submit() }
        client.tell(.received(1, SessionFrame.acknowledge(1).payload))
        client.tell(.ended(1, Self.closed))
        #expect(try reopen(&client, received: 1) == [2, 3])
        client.tell(.ended(2, Self.closed))
        for connection in 3...7 {
            #expect(try reopen(&client, received: 1) == [2])
            #expect(client.outcomes(ids[1]).isEmpty)
            client.tell(.ended(connection, Self.closed))
        }
        guard case .unknown? = client.outcomes(ids[1]).first else {
            Issue.record("outcomes: \(client.outcomes(ids[1]))")
            return
        }
        #expect(try reopen(&client, received: 1) == [-2])
        client.tell(.received(client.machine.connection, SessionFrame.acknowledge(2).payload))
        client.tell(.received(client.machine.connection, SessionFrame.acknowledge(3).payload))
        #expect(client.outcomes(ids[2]) == [.acknowledged])
    }

    @Test("A hundred ordinary failures in a row set no message aside")
    func ordinary() throws {
        var client = MachineHarness(.session)
        client.open()
        client.submit()
        client.tell(.received(1, SessionFrame.acknowledge(1).payload))
        let id = client.submit()
        let silent = CloseReason(TransportError(.keepaliveTimeout, .open, "silent"))
        let failed = TransportError(.refused, .connect, "refused")
        for round in 1...100 {
            let connection = client.machine.connection
            switch round % 7 {
            case 0: client.tell(.ended(connection, silent))
            case 1: client.tell(.ended(connection, CloseReason(peerClosed: 1001, text: "")))
            case 2: client.tell(.ended(connection, CloseReason(peerClosed: 1012, text: "")))
            case 3: client.tell(.ended(connection, CloseReason(peerClosed: 1013, text: "")))
            case 4:
                client.tell(.path(NetworkPath(isUsable: true, network: "\(round)")))
                client.tell(.ended(connection, Self.closed))
            case 5:
                client.tell(.suspend)
                client.tell(.resume)
            default:
                client.tell(.ended(connection, Self.closed))
                client.tell(.connect)
                client.tell(.failed(client.machine.connection, failed))
            }
            #expect(try reopen(&client, received: 1) == [2])
        }
        #expect(client.outcomes(id).isEmpty)
    }

    @Test("An open session survives that the peer refuses a kind of data, and no endpoint is given up because of it")
    func stays() throws {
        var client = MachineHarness(.session)
        client.open()
        let id = client.submit()
        for _ in 1...2 {
            client.tell(.ended(client.machine.connection, CloseReason(peerClosed: 1003, text: "no binary")))
            _ = try reopen(&client, received: 0)
        }
        guard case .rejected(let error)? = client.outcomes(id).first else {
            Issue.record("outcomes: \(client.outcomes(id))")
            return
        }
        #expect(error.code == .unsupported && client.machine.isOpen)
        for code in [1008, 3003] as [UInt16] {
            var other = client
            other.tell(.ended(client.machine.connection, CloseReason(peerClosed: code, text: "")))
            #expect(other.machine.isOver)
        }
    }

    @Test("Over a broker that keeps the session, messages are completed one at a time, and a refused one is forgotten")
    func keptSession() {
        var configuration = SupervisorConfiguration()
        configuration.backoff = .immediate
        var client = MachineHarness(configuration)
        /// Opens the next connection. Returns the messages that it completes or sends.
        func reopen() -> [UInt64] {
            client.tell(.connect)
            return client.tell(.connected(client.machine.connection, Self.kept)).compactMap { action in
                switch action {
                case .complete(_, let id, _, _), .transmit(_, let id?, _): id.number
                default: nil
                }
            }
        }
        func end(_ ids: [MessageID]) {
            let connection = client.machine.connection
            for id in ids { client.tell(.settled(connection, id, .unknown(gone))) }
            client.tell(.ended(connection, CloseReason(.peer)))
        }
        _ = reopen()
        let ids = (1...3).map { _ in client.submit() }
        client.tell(.settled(1, ids[0], .acknowledged))
        end([ids[1], ids[2]])
        #expect(reopen() == [2, 3])
        end([ids[1], ids[2]])
        for _ in 1...5 {
            #expect(reopen() == [2])
            end([ids[1]])
        }
        guard case .unknown? = client.outcomes(ids[1]).first else {
            Issue.record("outcomes: \(client.outcomes(ids[1]))")
            return
        }
        #expect(client.actions.contains { if case .forget(ids[1]) = $0 { true } else { false } })
        #expect(reopen() == [3])
    }

    @Test("A message that is larger than the peer accepts is rejected when it is sent, and never goes out")
    func limit() throws {
        var client = MachineHarness(.session)
        let early = client.submit(101)
        client.tell(.connect)
        client.tell(.connected(1, .session))
        let welcome = SessionFrame.welcome(incarnation: 7, received: 0, limit: 100)
        let small = client.submit(100)
        #expect(try sequences(client.tell(.received(1, welcome.payload))) == [-1, 2])
        let late = client.submit(101)
        for id in [early, late] {
            guard case .rejected(let error)? = client.outcomes(id).first else {
                Issue.record("outcomes: \(client.outcomes(id))")
                continue
            }
            #expect(error.code == .messageTooLarge && error.reason.contains("101 bytes"))
        }
        client.tell(.received(1, SessionFrame.acknowledge(2).payload))
        #expect(client.outcomes(small) == [.acknowledged])
    }

    @Test("A message that an earlier peer may have received is unknown if the next one accepts no such size")
    func smallerLimit() throws {
        var client = MachineHarness(.session)
        client.open()
        let (large, small) = (client.submit(101), client.submit(1))
        client.tell(.settled(1, large, .written))
        client.tell(.ended(1, lost))
        client.tell(.connect)
        client.tell(.connected(2, .session))
        let welcome = SessionFrame.welcome(incarnation: 7, received: 0, limit: 100)
        #expect(try sequences(client.tell(.received(2, welcome.payload))) == [-1, 2])
        guard case .unknown(let error)? = client.outcomes(large).first else {
            Issue.record("outcomes: \(client.outcomes(large))")
            return
        }
        #expect(error.code == .messageTooLarge && client.outcomes(small).isEmpty)
    }
}
