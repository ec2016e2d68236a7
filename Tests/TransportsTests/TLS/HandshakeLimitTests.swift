import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// The limits of a server on clients in their handshake.
@Suite("Limits of TLS handshakes", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)))
struct HandshakeLimitTests {
    @Test("Clients that never begin a handshake take no place of a client that only listens")
    func silentClients() async throws {
        let events = ObservedEvents()
        let registry = TransportRegistry.trial
        let listener = try await registry.listen(
            tlsEndpoint("tls", port: 0, ["max-handshakes": "2"]),
            observer: events.observer
        )
        async let accepted = listener.accept()
        // It never sends anything after its handshake.
        let subscriber = try await registry.connect(tlsEndpoint("tls", port: listener.endpoint.port))
        let server = try #require(try await accepted)
        var silent: [any Connection] = []
        for _ in 0..<20 {
            silent.append(try await registry.connect("tcp://127.0.0.1:\(listener.endpoint.port ?? 0)"))
        }
        let error = try await events.firstError()
        #expect(error.code == .tooManyRequests && error.phase == .handshake, "\(error)")
        #expect(await server.send(bytes("news")).isSuccess)
        #expect(try await subscriber.receive()?.string == "news")
        for connection in silent { await connection.close() }
        await subscriber.close()
        await listener.close()
    }
}
