import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// The client for STOMP with an ActiveMQ.
@Suite("STOMP at ActiveMQ", .peer(Peers.activemq), .timeLimit(.minutes(5)), .ownThread)
struct ActiveMQTests {
    @Test("Receipts, acknowledgements, subscriptions and heart-beats work")
    func activeMQ() async throws {
        let broker = try await aside { try ActiveMQ() }
        let checks = StompChecks(url: broker.url)
        for mode in ["client", "client-individual"] { try await checks.acknowledges(mode, "/queue/\(mode)") }
        try await checks.subscribes(wildcard: "/topic/rooms.*")
        try await checks.beats()
    }
}
