import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Datagrams that are malformed, or that belong to no session.
@Suite("UDP: invalid datagrams")
struct UDPInvalidDatagramTests {
    private typealias Pair = UDPSessionTests.Pair

    @Test(
        "Only data and ping of an unknown session are answered, so that two peers cannot answer each other forever"
    )
    func unknownSessions() throws {
        var server = try SimulatedServer()
        let rest: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        for (kind, size) in [(7, 20), (8, 14)] as [(UInt8, Int)] {
            #expect(server.receive(Array(([0x49, 0x4d, 1, kind] + rest + rest).prefix(size))).isEmpty)
        }
        #expect(server.drops == [.unknownSession, .unknownSession])
        #expect(server.receive([0x49, 0x4d, 1, 6] + rest + rest).map(\.count) == [12])
        #expect(server.receive([0x49, 0x4d, 1, 9] + rest).isEmpty)
    }

    @Test("A peer without the connection id can neither send in a session nor end it")
    func wrongIdentifier() throws {
        var pair = try Pair()
        var wrong = pair.wireIdentifier
        wrong[3] ^= 0x10
        for tail in [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1], [3, 0xe8]] as [[UInt8]] {
            for kind in 1...12 as ClosedRange<UInt8> {
                pair.client.feed(datagram: [0x49, 0x4d, 1, kind] + wrong + tail)
                _ = pair.server.receive([0x49, 0x4d, 1, kind] + wrong + tail)
            }
        }
        #expect(pair.client.events.count == 1 && pair.client.failure == nil && pair.client.takeDatagrams().isEmpty)
        #expect(pair.server.events.count == 1 && pair.server.sessions.count == 1)
    }

    @Test("Malformed datagrams with the right connection id are dropped, and a server ignores a gone datagram")
    func malformed() throws {
        var pair = try Pair()
        let identifier = pair.wireIdentifier
        let cases: [(UInt8, [[UInt8]])] = [
            (5, [[], [0, 0, 0]]),
            (6, [[], [0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 0]]),
            (7, [[], [0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 0]]),
            (8, [[], [3], [3, 0xe8, 0xff], [3, 0xe8] + [UInt8](repeating: 97, count: 121)]),
            (9, [[1], [0, 0, 0, 0]]),
            (11, [[], [0, 0, 0, 0, 0, 0, 0, 1]]),
        ]
        for (kind, tails) in cases {
            for tail in tails {
                pair.client.feed(datagram: [0x49, 0x4d, 1, kind] + identifier + tail)
                _ = pair.server.receive([0x49, 0x4d, 1, kind] + identifier + tail)
            }
        }
        _ = pair.server.receive([0x49, 0x4d, 1, 9] + identifier)
        #expect(pair.client.events.count == 1 && pair.client.failure == nil)
        #expect(pair.server.events.count == 1 && pair.server.sessions.count == 1)
    }

    @Test("A plain server accepts no more addresses than its limit")
    func plainLimit() throws {
        var server = try SimulatedServer(UDPConfiguration(isPlain: true, maximumSessions: 3))
        for address in 0..<10 as Range<UInt8> { _ = server.receive([1], from: [address]) }
        #expect(server.listener.sessionCount == 3 && server.drops.count == 7)
    }

    @Test("A bounded number of ended sessions is remembered")
    func usedCookies() {
        var spent = UsedCookies(limit: 100)
        for attempt in 0..<10_000 as Range<UInt64> { spent.insert(attempt, now: .zero) }
        #expect((0..<10_000 as Range<UInt64>).filter { spent.contains($0) } == Array(9900..<10_000))
        spent.forgetExpired(now: Instant.zero.advanced(by: UDPCookies.lifetime))
        #expect(!spent.contains(9999))
    }

    @Test("Mutated datagrams never trap, end a session only if they close it, and never get a larger answer")
    func fuzz() throws {
        var random = RandomSource.seeded(21)
        for round in 0..<60 as Range<UInt64> {
            var pair = try Pair(seed: round)
            for byte in 0..<3 as Range<UInt8> { _ = try pair.client.send(Payload([byte, byte])) }
            try pair.client.core.ping(&pair.client.context)
            var seeds = pair.client.takeDatagrams()
            seeds += pair.server.run(pair.identifier) { core, context in
                _ = try? core.send(Payload([1, 2, 3]), id: 0, &context)
                try? core.ping(&context)
            }
            seeds.append([0x49, 0x4d, 1, 1] + [UInt8](repeating: 0, count: 60))
            seeds.append([0x49, 0x4d, 1, 3] + [UInt8](repeating: 0, count: 60))
            for _ in 0..<100 {
                var datagram = seeds[Int.random(in: seeds.indices, using: &random)]
                for _ in 0..<Int.random(in: 1...3, using: &random) { mutate(&datagram, using: &random) }
                if !datagram.isEmpty { pair.client.feed(datagram: datagram) }
                #expect(pair.client.input.count == 0)
                _ = pair.server.receive(datagram)
            }
            #expect(pair.server.failures.isEmpty)
        }
    }
}
