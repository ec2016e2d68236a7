import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// The client for STOMP with a CoilMQ.
///
/// CoilMQ (1.1.0, according to its source) departs from STOMP 1.2 where this client follows it: MESSAGE has no `ack`, ACK
/// needs a `message-id`, UNSUBSCRIBE needs a `destination`, and a connection stays open after ERROR. After a heart-beat of the
/// client, it processes no further frame. So only messages without ACK are exchanged with it, subscriptions end with their
/// connection, and connections end before the first heart-beat.
@Suite("STOMP at CoilMQ", .peer(Peers.coilmq), .timeLimit(.minutes(5)), .ownThread)
struct CoilMQTests {
    private let registry = TransportRegistry.standard

    /// Runs `body` with the URL of a broker that has just started.
    private func serving(_ body: (String) async throws -> Void) async throws {
        let reserved = try ReservedPort(isDatagram: false)
        let port = reserved.port
        let broker = try await aside {
            let script = """
                import socket, sys
                from coilmq.start import server_from_config
                import coilmq.config
                coilmq.config.init_config()
                coilmq.config.config.set("coilmq", "listen_port", "\(port)")
                server = server_from_config()
                print("ready", socket.getfqdn(), flush=True)
                server.serve_forever()
                """
            return try Peer(try #require(Peers.coilmq.path), ["-c", script])
        }
        // It accepts the name of the machine only.
        var name: String?
        while name == nil, let line = try await aside({ broker.line() }) {
            if line.hasPrefix("ready ") { name = String(line.dropFirst(6)) }
        }
        try await body("stomp://127.0.0.1:\(port)/?host=\(try #require(name))")
        broker.destroy()
    }

    @Test("Receipts and subscriptions work, and another virtual host is refused")
    func coilMQ() async throws {
        try await serving { url in
            let sender = try await registry.connect("\(url)&receipt=on")
            let topic = try await registry.connect("\(url)&receipt=on&subscribe=/topic/a")
            #expect(await sender.send(Payload(text: "hello", topic: "/topic/a")) == .acknowledged)
            let payload = try await topic.receive()
            #expect(
                payload.map { String(decoding: $0.bytes, as: UTF8.self) } == "hello" && payload?.topic == "/topic/a"
            )
            for number in 0..<5 {
                #expect(await sender.send(Payload(text: "\(number)", topic: "/queue/a")) == .acknowledged)
            }
            let queue = try await registry.connect("\(url)&subscribe=/queue/a")
            for number in 0..<5 {
                #expect(try await queue.receive().map { String(decoding: $0.bytes, as: UTF8.self) } == "\(number)")
            }
            for connection in [sender, topic, queue] { await connection.close() }
            let refused = await #expect(throws: TransportError.self) {
                _ = try await registry.connect(url.replacing(/host=.*/, with: "host=other"))
            }
            #expect(refused?.reason.contains("Virtual hosting") == true, "\(String(describing: refused))")
        }
    }
}
