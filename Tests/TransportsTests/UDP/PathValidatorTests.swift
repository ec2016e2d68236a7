import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("UDP, another address", .timeLimit(.minutes(5)), .ownThread)
struct PathValidatorTests {
    /// A path, a clock, and the datagrams that its session hears.
    private struct Setup: ~Copyable {
        var path = PathValidator("home")
        var random = RandomSource.seeded(1)
        var now = Instant.zero

        mutating func hears(_ kind: Datagram.Kind, _ number: UInt64 = 0, size: Int = 100, from: String) -> UInt64? {
            var datagram = ByteBuffer()
            Datagram.append(kind, 7, number, to: &datagram)
            if kind == .packet || kind == .data {
                datagram.append(contentsOf: [UInt8](repeating: 0, count: size - datagram.count))
            }
            return path.heard(datagram, from: from, now, &random)
        }

        mutating func maySend(_ bytes: Int) -> Bool { path.maySend(bytes, now) }
    }

    @Test("An address that has proved nothing gets at most three times what came from it, until it answers the ping")
    func amplification() throws {
        var setup = Setup()
        var sent = setup.maySend(1 << 20)
        #expect(setup.path.isValidated && sent)
        let first = setup.hears(.packet, 1, from: "new")
        let token = try #require(first)
        #expect(token >> 63 == 1 && setup.path.address == "new" && !setup.path.isValidated)
        // The ping itself takes 20 bytes of the 300.
        let allowed = [200, 81, 80, 1].map { setup.maySend($0) }
        #expect(allowed == [true, false, true, false])
        let again = setup.hears(.packet, 2, from: "new")
        setup.now = Instant.zero.advanced(by: .milliseconds(200))
        let later = setup.hears(.packet, 3, from: "new")
        #expect(again == nil && later == token)
        _ = setup.hears(.pong, token ^ 1, from: "new")
        _ = setup.hears(.pong, token, from: "elsewhere")
        #expect(!setup.path.isValidated)
        _ = setup.hears(.pong, token, from: "new")
        sent = setup.maySend(1 << 20)
        #expect(setup.path.isValidated && sent)
        // A later change asks for another proof; the address before it need not give one.
        let other = setup.hears(.packet, 4, from: "third")
        #expect(other != nil && other != token)
        _ = setup.hears(.packet, 5, from: "new")
        #expect(setup.path.isValidated && setup.path.address == "new")
    }

    @Test("An address to which a session comes again and again is asked no more often than one where it stays")
    func toAndFro() {
        var setup = Setup()
        var (pings, tokens): (Int, Set<UInt64>) = (0, [])
        for number in 0..<100 as Range<UInt64> {
            _ = setup.hears(.packet, 2 * number, from: "home")
            #expect(setup.path.isValidated)
            if let token = setup.hears(.packet, 2 * number + 1, from: "victim") {
                pings += 1
                tokens.insert(token)
            }
            #expect(setup.path.address == "victim" && !setup.path.isValidated)
            setup.now = setup.now.advanced(by: .milliseconds(10))
        }
        #expect(pings == 5 && tokens.count == 1)
        // An answer counts whenever it comes.
        _ = setup.hears(.pong, tokens.first ?? 0, from: "victim")
        #expect(setup.path.isValidated && setup.path.address == "victim")
    }

    @Test("Somebody else's address, named by one who has seen the id, has the session for three seconds at most")
    func forgedAddress() {
        var setup = Setup()
        _ = setup.hears(.packet, 1, from: "home")
        _ = setup.hears(.packet, 2, from: "victim")
        #expect(setup.path.address == "victim")
        setup.now = Instant.zero.advanced(by: .seconds(3))
        let sent = setup.maySend(1 << 20)
        #expect(sent && setup.path.address == "home" && setup.path.isValidated)
    }

    @Test("What is replayed, late, or no sign of where the client is does not move a session")
    func replayed() {
        var setup = Setup()
        for number in 1...3 as ClosedRange<UInt64> { _ = setup.hears(.packet, number, from: "home") }
        for number in 1...3 as ClosedRange<UInt64> { _ = setup.hears(.packet, number, from: "elsewhere") }
        for kind in [.pong, .bye, .confirm, .hello, .gone] as [Datagram.Kind] {
            _ = setup.hears(kind, from: "elsewhere")
        }
        #expect(setup.path.address == "home")
        _ = setup.hears(.ping, 1, from: "new")
        #expect(setup.path.address == "new")
    }

    @Test("A ping that is replayed, or comes after a later one, does not move a session; one with a greater token does")
    func pings() {
        var setup = Setup()
        for token in [1, 2, 5] as [UInt64] { _ = setup.hears(.ping, token, from: "home") }
        for token in [1, 2, 3, 4, 5] as [UInt64] { _ = setup.hears(.ping, token, from: "elsewhere") }
        #expect(setup.path.address == "home" && setup.path.isValidated)
        let token = setup.hears(.ping, 6, from: "new")
        #expect(setup.path.address == "new" && token != nil)
        // Late, from where the client was before.
        _ = setup.hears(.ping, 5, from: "home")
        #expect(setup.path.address == "new")
    }

    @Test(
        "A ping that is repeated brings a packet, whose number is new, so that it reaches a session from a new address"
    )
    func repeatedPing() throws {
        var pair = try ReliablePair()
        try pair.client.core.ping(&pair.client.context)
        let first = pair.client.takeDatagrams()
        #expect(first.map { $0[3] } == [6])
        pair.client.advance(by: .seconds(2))
        let again = pair.client.takeDatagrams()
        #expect(again.first == first.first && again.contains { $0[3] == 12 })
        for datagram in again { for answer in pair.server.receive(datagram) { pair.client.feed(datagram: answer) } }
        #expect(pair.client.events.count { if case .pong = $0 { true } else { false } } == 1)
        #expect(pair.client.failure == nil && pair.server.failures.isEmpty)
    }

    @Test("A plain message moves its session if it is newer than all before, also across 2³²")
    func messages() {
        var setup = Setup()
        var at = "home"
        // The number is the upper half of what follows the connection id.
        for (number, moves) in [(0xffff_fffe, true), (0, true), (0xffff_ffff, false), (0, false), (1, true)]
            as [(UInt64, Bool)]
        {
            let from = at + "+"
            _ = setup.hears(.data, number << 32, from: from)
            if moves { at = from }
            #expect(setup.path.address == at)
        }
    }

    @Test("A reliable session goes on behind a NAT that has forgotten it, and nothing is lost")
    func rebinding() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 2)
        var endpoint = proxy.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let connection = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        for round in 0..<3 as Range<UInt8> {
            let bytes = [UInt8](repeating: round, count: 60_000)
            #expect(await connection.send(Payload(bytes)) == .written)
            #expect(try await connection.receive()?.bytes == bytes)
            await proxy.rebindClients()
        }
        await connection.close()
        await proxy.stop()
        await server.stop()
    }

    @Test("Over a path that loses and delays, a reliable session echoes all in order")
    func lossyPath() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 3)
        var endpoint = proxy.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let connection = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        await proxy.set(PathFaults(delay: .milliseconds(2), loss: 0.1))
        for number in 0..<100 as Range<UInt8> { #expect(await connection.send(Payload([number])) == .written) }
        for number in 0..<100 as Range<UInt8> { #expect(try await connection.receive()?.bytes == [number]) }
        await connection.close()
        await proxy.stop()
        await server.stop()
    }
}
