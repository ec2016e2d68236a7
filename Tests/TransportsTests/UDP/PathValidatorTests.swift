import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("UDP: changed client addresses", .timeLimit(.minutes(5)), .ownThread)
struct PathValidatorTests {
    /// A path, a clock, and the datagrams of its session.
    private struct Setup: ~Copyable {
        var path = PathValidator("home")
        var random = RandomSource.seeded(1)
        var now = Instant.zero

        mutating func receives(_ kind: Datagram.Kind, _ number: UInt64 = 0, size: Int = 100, from: String) -> UInt64? {
            var datagram = ByteBuffer()
            Datagram.append(kind, 7, number, to: &datagram)
            if kind == .packet || kind == .data {
                datagram.append(contentsOf: [UInt8](repeating: 0, count: size - datagram.count))
            }
            let token = path.heard(datagram, from: from, now, &random)
            if token != nil { path.sent(Datagram.pairSize) }
            return token
        }

        /// Sends a datagram if that is allowed. Returns whether it is.
        mutating func sends(_ bytes: Int) -> Bool {
            guard path.maySend(bytes, now) else { return false }
            path.sent(bytes)
            return true
        }
    }

    @Test("An unproven address gets at most three times the bytes that came from it, until it answers the ping")
    func amplification() throws {
        var setup = Setup()
        var sent = setup.sends(1 << 20)
        #expect(setup.path.isValidated && sent)
        let first = setup.receives(.packet, 1, from: "new")
        let token = try #require(first)
        #expect(token >> 63 == 1 && setup.path.address == "new" && !setup.path.isValidated)
        // The ping itself takes 20 of the 300 bytes.
        let allowed = [200, 81, 80, 1].map { setup.sends($0) }
        #expect(allowed == [true, false, true, false])
        let again = setup.receives(.packet, 2, from: "new")
        setup.now = Instant.zero.advanced(by: .milliseconds(200))
        let later = setup.receives(.packet, 3, from: "new")
        #expect(again == nil && later == token)
        _ = setup.receives(.pong, token ^ 1, from: "new")
        _ = setup.receives(.pong, token, from: "elsewhere")
        #expect(!setup.path.isValidated)
        _ = setup.receives(.pong, token, from: "new")
        sent = setup.sends(1 << 20)
        #expect(setup.path.isValidated && sent)
        // A later change requires another proof. A return to the proven address requires none.
        let other = setup.receives(.packet, 4, from: "third")
        #expect(other != nil && other != token)
        _ = setup.receives(.packet, 5, from: "new")
        #expect(setup.path.isValidated && setup.path.address == "new")
    }

    @Test("A datagram that the full socket has not taken uses up nothing of what may be sent to an unproven address")
    func notTaken() {
        var setup = Setup()
        _ = setup.receives(.packet, 1, from: "new")
        for _ in 0..<10 {
            let mayBeSent = setup.path.maySend(280, setup.now)
            #expect(mayBeSent)
        }
        let allowed = [280, 1].map { setup.sends($0) }
        #expect(allowed == [true, false])
    }

    @Test("An address to which a session changes repeatedly is pinged no more often than one where it stays")
    func repeatedChanges() {
        var setup = Setup()
        var (pings, tokens): (Int, Set<UInt64>) = (0, [])
        for number in 0..<100 as Range<UInt64> {
            _ = setup.receives(.packet, 2 * number, from: "home")
            #expect(setup.path.isValidated)
            if let token = setup.receives(.packet, 2 * number + 1, from: "victim") {
                pings += 1
                tokens.insert(token)
            }
            #expect(setup.path.address == "victim" && !setup.path.isValidated)
            setup.now = setup.now.advanced(by: .milliseconds(10))
        }
        #expect(pings == 5 && tokens.count == 1)
        // An answer counts at any later time.
        _ = setup.receives(.pong, tokens.first ?? 0, from: "victim")
        #expect(setup.path.isValidated && setup.path.address == "victim")
    }

    @Test("A forged address holds the session for at most three seconds, even if the attacker knows the id")
    func forgedAddress() {
        var setup = Setup()
        _ = setup.receives(.packet, 1, from: "home")
        _ = setup.receives(.packet, 2, from: "victim")
        #expect(setup.path.address == "victim")
        setup.now = Instant.zero.advanced(by: .seconds(3))
        let sent = setup.sends(1 << 20)
        #expect(sent && setup.path.address == "home" && setup.path.isValidated)
    }

    @Test("A replayed or late packet does not move a session, and neither does a pong or a bye")
    func replayed() {
        var setup = Setup()
        for number in 1...3 as ClosedRange<UInt64> { _ = setup.receives(.packet, number, from: "home") }
        for number in 1...3 as ClosedRange<UInt64> { _ = setup.receives(.packet, number, from: "elsewhere") }
        for kind in [.pong, .bye, .confirm, .hello, .gone] as [Datagram.Kind] {
            _ = setup.receives(kind, from: "elsewhere")
        }
        #expect(setup.path.address == "home")
        _ = setup.receives(.ping, 1, from: "new")
        #expect(setup.path.address == "new")
    }

    @Test("A ping moves a session only if its token is greater than all before")
    func pings() {
        var setup = Setup()
        for token in [1, 2, 5] as [UInt64] { _ = setup.receives(.ping, token, from: "home") }
        for token in [1, 2, 3, 4, 5] as [UInt64] { _ = setup.receives(.ping, token, from: "elsewhere") }
        #expect(setup.path.address == "home" && setup.path.isValidated)
        let token = setup.receives(.ping, 6, from: "new")
        #expect(setup.path.address == "new" && token != nil)
        // This ping is late and comes from the former address.
        _ = setup.receives(.ping, 5, from: "home")
        #expect(setup.path.address == "new")
    }

    @Test(
        "A repeated ping also sends a packet with a new number, so that it reaches the session from a new address"
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

    @Test("A plain message moves its session if its number is newer than all before, also across 2³²")
    func messages() {
        var setup = Setup()
        var at = "home"
        // The number is the upper half of the eight bytes after the connection id.
        for (number, moves) in [(0xffff_fffe, true), (0, true), (0xffff_ffff, false), (0, false), (1, true)]
            as [(UInt64, Bool)]
        {
            let from = at + "+"
            _ = setup.receives(.data, number << 32, from: from)
            if moves { at = from }
            #expect(setup.path.address == at)
        }
    }

    @Test("A reliable session continues behind a NAT that dropped its mapping, and nothing is lost")
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

    @Test("A reliable session echoes everything in order over a path with loss and delay")
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
