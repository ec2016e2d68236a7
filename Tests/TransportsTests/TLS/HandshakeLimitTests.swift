import Foundation
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

    @Test("The memory of unfinished handshakes counts for max-buffered, as long as the ClientHellos that they announce")
    func unfinishedHellos() async throws {
        let events = ObservedEvents()
        let listener = try await TransportRegistry.trial.listen(
            tlsEndpoint("tls", port: 0, ["max-buffered": "1048576"]),
            observer: events.observer
        )
        // The first record of a ClientHello of 131,072 bytes, and the first byte of another record.
        let hello: [UInt8] = [22, 3, 1, 0x40, 0, 1, 2, 0, 0] + [UInt8](repeating: 3, count: 16_380) + [22]
        var clients: [RawClient] = []
        for _ in 0..<8 {
            let client = try RawClient(listener.endpoint.port)
            client.send(hello)
            clients.append(client)
        }
        let error = try await events.firstError()
        #expect(error.code == .resourcesExhausted && error.phase == .handshake, "\(error)")
        // Handshakes that have ended leave nothing.
        clients.removeAll()
        for _ in 0..<20 {
            let client = try await TransportRegistry.trial.connect(tlsEndpoint("tls", port: listener.endpoint.port))
            #expect(await client.send(bytes("hello")).isSuccess)
            await client.close()
        }
        #expect(!events.all.contains { $0.wasOpen && $0.reason.error?.code == .resourcesExhausted })
        await listener.close()
    }
}

/// A client that sends bytes, and closes its connection when it is released.
private final class RawClient {
    private let socket: Int32

    init(_ port: UInt16?) throws {
        socket = try connectedSocket(port)
    }

    deinit {
        close(socket)
    }

    func send(_ bytes: [UInt8]) {
        _ = Foundation.send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
