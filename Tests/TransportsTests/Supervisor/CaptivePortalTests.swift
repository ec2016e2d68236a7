import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// A server works, then something else answers at its address, as a captive portal or a device that decrypts TLS does, and
/// then the server is back.
@Suite("A supervisor behind a captive portal", .timeLimit(.minutes(5)), .ownThread)
struct CaptivePortalTests {
    /// The error of the last failed attempt.
    private static func lastFailure(_ events: [SupervisorEvent]) -> TransportError? {
        for case .attemptFailed(_, let error) in events.reversed() { return error }
        return nil
    }

    @Test("It outlasts an HTTP answer over a plain connection", arguments: [200, 302, 401, 403, 404, 407])
    func plain(status: Int) async throws {
        let server = try await PlainServer("ws")
        let (supervisor, recorder) = try Supervisor.recorded([server.endpoint])
        supervisor.connect()
        await recorder.waitUntilOpen()

        await server.stop()
        let port = try #require(server.endpoint.port)
        let portal = try RawServer(
            port: port,
            .http("HTTP/1.1 \(status) X\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n")
        )
        await recorder.wait { events in
            events.count { if case .attemptFailed(_, let error) = $0 { error.detail == status } else { false } } >= 4
        }
        let reasons = recorder.states.compactMap { if case .waiting(_, let reason) = $0 { reason } else { nil } }
        #expect(reasons.contains { $0.error?.detail == status && $0.text.contains("has worked before") })
        portal.stop()

        try await server.start()
        #expect(await supervisor.send(bytes("hello")) == .written)
        await server.wait { $0 == "hello" }
        #expect(recorder.states.count(where: \.isOpen) == 2)
        await supervisor.close()
        await server.stop()
    }

    /// Listens over TLS at the port, and refuses all clients while `isOpen` is false.
    private func listen(
        _ port: UInt16,
        _ issued: ThrowAwayAuthority.Issued,
        _ isOpen: Locked<Bool> = Locked(true)
    ) async throws -> any Listener {
        try await TransportRegistry.standard.listen(
            tlsEndpoint("wss", port: port, ["certificate": issued.certificate, "key": issued.key]),
            decide: { _ in isOpen.withLock { $0 } ? .accept : .refuse(status: 403) }
        )
    }

    @Test("It outlasts a foreign certificate, and sends nothing to its owner", .enabled(if: hasOpenSSL))
    func certificate() async throws {
        let (own, foreign) = (try ThrowAwayAuthority("Own"), try ThrowAwayAuthority("Foreign"))
        let names = ["IP:127.0.0.1"]
        let port = try ReservedPort(isDatagram: false)
        var listener = try await listen(port.port, try own.issue(.init("localhost", names: names)))
        let endpoint = tlsEndpoint("wss", port: port.port, ["ca": own.certificate])
        let (supervisor, recorder) = try Supervisor.recorded([endpoint])
        supervisor.connect()
        let first = try #require(try await listener.accept())
        await recorder.waitUntilOpen()

        await listener.close()
        await first.close()
        let portal = try await listen(port.port, try foreign.issue(.init("localhost", names: names)))
        async let outcome = supervisor.send(bytes("secret"))
        await recorder.wait { Self.lastFailure($0)?.code == .certificateRejected }
        let accepted = Task { try await portal.accept() }
        let failures = recorder.events.count
        await recorder.wait { $0.count > failures + 4 }
        await portal.close()
        #expect(try await accepted.value == nil)

        listener = try await listen(port.port, try own.issue(.init("localhost", names: names)))
        let second = try #require(try await listener.accept())
        #expect(try await second.receive() == bytes("secret"))
        #expect(await outcome == .written)
        await supervisor.close()
        await listener.close()
    }

    @Test("It believes a refusal over a connection whose certificate it has verified", .enabled(if: hasOpenSSL))
    func verified() async throws {
        let authority = try ThrowAwayAuthority("Own")
        let port = try ReservedPort(isDatagram: false)
        let isOpen = Locked(true)
        let issued = try authority.issue(.init("localhost", names: ["IP:127.0.0.1"]))
        let listener = try await listen(port.port, issued, isOpen)
        let endpoint = tlsEndpoint("wss", port: port.port, ["ca": authority.certificate])
        let (supervisor, recorder) = try Supervisor.recorded([endpoint])
        supervisor.connect()
        let connection = try #require(try await listener.accept())
        await recorder.waitUntilOpen()
        isOpen.withLock { $0 = false }
        await connection.close()
        await supervisor.closed()
        let error = try #require(Self.lastFailure(recorder.events))
        #expect(error.code == .forbidden && error.detail == 403 && error.origin == .peer)
        await listener.close()
    }
}
