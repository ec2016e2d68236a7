import Testing
import TransportAPI

@testable import Transports

@Suite("UDP sessions")
struct UDPSessionTests {
    /// An open client, the server it is connected to, and the connection id as it stands on the wire.
    struct Pair: ~Copyable {
        var client: CoreHarness<UDPCore>
        var server: SimulatedServer

        init(_ configuration: UDPConfiguration = UDPConfiguration(), seed: UInt64 = 1) throws {
            var client = try startedClient(configuration, seed: seed)
            var server = try SimulatedServer(configuration)
            exchange(&client, &server)
            self.client = client
            self.server = server
        }

        var identifier: UInt64 { client.core.connectionID }
        var wireIdentifier: [UInt8] { withUnsafeBytes(of: identifier.bigEndian, Array.init) }
    }

    @Test("Data, ping, pong and goodbye have the documented bytes")
    func goldenBytes() throws {
        var pair = try Pair()
        let identifier = pair.wireIdentifier
        #expect(pair.client.isOpen == true)
        #expect(try pair.client.send(Payload(text: "hi")) == .written)
        #expect(try pair.client.send(Payload([])) == .written)
        try pair.client.core.ping(&pair.client.context)
        pair.client.core.close(CloseReason(.user, text: "bye"), &pair.client.context)
        let datagrams = pair.client.takeDatagrams()
        #expect(
            datagrams == [
                [0x49, 0x4d, 1, 5] + identifier + [0, 0, 0, 0, 0x68, 0x69],
                [0x49, 0x4d, 1, 5] + identifier + [0, 0, 0, 1],
                [0x49, 0x4d, 1, 6] + identifier + [0, 0, 0, 0, 0, 0, 0, 1],
                [0x49, 0x4d, 1, 8] + identifier + [0x03, 0xe8, 0x62, 0x79, 0x65],
            ]
        )
        let answers = datagrams.flatMap { pair.server.receive($0) }
        #expect(answers == [[0x49, 0x4d, 1, 7] + identifier + [0, 0, 0, 0, 0, 0, 0, 1]])
        #expect(pair.server.messages == [[0x68, 0x69], []])
        #expect(pair.server.closeReasons == [CloseReason(.peer, code: 1000, text: "bye")])
        #expect(pair.server.listener.sessionCount == 0)
    }

    @Test("Messages flow both ways, whatever address the client has by then")
    func bothWays() throws {
        var pair = try Pair()
        #expect(try pair.client.send(Payload([1])) == .written)
        exchange(&pair.client, &pair.server, address: [9, 9, 9, 9])
        #expect(pair.server.messages == [[1]])
        let back = pair.server.run(pair.identifier) { core, context in
            _ = try? core.send(Payload([2]), id: 0, &context)
        }
        for datagram in back { pair.client.feed(datagram: datagram) }
        #expect(pair.client.messages == [Payload([2])])
    }

    @Test("The largest message arrives, a larger one or one with a topic is refused, and the session lives on")
    func limits() throws {
        var pair = try Pair()
        #expect(pair.client.core.capabilities.maximumMessageSize == 1200)
        #expect(!pair.client.core.capabilities.isReliable && !pair.client.core.capabilities.isOrdered)
        #expect(failsWith(.messageTooLarge) { _ = try pair.client.send(Payload([UInt8](repeating: 1, count: 1201))) })
        #expect(failsWith(.unsupported) { _ = try pair.client.send(Payload([1], topic: "t")) })
        #expect(pair.client.takeDatagrams().isEmpty)
        #expect(try pair.client.send(Payload([UInt8](repeating: 1, count: 1200))) == .written)
        exchange(&pair.client, &pair.server)
        #expect(pair.server.messages.map(\.count) == [1200])
        let large = [0x49, 0x4d, 1, 5] + pair.wireIdentifier + [0, 0, 0, 9] + [UInt8](repeating: 1, count: 1201)
        #expect(pair.server.receive(large).isEmpty)
        #expect(pair.server.messages.count == 1 && pair.server.sessions.count == 1)
    }

    @Test("Doubled messages are dropped and counted, late ones delivered and counted")
    func duplicatesAndReordering() throws {
        var pair = try Pair()
        for byte in 0..<4 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
        let sent = pair.client.takeDatagrams()
        for index in [0, 2, 1, 1, 3, 0, 2] { _ = pair.server.receive(sent[index]) }
        #expect(pair.server.messages == [[0], [2], [1], [3]])
        #expect(pair.server.counters.duplicates == 3 && pair.server.counters.reordered == 1)
    }

    @Test("Sequence numbers go on across 2³²")
    func wrapAround() throws {
        var pair = try Pair()
        pair.client.core.nextSequence = .max - 1
        for byte in 0..<4 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
        let sent = pair.client.takeDatagrams()
        #expect(Array(sent[2][12..<16]) == [0, 0, 0, 0])
        for index in [0, 2, 1, 2, 3, 1] { _ = pair.server.receive(sent[index]) }
        #expect(pair.server.messages == [[0], [2], [1], [3]])
        #expect(pair.server.counters.duplicates == 2 && pair.server.counters.reordered == 1)
    }

    @Test("Over a bad link each message arrives at most once, and those that are not lost arrive")
    func badLink() throws {
        var pair = try Pair()
        var link = UnreliableLink(loss: 0.2, doubling: 0.3, delay: 0.3, seed: 8)
        var carried: Set<[UInt8]> = []
        for number in 0..<2000 {
            _ = try pair.client.send(Payload([UInt8(number >> 8), UInt8(number & 255)]))
            for datagram in link.carry(pair.client.takeDatagrams()) {
                carried.insert(datagram)
                _ = pair.server.receive(datagram)
            }
        }
        #expect(Set(pair.server.messages).count == pair.server.messages.count)
        #expect(pair.server.messages.count == carried.count && carried.count > 1400)
        #expect(pair.server.counters.duplicates > 200 && pair.server.counters.reordered > 200)
    }

    @Test("Pings are answered; the answer to one stands for the lost ones before it, and counts once")
    func pings() throws {
        var pair = try Pair()
        for _ in 0..<3 { try pair.client.core.ping(&pair.client.context) }
        let pings = pair.client.takeDatagrams()
        let pong = pair.server.receive(pings[1])[0]
        pair.client.feed(datagram: pong)
        #expect(pair.client.pongs == 2)
        pair.client.feed(datagram: pong)
        pair.client.feed(datagram: pair.server.receive(pings[0])[0])
        #expect(pair.client.pongs == 2)
        pair.client.feed(datagram: pair.server.receive(pings[2])[0])
        #expect(pair.client.pongs == 3)
        pair.client.feed(datagram: [0x49, 0x4d, 1, 7] + pair.wireIdentifier + [UInt8](repeating: 0xff, count: 8))
        #expect(pair.client.pongs == 3)
    }

    @Test("A goodbye ends both sides at once and is not answered")
    func goodbye() throws {
        var pair = try Pair()
        let bye = pair.server.run(pair.identifier) { core, context in
            core.close(CloseReason(.user, code: 1012, text: "restart"), &context)
        }
        #expect(pair.server.closeReasons == [CloseReason(.user, code: 1012, text: "restart")])
        pair.client.feed(datagram: bye[0])
        let error = TransportError.webSocketClose(1012, reason: "restart")
        #expect(pair.client.closeReason == CloseReason(.peer, code: 1012, text: "restart", error: error))
        #expect(pair.client.takeDatagrams().isEmpty)
        #expect(failsWith(.closedByPeer) { _ = try pair.client.send(Payload([1])) })
        pair.client.feed(datagram: bye[0])
        #expect(pair.client.events.count == 2)
    }

    @Test("A server that has forgotten the session says so in fewer bytes, and the client ends at once")
    func gone() throws {
        var pair = try Pair()
        var restarted = try SimulatedServer(seed: 6)
        #expect(try pair.client.send(Payload([])) == .written)
        let answer = restarted.receive(pair.client.takeDatagrams()[0])
        #expect(answer == [[0x49, 0x4d, 1, 9] + pair.wireIdentifier])
        var wrong = answer[0]
        wrong[11] ^= 1
        pair.client.feed(datagram: wrong)
        #expect(pair.client.failure == nil)
        pair.client.feed(datagram: answer[0])
        #expect(pair.client.failure?.code == .connectionReset)
    }

    @Test(
        "Nothing but data and ping of an unknown session is answered, so that no two peers answer each other for ever"
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

    @Test("Without the connection id nobody can speak in a session or end it")
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

    @Test("Malformed datagrams with the right connection id are dropped; a server does not believe that it is gone")
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

    @Test("A silent session ends after the idle timeout, and tells the client; any datagram keeps it")
    func idleTimeout() throws {
        var pair = try Pair(UDPConfiguration(idleTimeout: .seconds(10)))
        pair.client.advance(by: .seconds(9))
        try pair.client.core.ping(&pair.client.context)
        exchange(&pair.client, &pair.server)
        for second in 10...18 {
            pair.server.now = Instant.zero.advanced(by: .seconds(second))
            #expect(pair.server.run(pair.identifier) { _, _ in }.isEmpty && pair.server.failures.isEmpty)
        }
        pair.server.now = Instant.zero.advanced(by: .seconds(19))
        let bye = pair.server.run(pair.identifier) { _, _ in }
        #expect(pair.server.failures.map(\.code) == [.keepaliveTimeout] && pair.server.listener.sessionCount == 0)
        pair.client.feed(datagram: bye[0])
        #expect(pair.client.closeReason?.error?.code == .timedOut)
    }

    @Test("Plain datagrams carry the message alone; the server tells clients apart by address")
    func plain() throws {
        let configuration = UDPConfiguration(isPlain: true, maximumPayloadSize: 4)
        var client = try startedClient(configuration)
        client.drain()
        #expect(client.isOpen && client.takeDatagrams().isEmpty && !client.core.capabilities.hasNativePing)
        #expect(failsWith(.unsupported) { try client.core.ping(&client.context) })
        #expect(failsWith(.unsupported) { _ = try client.send(Payload([])) })
        #expect(failsWith(.messageTooLarge) { _ = try client.send(Payload([1, 2, 3, 4, 5])) })
        #expect(try client.send(Payload([1, 2])) == .written)
        #expect(client.takeDatagrams() == [[1, 2]])
        var server = try SimulatedServer(configuration)
        for address in [[1], [2], [1]] as [[UInt8]] { #expect(server.receive([1, 2, 3], from: address).isEmpty) }
        #expect(server.receive([1, 2, 3, 4, 5], from: [1]).isEmpty && server.receive([], from: [3]).isEmpty)
        #expect(server.opened == 2 && server.messages.count == 3 && server.listener.sessionCount == 2)
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.closeReason == .user && client.takeDatagrams().isEmpty)
    }

    @Test("A plain server takes no more addresses than it may")
    func plainLimit() throws {
        var server = try SimulatedServer(UDPConfiguration(isPlain: true, maximumSessions: 3))
        for address in 0..<10 as Range<UInt8> { _ = server.receive([1], from: [address]) }
        #expect(server.listener.sessionCount == 3 && server.drops.count == 7)
    }

    @Test("Ended sessions are remembered in bounded number")
    func spentBound() {
        var spent = SpentAttempts(limit: 100)
        for attempt in 0..<10_000 as Range<UInt64> { spent.insert(attempt, now: .zero) }
        #expect((0..<10_000 as Range<UInt64>).filter { spent.contains($0) } == Array(9900..<10_000))
        spent.forgetExpired(now: Instant.zero.advanced(by: UDPCookies.lifetime))
        #expect(!spent.contains(9999))
    }

    @Test("Each wrong value of the configuration is refused by its key")
    func configuration() {
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(maximumPayloadSize: 0)) } == "maximumPayloadSize")
        #expect(
            refusedKey { try UDPCore(client: UDPConfiguration(maximumPayloadSize: 65_492)) } == "maximumPayloadSize"
        )
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(isPlain: true, maximumPayloadSize: 65_507)) } == nil)
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(handshakeTimeout: .zero)) } == "handshakeTimeout")
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(idleTimeout: .seconds(-1))) } == "idleTimeout")
        #expect(refusedKey { try SimulatedServer(UDPConfiguration(maximumSessions: 0)).sessions } == "maximumSessions")
    }

    @Test("Mutated datagrams never trap, never end a session but by goodbye, and never draw a larger answer")
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
