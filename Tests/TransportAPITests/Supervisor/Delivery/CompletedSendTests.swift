import Testing

@testable import TransportAPI

/// Tests messages that one connection has sent without an acknowledgement and that the next connection completes.
@Suite("Sends that the next connection completes")
struct CompletedSendTests {
    private static let kept = Capabilities(
        acknowledgesMessages: true,
        completesSends: true,
        routesByTopic: true,
        maximumMessageSize: 1 << 20
    )

    private func client(_ mode: DeliveryConfiguration.Mode = .plain) -> MachineHarness {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = mode
        configuration.backoff = .immediate
        configuration.outbox.maximumAge = .seconds(60)
        var client = MachineHarness(configuration)
        client.tell(.connect)
        client.tell(.connected(client.machine.connection, Self.kept))
        return client
    }

    /// Opens the next connection. Returns the messages that the machine completes on it and those that it sends.
    private func reopen(_ client: inout MachineHarness, _ capabilities: Capabilities = kept) -> [String] {
        client.tell(.connect)
        return client.tell(.connected(client.machine.connection, capabilities)).compactMap { action in
            switch action {
            case .complete(_, let id, _, let orSend): "complete \(id.number)\(orSend ? " or send" : "")"
            case .transmit(_, let id?, _): "send \(id.number)"
            default: nil
            }
        }
    }

    /// Ends the connection while these messages are in flight.
    private func end(_ client: inout MachineHarness, _ ids: [MessageID]) {
        let connection = client.machine.connection
        for id in ids { client.tell(.settled(connection, id, .unknown(gone))) }
        client.tell(.ended(connection, lost))
    }

    @Test(
        "The next connection completes an unacknowledged message before it sends new ones"
    )
    func completed() {
        var client = client()
        let (first, second) = (client.submit(), client.submit())
        end(&client, [first, second])
        let third = client.submit()
        #expect(client.outcomes(first).isEmpty && client.outcomes(second).isEmpty)
        #expect(reopen(&client) == ["complete 1", "complete 2", "send 3"])
        for id in [first, second, third] {
            client.tell(.settled(client.machine.connection, id, .acknowledged))
            #expect(client.outcomes(id) == [.acknowledged])
        }
    }

    @Test("A message waits for several connections until one completes it")
    func severalConnections() {
        var client = client()
        let id = client.submit()
        for _ in 0..<3 {
            end(&client, [id])
            #expect(reopen(&client) == ["complete 1"])
        }
        client.tell(.settled(client.machine.connection, id, .acknowledged))
        #expect(client.outcomes(id) == [.acknowledged])
    }

    @Test("A message ends as unknown if the next connection does not know it", arguments: [true, false])
    func forgotten(isKept: Bool) {
        var client = client()
        let id = client.submit()
        end(&client, [id])
        #expect(reopen(&client, isKept ? Self.kept : .session) == ["complete 1"])
        client.tell(.settled(client.machine.connection, id, .unknown(.nothingLeft)))
        #expect(client.outcomes(id) == [.unknown(.nothingLeft)])
        #expect(client.machine.link.delivery.outbox.isEmpty)
    }

    @Test("A message that no connection completes ends as unknown at its maximum age or when the supervisor closes")
    func neverCompleted() {
        var client = client()
        let old = client.submit()
        end(&client, [old])
        client.wait(.seconds(61))
        client.tell(.deadlineReached(SignsOfLife(bytesReceived: 0)))
        #expect(client.outcomes(old) == [.unknown(.acknowledgementMissing)])
        _ = reopen(&client)
        let closed = client.submit()
        end(&client, [closed])
        client.tell(.close(.user))
        guard case .unknown(let error)? = client.outcomes(closed).first else {
            Issue.record("outcomes: \(client.outcomes(closed))")
            return
        }
        #expect(error.code == .closedByUser)
    }

    @Test("With an envelope, a connection that does not know the message sends it again")
    func origin() {
        var client = client(.session)
        let id = client.submit()
        end(&client, [id])
        #expect(reopen(&client) == ["complete 1 or send"])
        end(&client, [id])
        #expect(reopen(&client, .broker) == ["send 1"])
    }
}
