import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

/// A message that the app has not acknowledged stays with the broker.
@Suite("A supervisor whose app acknowledges messages of a broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokeredProcessingTests {
    private func endpoint(_ broker: EmbeddedServer, _ options: String) throws -> Endpoint {
        try Endpoint("mqtt://127.0.0.1:\(broker.endpoint.port ?? 0)/?\(options)")
    }

    @Test(
        "A broker sends unacknowledged messages again, also to a process that has restarted",
        arguments: 1...2,
        ["plain", "session"]
    )
    func broker(qos: Int, mode: String) async throws {
        let broker = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = mode == "session" ? .session : .plain
        let address = try endpoint(broker, "subscribe=t&client-id=ben&clean-session=off&qos=\(qos)")
        var (ben, recorder) = try Supervisor.recorded([address], configuration)
        var deliveries = ben.deliveries.makeAsyncIterator()
        ben.connect()
        await recorder.waitUntilOpen()
        var sending = SupervisorConfiguration.quick
        sending.delivery.mode = configuration.delivery.mode
        let (ann, _) = try Supervisor.recorded([endpoint(broker, "publish=t&qos=\(qos)")], sending)
        ann.connect()
        for number in 1...4 { #expect(await ann.send(bytes("\(number)")) == .acknowledged) }
        var messages: [ReceivedMessage] = []
        for _ in 1...4 { messages.append(try #require(await deliveries.next())) }
        #expect(messages.map(\.payload.string) == ["1", "2", "3", "4"])
        // The acknowledgement of the third message waits for the second.
        messages[0].acknowledge()
        messages[2].acknowledge()
        await ben.close()
        (ben, recorder) = try Supervisor.recorded([address], configuration)
        deliveries = ben.deliveries.makeAsyncIterator()
        ben.connect()
        var again: [String] = []
        for _ in 2...4 {
            let message = try #require(await deliveries.next())
            again.append(message.payload.string)
            message.acknowledge()
        }
        #expect(again == ["2", "3", "4"])
        // All messages are acknowledged, so the next one is new.
        #expect(await ann.send(bytes("5")) == .acknowledged)
        #expect(await deliveries.next()?.payload.string == "5")
        await ann.close()
        await ben.close()
        await broker.stop()
    }
}
