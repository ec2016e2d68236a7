import EmbeddedServers
import TestSupport
import Testing

@testable import Transports

@Suite("The last bytes of a connection", .timeLimit(.minutes(5)), .ownThread)
struct LingerTests {
    @Test("A connection may linger for the longest possible time")
    func endless() async throws {
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0")
        let found = try TransportRegistry.standard.transport(for: server.endpoint)
        let recipe = try #require(found as? StreamTransport)
        var limits = recipe.limits
        limits.linger = .seconds(Int64.max)
        let lingering = StreamTransport(
            recipe.endpoint,
            recipe.dialer,
            limits: limits,
            makeCore: recipe.makeCore,
            follow: recipe.follow
        )
        let connection = try await lingering.connect(timeout: .seconds(20))
        await connection.close()
        #expect(await connection.closed().initiator == .user)
        await server.stop()
    }
}
