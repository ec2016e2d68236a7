import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// What is no silence: answers that nobody reads, and what is still on its way out.
@Suite("MQTT, silence that means nothing")
struct MQTTPatienceTests {
    private func publisher(keepAlive: Int) throws -> MQTTHarness {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.publishTopic = "t"
            $0.keepAlive = keepAlive
        }
        client.openByHand()
        return client
    }

    @Test("while nothing is read, no answer is overdue, and PINGREQ goes on")
    func unread() throws {
        var client = try publisher(keepAlive: 60)
        _ = try client.send(Payload([]), id: 1)
        _ = client.takeOutput()
        client.advanceUnread(by: .seconds(600))
        #expect(client.failure == nil)
        #expect(client.takeOutput() == (1...13).flatMap { _ in [0xc0, 0] as [UInt8] })
        // All of it is answered, and is read in the end.
        client.feed([0x40, 2, 0, 1] + (1...13).flatMap { _ in [0xd0, 0] as [UInt8] })
        #expect(client.acknowledged == [1] && client.pongs == 0 && client.failure == nil)
        client.feed([0xd0, 0])
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("a ping of the user is answered among those of keep alive that were not read")
    func userPing() throws {
        var client = try publisher(keepAlive: 60)
        client.advanceUnread(by: .seconds(100))
        try client.core.ping(&client.context)
        client.advanceUnread(by: .seconds(100))
        #expect(client.takeOutput().count == 2 * 5)
        client.feed((1...5).flatMap { _ in [0xd0, 0] as [UInt8] })
        #expect(client.pongs == 1 && client.failure == nil)
        // Nothing is awaited any more.
        client.advance(by: .seconds(44))
        #expect(client.failure == nil)
    }

    @Test("who reads again and finds no answer waits no longer than otherwise")
    func readAgain() throws {
        var client = try publisher(keepAlive: 0)
        _ = try client.send(Payload([]), id: 1)
        client.advanceUnread(by: .seconds(100))
        client.advance(by: .seconds(29))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
        client = try publisher(keepAlive: 60)
        client.advanceUnread(by: .seconds(100))
        client.advance(by: .seconds(9))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("while what was written leaves bit by bit, no answer is overdue, and no PINGREQ stands behind it")
    func slowPath() throws {
        var client = try publisher(keepAlive: 60)
        _ = try client.send(Payload([UInt8](repeating: 1, count: 1 << 20)), id: 1)
        _ = client.takeOutput()
        for _ in 0..<60 {
            client.advance(by: .seconds(10))
            client.context.outputMoved = client.context.now
        }
        #expect(client.failure == nil && client.takeOutput().isEmpty)
        client.advance(by: .seconds(29))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    @Test(
        "an acknowledgement may come behind much that the broker has to send, and is overdue once PINGRESP comes before it",
        arguments: [0, 60],
        [true, false]
    )
    func behindMuch(keepAlive: Int, isAcknowledged: Bool) throws {
        var client = try publisher(keepAlive: keepAlive)
        _ = try client.send(Payload([]), id: 1)
        _ = client.takeOutput()
        var pings = 0
        for _ in 0..<60 {
            client.advance(by: .seconds(5))
            pings += client.takeOutput() == [0xc0, 0] ? 1 : 0
            client.feed(encoded(.publish(MQTTPublish(topic: "t", payload: []))))
        }
        #expect(client.failure == nil && pings > 0)
        client.feed((isAcknowledged ? [0x40, 2, 0, 1] : []) + [0xd0, 0])
        #expect(client.failure?.code == (isAcknowledged ? nil : .acknowledgementTimeout))
        #expect(client.acknowledged == (isAcknowledged ? [1] : []))
        if isAcknowledged, keepAlive == 0 { #expect(client.core.deadline == nil) }
    }

    @Test("a broker that is asked for an acknowledgement and falls silent is given up")
    func silentWhenAsked() throws {
        var client = try publisher(keepAlive: 0)
        _ = try client.send(Payload([]), id: 1)
        client.advance(by: .seconds(20))
        client.feed(encoded(.publish(MQTTPublish(topic: "t", payload: []))))
        _ = client.takeOutput()
        client.advance(by: .seconds(10))
        #expect(client.takeOutput() == [0xc0, 0])
        client.advance(by: .seconds(19))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    @Test("output that does not move is found by PINGREQ, as any other dead path")
    func stuck() throws {
        var client = try mqttClient { $0.keepAlive = 60 }
        client.openByHand()
        client.context.outputMoved = client.context.now.advanced(by: .seconds(5))
        client.advance(by: .seconds(49))
        #expect(client.takeOutput().isEmpty)
        client.advance(by: .seconds(1))
        #expect(client.takeOutput() == [0xc0, 0])
        client.advance(by: .seconds(10))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("a server waits for acknowledgements as long as its client lives", arguments: [true, false])
    func slowClient(routes: Bool) throws {
        var server = try mqttServer {
            $0.routesSignals = routes
            $0.qos = .exactlyOnce
        }
        server.acceptByHand(keepAlive: 60)
        for qos in [MQTTQoS.atLeastOnce, .exactlyOnce] {
            _ = try server.core.publish(topic: "t", payload: [1], qos: qos, id: 1, &server.context)
        }
        for _ in 0..<60 {
            server.advance(by: .seconds(60))
            server.feed([0xc0, 0])
        }
        #expect(server.failure == nil)
        server.advance(by: .seconds(90))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("while a client is not read, its silence means nothing to a server")
    func unreadClient() throws {
        var server = try mqttServer()
        server.acceptByHand(keepAlive: 10)
        server.advanceUnread(by: .seconds(60))
        server.advance(by: .seconds(14))
        #expect(server.failure == nil)
        server.advance(by: .seconds(1))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("to a server, the bytes of a long PUBLISH are signs of life, those of another packet are not")
    func slowPublish() throws {
        var server = try mqttServer()
        server.acceptByHand(keepAlive: 10)
        server.feed([0x30, 200, 1, 0, 1, 0x74])
        for _ in 0..<20 {
            server.advance(by: .seconds(14))
            server.feed([0])
        }
        #expect(server.failure == nil)
        server.advance(by: .seconds(15))
        #expect(server.failure?.code == .keepaliveTimeout)
        server = try mqttServer()
        server.acceptByHand(keepAlive: 10)
        server.feed([0x82, 200, 1])
        server.advance(by: .seconds(14))
        server.feed([0])
        server.advance(by: .seconds(1))
        #expect(server.failure?.code == .keepaliveTimeout)
    }
}

extension CoreHarness where Core == MQTTCore {
    /// Moves the clock on while nothing that comes is read.
    fileprivate mutating func advanceUnread(by duration: Duration) {
        let end = context.now.advanced(by: duration)
        while failure == nil, let deadline = core.deadline, deadline <= end {
            context.now = max(context.now, deadline)
            context.unreadUntil = context.now
            do throws(TransportError) {
                try core.deadlineReached(&context)
            } catch {
                failure = error
            }
        }
        context.now = end
        context.unreadUntil = end
    }
}
