import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

@Suite("Encrypted connections", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)))
struct TLSConnectionTests {
    static let schemes = ["wss", "tls", "mqtts", "mqtt+wss"]

    @Test("An encrypted connection carries messages in both directions and closes cleanly", arguments: schemes)
    func echo(scheme: String) async throws {
        let registry = TransportRegistry.available
        let listener = try await registry.listen("\(scheme)://localhost:0")
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: scheme).loopback("echo")
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        let server = try #require(try await accepted)
        let encryption = try #require(client.encryption)
        #expect(encryption.version == "TLSv1.3")
        #expect(encryption.isVerified)
        #expect(encryption.applicationProtocol == (scheme.contains("wss") ? "http/1.1" : nil))
        #expect(server.encryption?.version == "TLSv1.3")
        for size in [0, 1, 125, 4096, 16_384, 70_000, 1 << 20] {
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            async let received = server.receive()
            let outcome = await client.send(Payload(bytes))
            #expect(outcome.isSuccess)
            #expect(try await received?.bytes == bytes)
        }
        #expect(
            await client.statistics().handshakeRoundTrips
                == [
                    // TCP, TLS, and the handshakes of WebSocket and MQTT with its subscription.
                    "tls": 2, "wss": 3, "mqtts": 4, "mqtt+wss": 5,
                ][scheme]
        )
        let left = await client.close()
        #expect(left == 0)
        let reason = await server.closed()
        #expect(reason.error == nil, "\(reason)")
        await listener.close()
    }
}
