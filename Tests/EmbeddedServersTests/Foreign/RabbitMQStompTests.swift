import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// The client for STOMP with a RabbitMQ. Each broker takes some 20 seconds to start, so one serves all tests of this file.
@Suite("STOMP at RabbitMQ", .timeLimit(.minutes(5)), .ownThread)
struct RabbitMQStompTests {
    private let registry = TransportRegistry.standard

    @Test(
        "Receipts, acknowledgements, subscriptions and heart-beats work over TCP and WebSocket",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func rabbitMQ() async throws {
        let broker = try await aside { try RabbitMQ("rabbitmq_web_stomp") }
        for scheme in ["stomp", "stomp+ws"] {
            let url = broker.stomp(scheme)
            let checks = StompChecks(url: url)
            for mode in ["client", "client-individual"] {
                try await checks.acknowledges(mode, "/queue/\(scheme).\(mode)")
            }
            try await checks.subscribes(wildcard: "/topic/rooms.*")
            try await checks.beats()
            try await refuses(url)
        }
    }

    private func refuses(_ url: String) async throws {
        let wrong = url.replacing("guest:guest", with: "guest:wrong")
        let denied = await #expect(throws: TransportError.self) { _ = try await registry.connect(wrong) }
        #expect(denied?.code == .authenticationFailed, "\(String(describing: denied))")
        let client = try STOMPClient(try await registry.connect(url))
        let missing = await #expect(throws: TransportError.self) {
            try await client.subscribe("/amq/queue/that.does.not.exist")
        }
        // Over WebSocket, RabbitMQ sometimes closes without the ERROR.
        let words = url.hasPrefix("stomp+ws") ? ["not_found", "STOMP died"] : ["not_found"]
        #expect(words.contains { missing?.reason.contains($0) == true }, "\(String(describing: missing))")
        await client.close()
    }
}
