import TestSupport
import Testing

@testable import Protocols

@Suite("MQTT: repeated packets")
struct MQTTRepetitionTests {
    private let sessions = MQTTSessions()

    private func server(clean: Bool, free: Int = 1) throws -> MQTTServerHarness {
        var server = try mqttServer {
            $0.routesSignals = true
            $0.sessions = sessions
            $0.maximumUnreleased = free
        }
        server.start()
        var hello = MQTTConnect(clientID: "bob")
        hello.cleanSession = clean
        server.feed(encoded(.connect(hello)))
        _ = server.takeOutput()
        return server
    }

    private func publish(_ id: UInt8, again: Bool = false) -> [UInt8] {
        [again ? 0x3c : 0x34, 6, 0, 1, 0x74, 0, id, 9]
    }

    @Test("A repeated message of QoS 2, and PUBREL for none, are answered and count as control work")
    func counted() throws {
        var server = try server(clean: true)
        server.feed(publish(1))
        #expect(server.context.counters.controlWork == 0)
        server.feed(publish(1) + publish(1))
        #expect(server.context.counters.controlWork == 2 && server.context.counters.duplicates == 2)
        server.feed([0x62, 2, 0, 1])
        #expect(server.context.counters.controlWork == 2)
        server.feed([0x62, 2, 0, 1, 0x62, 2, 0, 8])
        #expect(server.context.counters.controlWork == 4)
        let received = Array(repeatElement([0x50, 2, 0, 1] as [UInt8], count: 3).joined())
        #expect(server.takeOutput() == received + [0x70, 2, 0, 1, 0x70, 2, 0, 1, 0x70, 2, 0, 8])
    }

    @Test("A client that resumes a session may repeat as many packets as could be in flight, and no more")
    func resumed() throws {
        var first = try server(clean: false, free: 4)
        first.feed(publish(1) + publish(2) + publish(3))
        var second = try server(clean: false, free: 4)
        second.feed(([1, 2, 3] as [UInt8]).flatMap { publish($0, again: true) } + [0x62, 2, 0, 4])
        #expect(second.context.counters.controlWork == 0)
        second.feed(publish(1) + [0x62, 2, 0, 4])
        #expect(second.context.counters.controlWork == 2 && second.failure == nil)
    }

    @Test("An identifier of a former connection that comes without DUP belongs to a new message")
    func reusedIdentifier() throws {
        func published(_ server: borrowing MQTTServerHarness) -> Int {
            server.signals.count { if case .published = $0 { true } else { false } }
        }
        var first = try server(clean: false, free: 2)
        first.feed(publish(1) + publish(2))
        // The client has lost its session, and sends as many new messages.
        var second = try server(clean: false, free: 2)
        second.feed(publish(1) + publish(2))
        #expect(published(second) == 2 && second.failure == nil && second.context.counters.duplicates == 0)
        #expect(second.takeOutput() == [0x50, 2, 0, 1, 0x50, 2, 0, 2])
        // From now on the identifiers belong to this connection, until they are released.
        second.feed(publish(1) + publish(2, again: true))
        #expect(published(second) == 2 && second.context.counters.duplicates == 2)
        second.feed([0x62, 2, 0, 1] + publish(1))
        #expect(published(second) == 3 && second.failure == nil)
        // The next connection finds their new state.
        var third = try server(clean: false, free: 2)
        third.feed(publish(1, again: true) + [0x62, 2, 0, 2] + publish(2))
        #expect(published(third) == 1 && third.context.counters.duplicates == 1 && third.failure == nil)
    }

    @Test("A client also takes an old identifier without DUP for a new message")
    func restartedBroker() throws {
        let session = MQTTSession()
        var first = try mqttClient(of: session)
        first.feed(publish(1))
        first.core.confirmReceipt(&first.context)
        var second = try mqttClient(of: session)
        second.feed(publish(1))
        #expect(second.messages.count == 1)
        second.feed(publish(1, again: true))
        #expect(second.messages.count == 1 && second.context.counters.duplicates == 1)
        second.core.confirmReceipt(&second.context)
        #expect(second.takeOutput().suffix(4) == [0x50, 2, 0, 1] && second.failure == nil)
    }

    @Test("A repeated PUBREC, and acknowledgements of completed messages, count as control work")
    func acknowledgements() throws {
        var server = try server(clean: false)
        var message = MQTTPublish(topic: "t", payload: [1])
        message.qos = .exactlyOnce
        let isTaken = server.core.session?.outbox.append(message)
        #expect(isTaken == true)
        server.drain()
        server.feed([0x50, 2, 0, 1, 0x50, 2, 0, 1])
        #expect(server.context.counters.controlWork == 0)
        server.feed([0x50, 2, 0, 1])
        #expect(server.context.counters.controlWork == 1)
        server.feed([0x70, 2, 0, 1, 0x70, 2, 0, 1, 0x50, 2, 0, 1, 0x40, 2, 0, 9])
        #expect(server.context.counters.controlWork == 4 && server.failure == nil)
    }
}
