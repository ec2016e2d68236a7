import Testing
import TransportAPI

@testable import Transports

@Suite("MQTT, packets that bring nothing new")
struct MQTTRepetitionTests {
    private let sessions = MQTTSessions()

    private func server(clean: Bool, free: Int = 1) throws -> MQTTHarness {
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

    private func publish(_ id: UInt8) -> [UInt8] { [0x34, 6, 0, 1, 0x74, 0, id, 9] }

    @Test("the same message of QoS 2 again, and PUBREL for none, are answered, and are demands")
    func counted() throws {
        var server = try server(clean: true)
        server.feed(publish(1))
        #expect(server.context.counters.demands == 0)
        server.feed(publish(1) + publish(1))
        #expect(server.context.counters.demands == 2 && server.context.counters.duplicates == 2)
        server.feed([0x62, 2, 0, 1])
        #expect(server.context.counters.demands == 2)
        server.feed([0x62, 2, 0, 1, 0x62, 2, 0, 8])
        #expect(server.context.counters.demands == 4)
        let received = Array(repeatElement([0x50, 2, 0, 1] as [UInt8], count: 3).joined())
        #expect(server.takeOutput() == received + [0x70, 2, 0, 1, 0x70, 2, 0, 1, 0x70, 2, 0, 8])
    }

    @Test("who comes back to a session may repeat as much as may have been in flight, and no more")
    func resumed() throws {
        var first = try server(clean: false, free: 4)
        first.feed(publish(1) + publish(2) + publish(3))
        var second = try server(clean: false, free: 4)
        second.feed(publish(1) + publish(2) + publish(3) + [0x62, 2, 0, 4])
        #expect(second.context.counters.demands == 0)
        second.feed(publish(1) + [0x62, 2, 0, 4])
        #expect(second.context.counters.demands == 2 && second.failure == nil)
    }

    @Test("PUBREC again, and acknowledgements of what is settled, are demands")
    func acknowledgements() throws {
        var server = try server(clean: false)
        var message = MQTTPublish(topic: "t", payload: [1])
        message.qos = .exactlyOnce
        let isTaken = server.core.session?.outbox.append(message)
        #expect(isTaken == true)
        server.drain()
        server.feed([0x50, 2, 0, 1, 0x50, 2, 0, 1])
        #expect(server.context.counters.demands == 0)
        server.feed([0x50, 2, 0, 1])
        #expect(server.context.counters.demands == 1)
        server.feed([0x70, 2, 0, 1, 0x70, 2, 0, 1, 0x50, 2, 0, 1, 0x40, 2, 0, 9])
        #expect(server.context.counters.demands == 4 && server.failure == nil)
    }
}
