import EmbeddedServers
import Protocols
import SocketIO
import TestSupport
import Testing
import Transports
import TrialCertificates

@testable import imbench

@Suite("The costs of a connection", .timeLimit(.minutes(1)), .ownThread)
struct ConnectionCostsTests {
    @Test("A lost ping over UDP is sent again, so that a path with losses can be measured")
    func lostPings() async throws {
        let loop = try QuietLoop.get()
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", on: loop)
        let proxy = try await FaultProxy.start(to: server.endpoint, on: loop, seed: 4)
        let limits = EchoBench.Limits(ping: .seconds(1))
        func bytes(_ endpoint: Endpoint) async throws -> Double {
            let transport = try TransportRegistry.trial.transport(for: endpoint, on: loop)
            return try #require(try await ConnectionCosts.pingBytes(transport, on: loop, limits))
        }
        let undisturbed = try await bytes(proxy.endpoint)
        await proxy.set(PathFaults(loss: 0.3))
        // A repeated ping has bytes, too.
        #expect(try await bytes(proxy.endpoint) >= undisturbed)
        await proxy.stop()
        await server.stop()
    }
}
