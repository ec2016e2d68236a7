import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Files of certificates that take long to read, as those of a network file system can.
@Suite("Slow loads of certificates", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct CertificateLoadingTests {
    /// OpenSSL that makes a context when the test lets it.
    private final class SlowTLS: TLSProvider {
        private let loop: EventLoop
        private let gate = DispatchSemaphore(value: 0)
        private let beginnings = AsyncStream<Void>.makeStream()
        /// For each load, whether it ran on the loop.
        let loads = Locked<[Bool]>([])

        init(_ loop: EventLoop) {
            self.loop = loop
        }

        var readsFiles: Bool { true }

        func makeContext(
            _ settings: TLSSettings,
            password: (@Sendable (String) -> String?)?
        ) throws(TLSSetupError) -> any TLSContext {
            let isOnLoop = loop.isCurrent
            loads.withLock { $0.append(isOnLoop) }
            beginnings.continuation.yield()
            // A load that blocks the loop ends, so that the test can end.
            _ = gate.wait(timeout: .now() + 60)
            return try OpenSSL.shared.makeContext(settings, password: password)
        }

        /// Waits until a load has begun.
        func begins() async { for await _ in beginnings.stream { return } }

        /// Lets one load end.
        func release() { gate.signal() }
    }

    @Test("An open connection carries messages while certificates are loaded for another one on the same loop")
    func openConnection() async throws {
        let loop = try EventLoop(name: "slow-certificates")
        let authority = try ThrowAwayAuthority("Test authority")
        let host = try await TLSHost("tls", try authority.issue(.init("localhost", names: ["IP:127.0.0.1"])))
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: loop)
        let open = try await TransportRegistry.standard.connect(server.endpoint, on: loop)
        let provider = SlowTLS(loop)
        defer { provider.release() }
        let registry = TransportRegistry.over(provider)
        let endpoint = tlsEndpoint("tls", port: host.port, ["ca": authority.certificate])
        async let opening = registry.connect(endpoint, on: loop, timeout: .seconds(120))
        await provider.begins()
        for number in 0..<3 as Range<UInt8> {
            #expect(await open.send(Payload([number])).isSuccess)
            #expect(try await open.receive()?.bytes == [number])
        }
        provider.release()
        let secure = try await opening
        #expect(secure.encryption?.isVerified == true)
        #expect(provider.loads.withLock { $0 } == [false])
        await secure.close()
        await open.close()
        await server.stop()
        await host.stop()
    }
}
