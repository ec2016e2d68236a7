import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// A machine without a TLS library.
@Suite("A missing TLS library", .timeLimit(.minutes(5)), .ownThread)
struct MissingLibraryTests {
    private let registry = TransportRegistry.over(OpenSSL.provider(["libnothere.so"]))

    @Test("Plain transports work without a TLS library", arguments: ["tcp", "ws", "mqtt", "mqtt+ws", "udp", "memory"])
    func plain(scheme: String) async throws {
        let listener = try await registry.listen("\(scheme)://127.0.0.1:0")
        var endpoint = listener.endpoint
        endpoint.options = try registry.transport(named: scheme).loopback("plain")
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        let server = try #require(try await accepted)
        #expect(await client.send(bytes("hello")).isSuccess)
        #expect(try await server.receive()?.string == "hello")
        #expect(client.encryption == nil && server.encryption == nil)
        await client.close()
        await listener.close()
    }

    @Test("An encrypted connection says what to install", arguments: ["tls", "wss", "mqtts", "mqtt+wss", "dtls"])
    func client(scheme: String) async throws {
        let silent = try RawServer(.silent)
        defer { silent.stop() }
        let error = await #expect(throws: TransportError.self) {
            try await registry.connect(tlsEndpoint(scheme, port: silent.port, topics(of: scheme)))
        }
        expect(try #require(error))
    }

    @Test("An encrypted server says what to install", arguments: ["tls", "wss", "mqtts", "mqtt+wss", "dtls"])
    func server(scheme: String) async throws {
        let error = await #expect(throws: TransportError.self) { try await registry.listen("\(scheme)://127.0.0.1:0") }
        expect(try #require(error))
    }

    private func expect(_ error: TransportError) {
        #expect(error.code == .unsupported && error.phase == .secure && !error.isRetryable)
        #expect(error.reason.contains("OpenSSL 3 (libnothere.so) is not installed"))
        #expect(error.reason.contains("apt-get install libssl3"))
    }

    @Test("A library that is not OpenSSL 3 is named by what it lacks")
    func otherLibrary() async throws {
        let other = TransportRegistry.over(OpenSSL.provider(["libnothere.so", "libm.so.6"]))
        let error = await #expect(throws: TransportError.self) { try await other.listen("wss://127.0.0.1:0") }
        #expect(error?.code == .unsupported)
        #expect(error?.reason.contains("is not version 3 or is incomplete: it lacks OPENSSL_init_ssl") == true)
    }
}
