import Foundation
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import SocketIO
@testable import Transports

/// Servers whose certificate is replaced while they run.
@Suite("Replaced certificates", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct CertificateRotationTests {
    /// OpenSSL, and how often it has loaded certificates.
    private final class CountingTLS: TLSProvider {
        let loads = Locked(0)
        var readsFiles: Bool { true }

        func makeContext(
            _ settings: TLSSettings,
            password: (@Sendable (String) -> String?)?
        ) throws(TLSSetupError) -> any TLSContext {
            if settings.side == .server { loads.withLock { $0 += 1 } }
            return try OpenSSL.shared.makeContext(settings, password: password)
        }
    }

    /// A folder with private keys, which ends with its last reference.
    private final class Folder: Sendable {
        let url = FileManager.default.temporaryDirectory.appending(path: "tls-\(UUID().uuidString)")

        init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

        deinit { try? FileManager.default.removeItem(at: url) }
    }

    private let owned: Folder
    private var folder: URL { owned.url }
    private let authority: ThrowAwayAuthority
    private let provider = CountingTLS()
    private let registry: TransportRegistry
    private let events = ObservedEvents()
    private var file: String { folder.appending(path: "server.pem").path }

    init() throws {
        authority = try ThrowAwayAuthority("Test authority")
        registry = .over(provider, checkInterval: .zero)
        owned = try Folder()
    }

    private func issue(_ name: String) throws -> ThrowAwayAuthority.Issued {
        try authority.issue(.init(name, names: ["IP:127.0.0.1"]))
    }

    /// Replaces a file by an atomic rename.
    private func write(_ text: String, to name: String = "server.pem") throws {
        try text.write(to: folder.appending(path: name), atomically: true, encoding: .utf8)
    }

    private func connect(_ listener: any Listener, _ options: EndpointOptions = [:]) async throws -> any Connection {
        // A continued session would show the certificate of the session.
        let all: EndpointOptions = ["ca": authority.certificate, "resumption": "off"] + options
        return try await registry.connect(tlsEndpoint(listener.endpoint.scheme, port: listener.endpoint.port, all))
    }

    /// Connects until the server has the certificate with this name. The time limit of the suite ends it.
    private func wait(for name: String, at listener: any Listener) async throws {
        while true {
            let connection = try await connect(listener)
            let seen = connection.encryption?.peer?.commonName
            await connection.close()
            if seen == name { return }
        }
    }

    private func echo(_ client: any Connection, _ server: any Connection) async throws {
        #expect(await client.send(bytes("to the server")).isSuccess)
        #expect(try await server.receive()?.string == "to the server")
        #expect(await server.send(bytes("to the client")).isSuccess)
        #expect(try await client.receive()?.string == "to the client")
    }

    @Test("New connections get a replaced certificate, and old ones go on", arguments: ["wss", "dtls"])
    func replaced(scheme: String) async throws {
        let first = try issue("first")
        try write(first.certificate + first.key)
        let listener = try await registry.listen(
            tlsEndpoint(scheme, port: 0, ["certificate": file]),
            observer: events.observer
        )
        async let accepted = listener.accept()
        let old = try await connect(listener)
        let oldServer = try #require(try await accepted)
        #expect(old.encryption?.peer?.commonName == "first")
        // Connections that are not accepted would fill the queue of the listener.
        let accepting = Task { while try await listener.accept() != nil {} }
        for name in ["second", "third"] {
            let next = try issue(name)
            try write(next.certificate + next.key)
            try await wait(for: name, at: listener)
            try await echo(old, oldServer)
        }
        #expect(provider.loads.withLock { $0 } == 3)
        #expect(events.all.allSatisfy { $0.reason.error == nil })
        await old.close()
        await listener.close()
        try await accepting.value
    }

    @Test("A replaced file that is broken keeps the old certificate, and is reported once")
    func broken() async throws {
        let first = try issue("first")
        try write(first.certificate + first.key)
        let listener = try await registry.listen(
            tlsEndpoint("wss", port: 0, ["certificate": file]),
            observer: events.observer
        )
        let accepting = Task { while try await listener.accept() != nil {} }
        try write("no certificate")
        let before = provider.loads.withLock { $0 }
        while provider.loads.withLock({ $0 }) < before + 5 {
            let connection = try await connect(listener)
            #expect(connection.encryption?.peer?.commonName == "first")
            await connection.close()
        }
        let failures = events.all.filter { $0.reason.error != nil }
        #expect(failures.count == 1)
        let event = try #require(failures.first)
        #expect(event.client == nil && !event.wasOpen && event.count == 0)
        #expect(event.reason.error?.code == .invalidConfiguration)
        #expect(event.reason.error?.reason.contains("'\(file)', which contains no certificate in PEM format") == true)
        // Another problem is reported too, and so is the same one after a good file.
        try FileManager.default.removeItem(atPath: file)
        while events.all.count(where: { $0.reason.error != nil }) < 2 {
            await (try await connect(listener)).close()
        }
        #expect(
            events.all.last { $0.reason.error != nil }?.reason.error?.reason.contains("No such file or directory")
                == true
        )
        let second = try issue("second")
        try write(second.certificate + second.key)
        try await wait(for: "second", at: listener)
        #expect(events.all.count(where: { $0.reason.error != nil }) == 2)
        await listener.close()
        try await accepting.value
    }

    @Test("Certificate and key that are replaced one after the other are used when they belong together")
    func twoFiles() async throws {
        let (first, second) = (try issue("first"), try issue("second"))
        try write(first.certificate)
        try write(first.key, to: "key.pem")
        let key = folder.appending(path: "key.pem").path
        let listener = try await registry.listen(
            tlsEndpoint("wss", port: 0, ["certificate": file, "key": key]),
            observer: events.observer
        )
        let accepting = Task { while try await listener.accept() != nil {} }
        try write(second.certificate)
        while events.all.allSatisfy({ $0.reason.error == nil }) {
            let connection = try await connect(listener)
            #expect(connection.encryption?.peer?.commonName == "first")
            await connection.close()
        }
        let error = try await events.firstError()
        #expect(error.reason.contains("does not belong to the certificate"))
        try write(second.key, to: "key.pem")
        try await wait(for: "second", at: listener)
        await listener.close()
        try await accepting.value
    }

    /// Servers check their files every 5 ms, and clients do not cause it.
    private var registryWithoutClients: TransportRegistry {
        .over(provider, checkInterval: .seconds(3600), idleCheckInterval: .milliseconds(5))
    }

    /// Requires certificates of clients, and checks them with the list in crl.pem, which is empty at first.
    private func listenWithEmptyList(_ registry: TransportRegistry) async throws -> any Listener {
        try write(try authority.revoke([]), to: "crl.pem")
        let options: EndpointOptions = [
            "certificate": file, "ca": authority.certificate, "client-certificates": "required",
            "crl": folder.appending(path: "crl.pem").path,
        ]
        return try await registry.listen(tlsEndpoint("wss", port: 0, options), observer: events.observer)
    }

    @Test("The list of revoked clients is replaced too")
    func revokedClient() async throws {
        let own = try issue("first")
        let ann = try authority.issue(.init("ann"))
        try write(own.certificate + own.key)
        let listener = try await listenWithEmptyList(registry)
        let accepting = Task { while try await listener.accept() != nil {} }
        let asAnn: EndpointOptions = ["certificate": ann.certificate, "key": ann.key]
        await (try await connect(listener, asAnn)).close()
        try write(try authority.revoke([ann.serial]), to: "crl.pem")
        var refusal: TransportError?
        while refusal == nil {
            do throws(TransportError) {
                let all: EndpointOptions = ["ca": authority.certificate, "resumption": "off"] + asAnn
                await (try await registry.connect(tlsEndpoint("wss", port: listener.endpoint.port, all))).close()
            } catch {
                refusal = error
            }
        }
        #expect(refusal?.tlsProblem == .certificateRefused)
        #expect(try await events.firstError().tlsProblem == .revoked)
        await listener.close()
        try await accepting.value
    }

    @Test("A list of revoked clients is replaced also while no client connects")
    func revokedWithoutClients() async throws {
        let own = try issue("first")
        let ann = try authority.issue(.init("ann"))
        try write(own.certificate + own.key)
        let listener = try await listenWithEmptyList(registryWithoutClients)
        let accepting = Task { while try await listener.accept() != nil {} }
        let asAnn: EndpointOptions = ["certificate": ann.certificate, "key": ann.key]
        await (try await connect(listener, asAnn)).close()
        try write(try authority.revoke([ann.serial]), to: "crl.pem")
        var refusal: TransportError?
        while refusal == nil {
            do {
                let client = try await connect(listener, asAnn)
                await client.close()
                // With TLS 1.3, the refusal can come after the client's own handshake.
                refusal = await client.closed().error
            } catch let error as TransportError {
                refusal = error
            }
        }
        #expect(refusal?.tlsProblem == .certificateRefused)
        await listener.close()
        try await accepting.value
    }

    @Test("A server that has stopped checks its files no more", arguments: ["wss", "dtls"])
    func stopped(scheme: String) async throws {
        let own = try issue("first")
        try write(own.certificate + own.key)
        try write(own.certificate + own.key, to: "other.pem")
        let stopped = try await registryWithoutClients.listen(
            tlsEndpoint(scheme, port: 0, ["certificate": file]),
            observer: events.observer
        )
        let otherEvents = ObservedEvents()
        let other = try await registryWithoutClients.listen(
            tlsEndpoint(scheme, port: 0, ["certificate": folder.appending(path: "other.pem").path]),
            observer: otherEvents.observer
        )
        await stopped.close()
        try write("no certificate")
        // Meanwhile, the other server checks its files several times.
        for broken in ["no certificate", own.certificate, own.key] {
            let before = otherEvents.all.count
            try write(broken, to: "other.pem")
            while otherEvents.all.count == before { await Task.yield() }
        }
        #expect(events.all.isEmpty)
        await other.close()
        withExtendedLifetime(stopped) {}
    }

    @Test("A client whose certificate and key are replaced one after the other tries again")
    func clientFiles() async throws {
        let own = try issue("server")
        let (first, second) = (try authority.issue(.init("first")), try authority.issue(.init("second")))
        try write(first.certificate)
        try write(first.key, to: "key.pem")
        let listener = try await registry.listen(
            tlsEndpoint(
                "wss",
                port: 0,
                [
                    "certificate": own.certificate, "key": own.key, "ca": authority.certificate,
                    "client-certificates": "required",
                ]
            )
        )
        let options: EndpointOptions = ["certificate": file, "key": folder.appending(path: "key.pem").path]
        func accepted() async throws -> String? {
            async let server = listener.accept()
            let client = try await connect(listener, options)
            let name = try await server?.encryption?.peer?.commonName
            await client.close()
            return name
        }
        #expect(try await accepted() == "first")
        try write(second.certificate)
        let error = await #expect(throws: TransportError.self) { try await connect(listener, options) }
        #expect(error?.isRetryable == true && error?.phase == .secure, "\(String(describing: error))")
        #expect(error?.reason.contains("a changed file cannot be used: key has") == true)
        #expect(error?.reason.contains("does not belong to the certificate") == true)
        try write(second.key, to: "key.pem")
        #expect(try await accepted() == "second")
        await listener.close()
    }

    @Test("Files that have not changed are not loaded again")
    func unchanged() async throws {
        let own = try issue("first")
        try write(own.certificate + own.key)
        let listener = try await registry.listen(tlsEndpoint("wss", port: 0, ["certificate": file]))
        let accepting = Task { while try await listener.accept() != nil {} }
        for _ in 0..<10 { await (try await connect(listener)).close() }
        #expect(provider.loads.withLock { $0 } == 1)
        // A second server of the same files shares the loaded certificate.
        let other = try await registry.listen(tlsEndpoint("tls", port: 0, ["certificate": file, "alpn": "http/1.1"]))
        #expect(provider.loads.withLock { $0 } == 1)
        await other.close()
        await listener.close()
        try await accepting.value
    }
}
