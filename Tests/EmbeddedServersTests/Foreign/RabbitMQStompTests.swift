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

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "Receipts, acknowledgements, subscriptions and heart-beats work over TCP and WebSocket",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func rabbitMQ() async throws {
        let broker = try await aside { try RabbitMQ("rabbitmq_web_stomp") }
        for scheme in ["stomp", "stomp+ws"] {
            let url = broker.stomp(scheme)
            for mode in ["client", "client-individual"] {
                try await acknowledges(url, mode, "/queue/\(scheme).\(mode)")
            }
            try await subscribes(url)
            try await beats(url)
            try await refuses(url)
        }
    }

    /// What a client has not acknowledged comes again, and nothing else.
    private func acknowledges(_ url: String, _ mode: String, _ queue: String) async throws {
        let sender = try await registry.connect("\(url)&receipt=on&send-header=persistent:true&publish=\(queue)")
        for number in 0..<5 { #expect(await sender.send(Payload(text: "\(number)")) == .acknowledged) }
        let bytes = Payload([0, 255, 10, 0])
        #expect(await sender.send(bytes) == .acknowledged)
        let first = try await registry.connect("\(url)&ack=\(mode)&subscribe=\(queue)")
        for number in 0..<3 {
            let payload = try await first.receive()
            #expect(text(payload) == "\(number)" && payload?.kind == .text && payload?.topic == queue)
        }
        // The client has not asked for a message after the third one, so that is not acknowledged.
        await first.close()
        let second = try await registry.connect("\(url)&ack=\(mode)&subscribe=\(queue)")
        for number in 2..<5 {
            let payload = try await second.receive()
            #expect(text(payload) == "\(number)" && payload?.isDuplicate == true)
        }
        #expect(try await second.receive()?.bytes == bytes.bytes)
        #expect(await sender.send(Payload(text: "last")) == .acknowledged)
        #expect(text(try await second.receive()) == "last")
        await second.close()
        await sender.close()
    }

    private func subscribes(_ url: String) async throws {
        let client = try STOMPClient(try await registry.connect("\(url)&receipt=on"))
        var rooms = try await client.subscribe("/topic/rooms.*").makeAsyncIterator()
        var lunch = try await client.subscribe("/topic/rooms.lunch").makeAsyncIterator()
        #expect(await client.send(Payload(text: "soup", topic: "/topic/rooms.lunch")) == .acknowledged)
        #expect(text(try await rooms.next()) == "soup")
        #expect(text(try await lunch.next()) == "soup")
        try await client.unsubscribe("/topic/rooms.*")
        #expect(try await rooms.next() == nil)
        #expect(await client.send(Payload(text: "tea", topic: "/topic/rooms.lunch")) == .acknowledged)
        #expect(text(try await lunch.next()) == "tea")
        await client.close()
    }

    /// Both sides promise a heart-beat every second, so the silence of either would end the connection.
    private func beats(_ url: String) async throws {
        let beats = "keepalive-interval=1s&heart-beat-margin=1s"
        let connection = try await registry.connect("\(url)&\(beats)&subscribe=/topic/a")
        #expect(connection.capabilities.keepsItselfAlive)
        let start = await connection.statistics()
        try await Task.yield(while: await connection.statistics().bytesReceived < start.bytesReceived + 4)
        try await Task.yield(while: await connection.statistics().bytesSent < start.bytesSent + 3)
        await connection.close()
        #expect(await connection.closed().error == nil)
    }

    private func refuses(_ url: String) async throws {
        let wrong = url.replacing("guest:guest", with: "guest:wrong")
        let denied = await #expect(throws: TransportError.self) { _ = try await registry.connect(wrong) }
        #expect(denied?.code == .authenticationFailed, "\(String(describing: denied))")
        let client = try STOMPClient(try await registry.connect(url))
        let missing = await #expect(throws: TransportError.self) {
            try await client.subscribe("/amq/queue/that.does.not.exist")
        }
        #expect(missing?.reason.contains("not_found") == true, "\(String(describing: missing))")
        await client.close()
    }
}
