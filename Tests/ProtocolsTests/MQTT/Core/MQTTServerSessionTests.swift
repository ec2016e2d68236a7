import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Sessions on the side of a broker, byte by byte: CONNACK and queued messages.
@Suite("MQTT sessions at a server")
struct MQTTServerSessionTests {
    private func connect(_ sessions: MQTTSessions, clean: Bool = false, window: Int = 2) throws -> MQTTServerHarness {
        var server = try mqttServer {
            $0.sessions = sessions
            $0.routesSignals = true
            $0.maximumInFlight = window
        }
        server.start()
        var hello = MQTTConnect(clientID: "bob")
        hello.cleanSession = clean
        server.feed(encoded(.connect(hello)))
        return server
    }

    private func message(_ byte: UInt8, _ qos: MQTTQoS) -> MQTTPublish {
        var publish = MQTTPublish(topic: "t", payload: [byte])
        publish.qos = qos
        return publish
    }

    @Test("CONNACK reports whether there is a session, and a clean session ends the former one")
    func present() throws {
        let sessions = MQTTSessions()
        for (clean, present) in [(false, 0), (false, 1), (true, 0), (true, 0), (false, 0)] as [(Bool, UInt8)] {
            var server = try connect(sessions, clean: clean)
            #expect(server.takeOutput() == [0x20, 2, present, 0])
        }
    }

    @Test("Too many sessions are answered with CONNACK 3")
    func tooMany() throws {
        let sessions = MQTTSessions(maximumKept: 0)
        var server = try connect(sessions)
        #expect(server.takeOutput() == [0x20, 2, 0, 3] && server.failure != nil)
    }

    @Test("A client that reconnects very often takes no more memory, and sessions still expire in order")
    func frequentReconnects() throws {
        let sessions = MQTTSessions(maximumKept: 2, expiry: .seconds(10))
        func open(_ name: String, _ now: Instant) -> MQTTSession? {
            var connect = MQTTConnect(clientID: name)
            connect.cleanSession = false
            return sessions.open(connect, now: now)?.session
        }
        let ann = try #require(open("ann", .zero))
        sessions.left(ann, now: .zero)
        let bob = try #require(open("bob", .zero))
        var most = 0
        for second in 1...100_000 {
            let now = Instant.zero.advanced(by: .milliseconds(second / 20))
            let isSame = open("bob", now) === bob
            #expect(isSame)
            sessions.left(bob, now: now)
            most = max(most, sessions.leaveCount)
        }
        #expect(most <= 100)
        // Ann has been away longer than bob, and by now for 10 s.
        sessions.expire(.zero.advanced(by: .seconds(10)))
        #expect(sessions.takeForgotten() == [ann.id])
    }

    @Test("Queued messages are sent as the window opens, and the next connection first repeats unacknowledged ones")
    func outbox() throws {
        let sessions = MQTTSessions()
        var first = try connect(sessions)
        _ = first.takeOutput()
        let session = try #require(first.core.session)
        for byte in 1...4 as ClosedRange<UInt8> {
            let isTaken = session.outbox.append(message(byte, byte.isMultiple(of: 2) ? .exactlyOnce : .atLeastOnce))
            #expect(isTaken)
        }
        first.drain()
        #expect(first.takeOutput() == [0x32, 6, 0, 1, 0x74, 0, 1, 1, 0x34, 6, 0, 1, 0x74, 0, 2, 2])
        first.feed([0x40, 2, 0, 1, 0x50, 2, 0, 2])
        #expect(first.takeOutput() == [0x32, 6, 0, 1, 0x74, 0, 3, 3, 0x62, 2, 0, 2])
        var second = try connect(sessions)
        #expect(second.takeOutput() == [0x20, 2, 1, 0, 0x3a, 6, 0, 1, 0x74, 0, 3, 3, 0x62, 2, 0, 2])
        second.feed([0x40, 2, 0, 3, 0x70, 2, 0, 2])
        #expect(second.takeOutput() == [0x34, 6, 0, 1, 0x74, 0, 4, 4])
        #expect(session.outbox.count == 0 && second.failure == nil)
    }

    @Test(
        "The next connection repeats a full window in order, before the messages that were queued behind it",
        arguments: 1...2
    )
    func fullWindow(qos: Int) throws {
        let sessions = MQTTSessions()
        func payloads(_ bytes: [UInt8]) -> [UInt8] {
            readPackets(bytes).packets.flatMap { packet -> [UInt8] in
                guard case .publish(let publish) = packet else { return [] }
                return Array(publish.payload)
            }
        }
        func answers(_ id: UInt8) -> [UInt8] {
            qos == 1 ? [0x40, 2, 0, id] : [0x50, 2, 0, id, 0x70, 2, 0, id]
        }
        var first = try connect(sessions, window: 8)
        let session = try #require(first.core.session)
        for byte in 1...20 as ClosedRange<UInt8> {
            let isTaken = session.outbox.append(message(byte, qos == 1 ? .atLeastOnce : .exactlyOnce))
            #expect(isTaken)
        }
        first.drain()
        var sent = payloads(first.takeOutput())
        #expect(sent == [UInt8](1...8))
        for id in 1...3 as ClosedRange<UInt8> { first.feed(answers(id)) }
        sent = payloads(first.takeOutput())
        #expect(sent == [UInt8](9...11))
        var second = try connect(sessions, window: 8)
        sent = payloads(second.takeOutput())
        #expect(sent == [UInt8](4...11))
        for id in 4...20 as ClosedRange<UInt8> { second.feed(answers(id)) }
        sent = payloads(second.takeOutput())
        #expect(sent == [UInt8](12...20) && session.outbox.count == 0 && second.failure == nil)
    }

    @Test("A routed message of QoS 2 is not routed again for the next connection")
    func routedOnce() throws {
        let sessions = MQTTSessions()
        var first = try connect(sessions)
        first.feed([0x34, 6, 0, 1, 0x74, 0, 1, 9])
        var second = try connect(sessions)
        second.feed([0x3c, 6, 0, 1, 0x74, 0, 1, 9, 0x62, 2, 0, 1])
        func published(_ server: borrowing MQTTServerHarness) -> Int {
            server.signals.filter { if case .published = $0 { true } else { false } }.count
        }
        #expect(published(first) == 1 && published(second) == 0)
        #expect(second.takeOutput() == [0x20, 2, 1, 0, 0x50, 2, 0, 1, 0x70, 2, 0, 1])
    }
}
