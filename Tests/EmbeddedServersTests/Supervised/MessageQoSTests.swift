import EmbeddedServers
import Protocols
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests messages that choose their QoS, over real connections and brokers.
@Suite("The QoS of single MQTT messages", .timeLimit(.minutes(5)), .ownThread)
struct MessageQoSTests {
    @Test(
        "The outcome of a send fits the QoS of its message, which the receiver can read",
        arguments: ["mqtt", "mqtt+ws"],
        0...2
    )
    func embedded(scheme: String, configured: Int) async throws {
        let server = try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0")
        try await check("\(scheme)://127.0.0.1:\(try #require(server.endpoint.port))", configured)
        await server.stop()
    }

    @Test(
        "The outcome of a send through mosquitto fits the QoS of its message",
        .enabled(if: Peers.mosquitto != nil),
        arguments: 0...2
    )
    func mosquitto(configured: Int) async throws {
        let broker = try await PersistentMosquitto()
        try await check("mqtt://127.0.0.1:\(broker.port)", configured)
    }

    private func check(_ broker: String, _ configured: Int) async throws {
        let reader = try await TransportRegistry.standard.connect("\(broker)/?subscribe=t&qos=2")
        let supervisor = try Supervisor("\(broker)/?publish=t&qos=\(configured)")
        supervisor.connect()
        for qos in [nil] + MQTTQoS.allCases {
            let expected = qos ?? MQTTQoS(rawValue: UInt8(configured))
            let outcome = await supervisor.send(Payload([1], qos: qos))
            #expect(outcome == (expected == .atMostOnce ? .written : .acknowledged))
            let received = try await reader.receive()
            #expect(received == Payload([1], topic: "t", qos: expected))
        }
        await supervisor.close()
        await reader.close()
    }
}
