import EmbeddedServers
import Testing
import TransportAPI

@testable import Transports

@Suite("UDP, another address", .timeLimit(.minutes(1)))
struct PathValidationTests {
    @Test("An address that has proved nothing gets at most three times what came from it, until it answers the ping")
    func amplification() throws {
        var path = PathValidation()
        var random = RandomSource.seeded(1)
        var sent = path.maySend(1 << 20)
        #expect(path.isValidated && sent)
        path.changed(.zero, &random)
        sent = path.maySend(1)
        #expect(!path.isValidated && !sent)
        let first = path.received(100, .zero)
        let token = try #require(first)
        #expect(token >> 63 == 1)
        // The ping itself takes 20 bytes of the 300.
        let allowed = [200, 81, 80, 1].map { path.maySend($0) }
        #expect(allowed == [true, false, true, false])
        let again = path.received(100, .zero)
        let later = path.received(100, Instant.zero.advanced(by: .milliseconds(200)))
        #expect(again == nil && later == token)
        let wrong = [token ^ 1, nil].map { path.answered($0) }
        #expect(wrong == [false, false] && !path.isValidated)
        let right = path.answered(token)
        sent = path.maySend(1 << 20)
        #expect(right && path.isValidated && sent)
        // A later change asks for another proof.
        path.changed(.zero, &random)
        let old = path.answered(token)
        let other = path.received(100, .zero)
        #expect(!old && other != nil && other != token)
    }

    @Test("A reliable session goes on behind a NAT that has forgotten it, and nothing is lost")
    func rebinding() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 2)
        var endpoint = proxy.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let link = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        for round in 0..<3 as Range<UInt8> {
            let bytes = [UInt8](repeating: round, count: 60_000)
            #expect(await link.send(Payload(bytes)) == .written)
            #expect(try await link.receive()?.bytes == bytes)
            await proxy.rebindClients()
        }
        await link.close()
        await proxy.stop()
        await server.stop()
    }

    @Test("Over a path that loses and delays, a reliable session echoes all in order")
    func lossyPath() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 3)
        var endpoint = proxy.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let link = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        await proxy.set(PathFaults(delay: .milliseconds(2), loss: 0.1))
        for number in 0..<100 as Range<UInt8> { #expect(await link.send(Payload([number])) == .written) }
        for number in 0..<100 as Range<UInt8> { #expect(try await link.receive()?.bytes == [number]) }
        await link.close()
        await proxy.stop()
        await server.stop()
    }
}
