import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Connections over DTLS on bad networks, and under a supervisor.
@Suite("Encrypted datagrams on bad networks", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct DTLSNetworkTests {
    @Test("A connection opens and carries messages over a path that loses, repeats and reorders", arguments: 1...8)
    func lossyPath(seed: UInt64) async throws {
        let server = try await EmbeddedServer.start("dtls://127.0.0.1:0", .echo, registry: .trial)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: seed)
        await proxy.set(PathFaults(delay: .milliseconds(2), loss: 0.15, duplication: 0.2, reordering: 0.2))
        var endpoint = proxy.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let connection = try await TransportRegistry.trial.transport(for: endpoint).connect(timeout: .seconds(20))
        #expect(connection.encryption?.version == "DTLSv1.2")
        for number in 0..<50 as Range<UInt8> { #expect(await connection.send(Payload([number])) == .written) }
        for number in 0..<50 as Range<UInt8> { #expect(try await connection.receive()?.bytes == [number]) }
        let bytes = [UInt8](repeating: 9, count: 60_000)
        #expect(await connection.send(Payload(bytes)) == .written)
        #expect(try await connection.receive()?.bytes == bytes)
        await proxy.set(.none)
        await connection.close()
        await proxy.stop()
        await server.stop()
    }

    @Test(
        "A continued session opens without repeated datagrams, although its request comes with the last handshake step"
    )
    func continuedSession() async throws {
        let server = try await EmbeddedServer.start("dtls://127.0.0.1:0", .echo, registry: .trial)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        // The two datagrams arrive together.
        await proxy.set(PathFaults(delay: .milliseconds(5)))
        let transport = try TransportRegistry.trial.transport(for: proxy.endpoint)
        var sent: [UInt64?] = []
        for _ in 0..<8 {
            let connection = try await transport.connect(timeout: .seconds(20))
            if connection.encryption?.isResumed == true { sent.append(await connection.statistics().segmentsSent) }
            #expect(await connection.send(Payload([1])) == .written)
            #expect(try await connection.receive()?.bytes == [1])
            await connection.close()
        }
        // Two ClientHellos, the last step, and two requests. A busy machine may repeat some, but not in each handshake.
        #expect(sent.contains(5), "\(sent)")
        await proxy.stop()
        await server.stop()
    }

    @Test(
        "After a change of its address, a client opens another connection, and its session continues",
        arguments: [false, true]
    )
    func changedAddress(isReliable: Bool) async throws {
        let host = try await SessionHost("dtls")
        let proxy = try await FaultProxy.start(to: host.endpoint, seed: 1)
        var endpoint = proxy.endpoint
        if isReliable { endpoint.options = [.init(name: "reliable", value: "ordered")] }
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = .session
        let (supervisor, recorder) = try Supervisor.recorded([endpoint], configuration)
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "0")) == .acknowledged)
        await proxy.rebindClients()
        let outcomes = Task(executorPreference: EventLoop.shared) {
            var outcomes: [SendOutcome] = []
            for number in 1..<20 { outcomes.append(await supervisor.send(Payload(text: "\(number)"))) }
            return outcomes
        }
        #expect(await outcomes.value.allSatisfy { $0 == .acknowledged })
        await host.wait(for: 20)
        #expect(host.received == (0..<20).map(String.init))
        #expect(host.sessions.count == 1)
        await recorder.waitUntilOpen(2)
        #expect(recorder.states.last(where: \.isOpen) == .open(endpoint, isResumed: true))
        let encrypted = recorder.events.filter {
            if case .encrypted(_, let description) = $0 { description.version == "DTLSv1.2" } else { false }
        }
        #expect(encrypted.count == 2)
        await supervisor.close()
        await proxy.stop()
        await host.stop()
    }

    @Test("An alert that is not encrypted is no sign of life, because any host can send it")
    func plainAlerts() async throws {
        let server = try await EmbeddedServer.start("dtls://127.0.0.1:0", .echo, registry: .trial)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        var configuration = SupervisorConfiguration.quick
        configuration.keepalive.interval = .milliseconds(100)
        // Shorter than the time after which such alerts end the connection.
        configuration.keepalive.timeout = .milliseconds(300)
        let (supervisor, recorder) = try Supervisor.recorded([proxy.endpoint], configuration)
        supervisor.connect()
        await recorder.waitUntilOpen()
        // The server answers the datagrams from an unknown port with such alerts.
        await proxy.rebindClients()
        await recorder.waitUntilOpen(2)
        let ends = recorder.events.compactMap { event -> TransportError.Code? in
            if case .connectionEnded(_, let reason) = event { reason.error?.code } else { nil }
        }
        #expect(ends.first == .keepaliveTimeout)
        await supervisor.close()
        await proxy.stop()
        await server.stop()
    }
}
