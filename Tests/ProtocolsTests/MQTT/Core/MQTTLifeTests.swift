import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("MQTT keep alive and closing")
struct MQTTLifeTests {
    @Test("Pings are answered in order")
    func pings() throws {
        var client = try mqttClient()
        var server = try mqttServer()
        connect(&client, &server)
        for _ in 0..<3 { try client.core.ping(&client.context) }
        exchange(&client, &server)
        #expect(client.pongs == [1, 2, 3])
        #expect(codeOf { () throws(TransportError) in try server.core.ping(&server.context) } == .unsupported)
        #expect(client.core.capabilities.hasNativePing && !server.core.capabilities.hasNativePing)
    }

    @Test("An idle client pings by itself")
    func automatic() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        var server = try mqttServer()
        connect(&client, &server)
        client.advance(by: .seconds(44))
        #expect(client.takeOutput().isEmpty)
        client.advance(by: .seconds(1))
        #expect(client.takeOutput() == [0xc0, 0])
        client.feed([0xd0, 0])
        #expect(client.pongs == [1] && client.failure == nil)
        client.advance(by: .seconds(30))
        _ = try client.send(Payload([], topic: "t"))
        _ = client.takeOutput()
        client.feed(encoded(.publish(MQTTPublish(topic: "t", payload: []))))
        client.advance(by: .seconds(44))
        #expect(client.takeOutput().isEmpty)
    }

    @Test("A client that only sends, or only receives, pings as often as an idle one", arguments: [true, false])
    func oneWay(sends: Bool) throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        client.openByHand()
        var pings = 0
        for _ in 0..<90 {
            if sends {
                _ = try client.send(Payload([], topic: "t"))
                _ = client.takeOutput()
            } else {
                client.feed(encoded(.publish(MQTTPublish(topic: "t", payload: []))))
            }
            client.advance(by: .seconds(5))
            if client.takeOutput() == [0xc0, 0] {
                pings += 1
                client.feed([0xd0, 0])
            }
        }
        #expect(client.failure == nil && pings == 10)
    }

    @Test("A client that only sends detects that nothing comes back")
    func deadReturnPath() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        client.openByHand()
        for _ in 0..<11 {
            _ = try client.send(Payload([], topic: "t"))
            client.advance(by: .seconds(5))
        }
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("Answers to a user's pings and to keep alive pings have their numbers, whichever came first")
    func mixedPings() throws {
        var client = try mqttClient { $0.keepAlive = 4 }
        client.openByHand()
        let first = try client.core.ping(&client.context)
        client.advance(by: .seconds(3))
        let second = try client.core.ping(&client.context)
        #expect(client.takeOutput() == [0xc0, 0, 0xc0, 0, 0xc0, 0])
        client.feed([0xd0, 0])
        #expect(client.pongs == [first])
        client.feed([0xd0, 0])
        #expect(client.pongs.count == 2)
        client.feed([0xd0, 0])
        #expect(client.pongs.last == second && client.pongs.count == 3)
        client.feed([0xd0, 0])
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("A client that awaits SUBACK sends PINGREQ, so that the broker keeps the connection")
    func pingsBeforeSuback() throws {
        var client = try mqttClient {
            $0.keepAlive = 4
            $0.handshakeTimeout = .seconds(10)
            $0.subscriptions = [MQTTSubscription("in")]
        }
        client.openByHand()
        client.advance(by: .seconds(3))
        #expect(client.takeOutput() == [0xc0, 0])
        client.advance(by: .seconds(3))
        #expect(client.takeOutput() == [0xc0, 0])
        client.feed([0x90, 3, 0, 1, 0, 0xd0, 0, 0xd0, 0])
        #expect(client.isOpen && client.failure == nil)
    }

    @Test("Pings do not extend the time that a client waits for SUBACK")
    func subackInTime() throws {
        var client = try mqttClient {
            $0.keepAlive = 4
            $0.handshakeTimeout = .seconds(10)
            $0.subscriptions = [MQTTSubscription("in")]
        }
        client.openByHand()
        for _ in 0..<9 { client.advance(by: .seconds(1)) }
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .timedOut)
    }

    @Test("A client ends the connection to a broker that does not answer")
    func silentBroker() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        client.openByHand()
        client.advance(by: .seconds(54))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("The bytes of a long message are signs of life for a client")
    func slowMessage() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        client.openByHand()
        client.feed([0x30, 200, 1, 0, 1, 0x74])
        for _ in 0..<20 {
            client.advance(by: .seconds(9))
            client.feed([0])
        }
        #expect(client.failure == nil)
        client.advance(by: .seconds(20))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("A server ends the connection after one and a half times the client's keep alive")
    func silentClient() throws {
        var server = try mqttServer()
        server.acceptByHand(keepAlive: 10)
        server.advance(by: .seconds(14))
        server.feed([0xc0, 0])
        #expect(server.takeOutput() == [0xd0, 0])
        server.advance(by: .seconds(14))
        // A part of a packet does not count, unless the packet is a PUBLISH.
        server.feed([0xc0])
        server.advance(by: .milliseconds(999))
        #expect(server.failure == nil)
        server.advance(by: .milliseconds(1))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("Keep alive 0 disables the timeouts on both sides")
    func off() throws {
        var client = try mqttClient { $0.keepAlive = 0 }
        var server = try mqttServer()
        connect(&client, &server)
        #expect(client.core.deadline == nil && server.core.deadline == nil)
    }

    @Test("Two idle cores stay connected for a simulated day")
    func idleDay() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        var server = try mqttServer()
        connect(&client, &server)
        for _ in 0..<86_400 {
            client.advance(by: .seconds(1))
            server.advance(by: .seconds(1))
            exchange(&client, &server)
        }
        #expect(client.failure == nil && server.failure == nil)
        #expect(client.context.counters.controlFrames >= 2 * 1900)
    }

    @Test("A client sends DISCONNECT, and both sides are closed")
    func disconnect() throws {
        var client = try mqttClient()
        var server = try mqttServer()
        connect(&client, &server)
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.closeReason == .user)
        let bytes = client.takeOutput()
        #expect(bytes == [0xe0, 0])
        server.feed(bytes)
        #expect(server.closeReason?.initiator == .peer)
        #expect(client.core.deadline == nil && server.core.deadline == nil)
        #expect(codeOf { () throws(TransportError) in try client.send(Payload([], topic: "t")) } == .closedByUser)
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.takeOutput().isEmpty && client.events.count == 2)
    }

    @Test("A server closes without a packet, and its client reports a close by the peer")
    func serverCloses() throws {
        var client = try mqttClient()
        var server = try mqttServer()
        connect(&client, &server)
        server.core.close(.user, &server.context)
        server.drain()
        #expect(server.closeReason == .user && server.takeOutput().isEmpty)
        client.endInput()
        #expect(client.closeReason?.initiator == .peer)
    }

    @Test("After a close by the broker, a client with an identifier of its own learns that another one may use it")
    func rival() throws {
        func text(_ name: String?) throws -> String? {
            var client = try mqttClient { $0.clientID = name }
            client.openByHand()
            client.endInput()
            return client.closeReason?.text
        }
        let closed = "the broker closed the connection"
        #expect(try text(nil) == closed && text("") == closed)
        #expect(try text("ann\u{1b}") == "\(closed); if this repeats, another client may use the same client-id 'ann?'")
        #expect(try text(String(repeating: "x", count: 1000))?.hasSuffix("x...'") == true)
    }

    @Test("A connection that ends within a packet or without DISCONNECT is lost")
    func lost() throws {
        var client = try mqttClient()
        client.openByHand()
        client.feed([0x30])
        client.endInput()
        #expect(client.failure?.code == .connectionLost)
        var server = try mqttServer()
        server.acceptByHand()
        server.endInput()
        #expect(server.failure?.code == .connectionLost)
    }

    @Test("A packet of the wrong direction is a violation on an open connection")
    func outOfPlace() throws {
        for first in [0x10, 0x20, 0x82, 0xa2, 0xc0, 0xe0] as [UInt8] {
            var client = try mqttClient()
            client.openByHand()
            client.feed([first])
            #expect(client.failure?.code == .protocolViolation && client.failure?.phase == .open)
        }
        for first in [0x10, 0x20, 0x90, 0xb0, 0xd0] as [UInt8] {
            var server = try mqttServer()
            server.acceptByHand()
            server.feed([first])
            #expect(server.failure?.code == .protocolViolation && server.failure?.phase == .open)
        }
    }

    @Test(
        "Random changes to a session never trap, and each role continues or ends in one error",
        arguments: [true, false]
    )
    func fuzz(isClient: Bool) throws {
        var random = RandomSource.seeded(isClient ? 11 : 12)
        let fromBroker: [UInt8] =
            [0x20, 2, 0, 0, 0x90, 3, 0, 1, 1, 0x32, 7, 0, 2, 0x69, 0x6e, 0, 9, 2, 0x40, 2, 0, 2, 0xd0, 0]
            + [0x30, 5, 0, 2, 0x69, 0x6e, 3, 0xb0, 2, 0, 3, 0x50, 2, 0, 2, 0x70, 2, 0, 2]
            + [0x34, 7, 0, 2, 0x69, 0x6e, 0, 8, 2, 0x62, 2, 0, 8]
        let fromClient: [UInt8] =
            encoded(.connect(MQTTConnect(clientID: "bob"))) + [0x82, 7, 0, 1, 0, 2, 0x69, 0x6e, 1, 0xc0, 0]
            + [0x32, 7, 0, 2, 0x69, 0x6e, 0, 9, 2, 0x40, 2, 0, 1, 0xa2, 6, 0, 2, 0, 2, 0x69, 0x6e]
            + [0x34, 7, 0, 2, 0x69, 0x6e, 0, 8, 2, 0x62, 2, 0, 8, 0x50, 2, 0, 2, 0x70, 2, 0, 2, 0xe0, 0]
        for round in 0..<5_000 {
            let qos: MQTTQoS = round.isMultiple(of: 2) ? .atLeastOnce : .exactlyOnce
            var bytes = isClient ? fromBroker : fromClient
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if isClient {
                let client = try mqttClient {
                    $0.subscriptions = [MQTTSubscription("in", qos: qos)]
                    $0.qos = qos
                }
                run(client, bytes, &random)
            } else {
                run(try mqttServer { $0.qos = qos }, bytes, &random)
            }
        }
    }

    /// Feeds the bytes in pieces of random sizes, with messages and time between them.
    private func run(
        _ side: consuming CoreHarness<some MQTTCore>,
        _ bytes: [UInt8],
        _ random: inout some RandomNumberGenerator
    ) {
        var side = side
        side.start()
        var rest = bytes[...]
        while !rest.isEmpty && side.failure == nil {
            let size = Int.random(in: 1...9, using: &random)
            side.feed(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
            if side.failure == nil { _ = try? side.send(Payload([1], topic: "out"), id: 1) }
            side.advance(by: .milliseconds(Int.random(in: 0...500, using: &random)))
        }
        side.endInput()
        #expect(side.failure != nil || side.closeReason != nil)
    }
}
