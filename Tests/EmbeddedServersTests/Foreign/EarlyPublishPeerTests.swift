import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests `early-publish=on` with brokers of other projects: each accepts packets behind CONNECT before its CONNACK.
extension PeerTests {
    /// The first message leaves before CONNACK, and comes back over the client's own filter.
    private func publishesEarly(_ broker: Endpoint, qos: Int) async throws {
        var endpoint = broker
        endpoint.options = [
            .init(name: "publish", value: "t"), .init(name: "subscribe", value: "t"),
            .init(name: "qos", value: "\(qos)"), .init(name: "early-publish", value: "on"),
        ]
        // The message follows CONNECT and SUBSCRIBE in one write, or in another one.
        for _ in 0..<20 {
            let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            #expect(await connection.statistics().handshakeRoundTrips == (broker.scheme == "mqtt" ? 1 : 2))
            let outcome = await connection.send(Payload(text: "hello"))
            #expect(outcome == (qos == 0 ? .written : .acknowledged))
            #expect(try await connection.receive()?.bytes == Array("hello".utf8))
            #expect(await connection.send(Payload(text: "again")).isSuccess)
            #expect(try await connection.receive()?.bytes == Array("again".utf8))
            #expect(try await connection.ping() > .zero)
            await connection.close()
        }
    }

    /// A broker that refuses the password processes no message, and no message counts as sent.
    ///
    /// A broker may close with messages unread. TCP then resets the connection, which may destroy the broker's reason.
    private func refusesEarly(_ broker: Endpoint, _ code: TransportError.Code) async throws {
        // RabbitMQ ends a WebSocket with 1002 and the text "unauthenticated".
        let codes: [TransportError.Code] = [code, .connectionReset, .connectionLost, .protocolViolation]
        var reading = broker
        if reading.user != nil { reading.password = "secret" }
        reading.options = [.init(name: "subscribe", value: "t"), .init(name: "publish", value: "t")]
        let watcher = try await registry.transport(for: reading).connect(timeout: .seconds(10))
        var endpoint = broker
        (endpoint.user, endpoint.password) = ("ann", "wrong")
        endpoint.options = [.init(name: "publish", value: "t"), .init(name: "early-publish", value: "on")]
        for qos in [Payload.QoS.atMostOnce, .atLeastOnce] {
            let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            let sends = (0..<50).map { _ in Task { await connection.send(Payload(longBytes(1000), qos: qos)) } }
            for send in sends {
                switch await send.value {
                case .rejected(let error), .unknown(let error): #expect(codes.contains(error.code), "\(error)")
                case let other: Issue.record("a refused message has the outcome \(other)")
                }
            }
            let end = try #require(await connection.closed().error)
            #expect(codes.contains(end.code))
        }
        #expect(await watcher.send(Payload(text: "end")) == .written)
        #expect(try await watcher.receive()?.bytes == Array("end".utf8))
        await watcher.close()
    }

    // MARK: mosquitto

    @Test(
        "mosquitto takes messages before its CONNACK",
        .enabled(if: Peers.mosquitto != nil),
        arguments: ["mqtt", "mqtt+ws"],
        0...2
    )
    func mosquittoEarly(scheme: String, qos: Int) async throws {
        let broker = try await Mosquitto()
        try await publishesEarly(broker.endpoint(scheme), qos: qos)
    }

    @Test(
        "Messages that mosquitto gets with a wrong password are rejected",
        .enabled(if: Peers.mosquittoPasswd != nil),
        arguments: ["mqtt", "mqtt+ws"]
    )
    func mosquittoEarlyRefusal(scheme: String) async throws {
        let broker = try await Mosquitto(password: true)
        var endpoint = try broker.endpoint(scheme)
        (endpoint.user, endpoint.password) = ("ann", "secret")
        try await refusesEarly(endpoint, .forbidden)
    }

    // MARK: NATS

    /// nats-server 2.9 supports QoS 0 and 1.
    @Test("NATS takes messages before its CONNACK", .enabled(if: Peers.nats != nil), arguments: 0...1)
    func natsEarly(qos: Int) async throws {
        let broker = try await aside { try NATS() }
        try await publishesEarly(broker.endpoint(), qos: qos)
    }

    @Test("Messages that NATS gets with a wrong password are rejected", .enabled(if: Peers.nats != nil))
    func natsEarlyRefusal() async throws {
        let broker = try await aside { try NATS() }
        try await refusesEarly(broker.endpoint(), .forbidden)
    }

    // MARK: RabbitMQ

    /// RabbitMQ 3.10 supports QoS 0 and 1.
    @Test("RabbitMQ takes messages before its CONNACK", .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil))
    func rabbitEarly() async throws {
        let broker = try await aside { try RabbitMQ() }
        for scheme in ["mqtt", "mqtt+ws"] {
            var endpoint = try broker.endpoint(scheme)
            if scheme == "mqtt" { endpoint.path = "" }
            for qos in 0...1 { try await publishesEarly(endpoint, qos: qos) }
            try await refusesEarly(endpoint, .authenticationFailed)
        }
    }
}
