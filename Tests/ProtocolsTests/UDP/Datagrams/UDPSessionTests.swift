import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP sessions")
struct UDPSessionTests {
    /// An open client, the server to which it is connected, and the connection id as it is sent.
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

    @Test("Data, ping, pong and close have the documented bytes")
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

    @Test("Messages flow both ways, also after the client's address has changed")
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

    @Test("The largest message arrives, and a larger one or one with a topic is rejected without ending the session")
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

    @Test("Duplicates are dropped and counted, and late messages are delivered and counted")
    func duplicatesAndReordering() throws {
        var pair = try Pair()
        for byte in 0..<4 as Range<UInt8> { _ = try pair.client.send(Payload([byte])) }
        let sent = pair.client.takeDatagrams()
        for index in [0, 2, 1, 1, 3, 0, 2] { _ = pair.server.receive(sent[index]) }
        #expect(pair.server.messages == [[0], [2], [1], [3]])
        #expect(pair.server.counters.duplicates == 3 && pair.server.counters.reordered == 1)
    }

    @Test("Sequence numbers continue across 2³²")
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

    @Test("Over a bad network, each message arrives at most once, and all that are not lost arrive")
    func badConnection() throws {
        var pair = try Pair()
        var connection = UnreliableConnection(loss: 0.2, doubling: 0.3, delay: 0.3, seed: 8)
        var carried: Set<[UInt8]> = []
        for number in 0..<2000 {
            _ = try pair.client.send(Payload([UInt8(number >> 8), UInt8(number & 255)]))
            for datagram in connection.carry(pair.client.takeDatagrams()) {
                carried.insert(datagram)
                _ = pair.server.receive(datagram)
            }
        }
        #expect(Set(pair.server.messages).count == pair.server.messages.count)
        #expect(pair.server.messages.count == carried.count && carried.count > 1400)
        #expect(pair.server.counters.duplicates > 200 && pair.server.counters.reordered > 200)
    }

    @Test("Each pong has the number of its ping, and one that no ping had is dropped")
    func pings() throws {
        var pair = try Pair()
        for _ in 0..<3 { try pair.client.core.ping(&pair.client.context) }
        let pings = pair.client.takeDatagrams()
        let pong = pair.server.receive(pings[1])[0]
        pair.client.feed(datagram: pong)
        #expect(pair.client.pongs == [2])
        pair.client.feed(datagram: pair.server.receive(pings[0])[0])
        pair.client.feed(datagram: pair.server.receive(pings[2])[0])
        #expect(pair.client.pongs == [2, 1, 3])
        pair.client.feed(datagram: [0x49, 0x4d, 1, 7] + pair.wireIdentifier + [UInt8](repeating: 0xff, count: 8))
        #expect(pair.client.pongs == [2, 1, 3])
    }

    @Test("A close datagram ends both sides at once and is not answered")
    func closing() throws {
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

    @Test("A server that has lost the session answers in fewer bytes, and the client ends at once")
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

    @Test("A silent session ends after the idle timeout and notifies its client, and any datagram keeps it open")
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

    @Test("A plain datagram carries only the message, and the server tells clients apart by address")
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

    @Test("Each wrong value of the configuration is rejected by its key")
    func configuration() {
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(maximumPayloadSize: 0)) } == "maximumPayloadSize")
        #expect(
            refusedKey { try UDPCore(client: UDPConfiguration(maximumPayloadSize: 65_492)) } == "maximumPayloadSize"
        )
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(isPlain: true, maximumPayloadSize: 65_507)) } == nil)
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(handshakeTimeout: .zero)) } == "handshakeTimeout")
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(idleTimeout: .seconds(-1))) } == "idleTimeout")
        #expect(refusedKey { try SimulatedServer(UDPConfiguration(maximumSessions: 0)).sessions } == "maximumSessions")
        #expect(refusedKey { try SimulatedServer(UDPConfiguration(maximumHeld: 1000)).sessions } == "maximumHeld")
    }

    @Test("A client that changes its address sends a ping with a number of its own")
    func movedClient() throws {
        var pair = try Pair()
        pair.client.core.moved(&pair.client.context)
        let datagrams = pair.client.takeDatagrams()
        #expect(datagrams.map { $0[3] } == [6])
        for answer in pair.server.receive(datagrams[0]) { pair.client.feed(datagram: answer) }
        #expect(pair.client.pongs == [1])
        let first = try pair.client.core.ping(&pair.client.context)
        pair.client.core.moved(&pair.client.context)
        let last = try pair.client.core.ping(&pair.client.context)
        #expect(first == 2 && last == 4)
        let more = pair.client.takeDatagrams()
        for answer in pair.server.receive(more[1]) { pair.client.feed(datagram: answer) }
        #expect(pair.client.pongs == [1, 3])
        for answer in pair.server.receive(more[2]) { pair.client.feed(datagram: answer) }
        #expect(pair.client.pongs == [1, 3, 4])
    }
}
