import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Delays that do not count as silence: answers that are not read yet, and output that is not written yet.
@Suite("MQTT: delays that are not silence")
struct MQTTDelayTests {
    private func publisher(keepAlive: Int) throws -> MQTTClientHarness {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.publishTopic = "t"
            $0.keepAlive = keepAlive
        }
        client.openByHand()
        return client
    }

    @Test("While nothing is read, no answer is overdue, and PINGREQ is still sent")
    func unread() throws {
        var client = try publisher(keepAlive: 60)
        _ = try client.send(Payload([]), id: 1)
        _ = client.takeOutput()
        client.advanceUnread(by: .seconds(600))
        #expect(client.failure == nil)
        #expect(client.takeOutput() == (1...13).flatMap { _ in [0xc0, 0] as [UInt8] })
        // All packets were answered, and now the answers are read.
        client.feed([0x40, 2, 0, 1] + (1...13).flatMap { _ in [0xd0, 0] as [UInt8] })
        #expect(client.acknowledged == [1] && client.pongs == Array(1...13) && client.failure == nil)
        client.feed([0xd0, 0])
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("A ping of the user is answered among unread answers to keep alive pings")
    func userPing() throws {
        var client = try publisher(keepAlive: 60)
        client.advanceUnread(by: .seconds(100))
        let number = try client.core.ping(&client.context)
        client.advanceUnread(by: .seconds(100))
        #expect(client.takeOutput().count == 2 * 5)
        client.feed((1...5).flatMap { _ in [0xd0, 0] as [UInt8] })
        #expect(client.pongs.contains(number) && client.failure == nil)
        // No answer is pending any more.
        client.advance(by: .seconds(44))
        #expect(client.failure == nil)
    }

    @Test("A client that reads again and finds no answer waits no longer than usual")
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

    @Test("While output leaves slowly, no answer is overdue, and no PINGREQ is queued behind it")
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
        "An acknowledgement may come after many messages, and is overdue if PINGRESP comes before it",
        arguments: [0, 60],
        [true, false]
    )
    func behindOtherMessages(keepAlive: Int, isAcknowledged: Bool) throws {
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

    @Test("A client ends the connection to a silent broker that owes an acknowledgement")
    func missingAcknowledgement() throws {
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

    @Test("Output that does not move is detected by PINGREQ, like any other dead path")
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

    @Test("A server waits for acknowledgements as long as its client is alive", arguments: [true, false])
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

    @Test("While a server does not read its client, the client's silence does not count")
    func unreadClient() throws {
        var server = try mqttServer()
        server.acceptByHand(keepAlive: 10)
        server.advanceUnread(by: .seconds(60))
        server.advance(by: .seconds(14))
        #expect(server.failure == nil)
        server.advance(by: .seconds(1))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("For a server, the bytes of a long PUBLISH are signs of life, and those of other packets are not")
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

extension CoreHarness where Core: MQTTCore {
    /// Advances the clock while no input is read.
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
