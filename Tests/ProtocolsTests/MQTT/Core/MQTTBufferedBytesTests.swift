import TestSupport
import Testing

@testable import Protocols

@Suite("MQTT: what a server buffers for its client")
struct MQTTBufferedBytesTests {
    private func opened(
        _ hello: MQTTConnect = MQTTConnect(clientID: "b"),
        _ change: (inout MQTTServerConfiguration) -> Void
    ) throws -> MQTTServerHarness {
        var server = try mqttServer(change)
        server.start()
        server.feed(encoded(.connect(hello)))
        return server
    }

    @Test("The identifier and the will of a client count as buffered while a broker keeps them")
    func connect() throws {
        var hello = MQTTConnect(clientID: String(repeating: "n", count: 1000))
        hello.will = MQTTWill(topic: "gone", payload: [UInt8](repeating: 1, count: 5000))
        var broker = try opened(hello) {
            $0.routesSignals = true
            $0.sessions = MQTTSessions()
        }
        #expect(broker.isOpen && broker.core.bufferedBytes == 6004)
        var alone = try opened(hello) { $0.routesSignals = false }
        #expect(alone.isOpen && alone.core.bufferedBytes == 0)
    }

    @Test("The filters of a client count as buffered if no broker keeps them")
    func filters() throws {
        var server = try opened { $0.maximumSubscriptions = 2 }
        let filters = ["a", "bcd", "beyond"].map { MQTTSubscription($0) }
        server.feed(encoded(.subscribe(1, filters)))
        #expect(server.core.bufferedBytes == 4)
        server.feed(encoded(.unsubscribe(2, ["bcd"])))
        #expect(server.core.bufferedBytes == 1)
    }

    @Test("The last topic of a client counts as buffered, and a broker does not keep a long one")
    func lastTopic() throws {
        for (routes, length, kept) in [(true, 256, 256), (true, 257, 0), (true, 65_535, 0), (false, 65_535, 65_535)] {
            var server = try opened { $0.routesSignals = routes }
            let topic = String(repeating: "t", count: length)
            for _ in 0..<2 { server.feed(encoded(.publish(MQTTPublish(topic: topic, payload: [1])))) }
            #expect(server.failure == nil && server.core.bufferedBytes == kept)
            let topics = server.signals.map { if case .published(let publish) = $0 { publish.topic } else { "" } }
            #expect(topics.suffix(2) == (routes ? [topic, topic] : []))
        }
    }

    @Test("Identifiers that a client has not released count as buffered")
    func unreleased() throws {
        var server = try opened { $0.routesSignals = true }
        for id in 1...100 as ClosedRange<UInt8> { server.feed([0x34, 6, 0, 1, 120, 0, id, 65]) }
        #expect(server.failure == nil && 400...2000 ~= server.core.bufferedBytes)
    }

    @Test("An identifier that is too long is refused with CONNACK 2, and a will that is too large with CONNACK 5")
    func refused() throws {
        let change: (inout MQTTServerConfiguration) -> Void = {
            $0.maximumClientID = 30
            $0.maximumWill = 10
            $0.authentication = { connect, _, _ in connect.clientID.utf8.count > 30 ? .notAuthorized : .accepted }
        }
        var hello = MQTTConnect(clientID: String(repeating: "n", count: 30))
        hello.will = MQTTWill(topic: "gone", payload: [1, 2, 3, 4, 5, 6])
        var server = try opened(hello, change)
        #expect(server.isOpen && server.takeOutput() == [0x20, 2, 0, 0])
        hello.will?.payload.append(7)
        server = try opened(hello, change)
        #expect(server.takeOutput() == [0x20, 2, 0, 5] && server.failure?.code == .messageTooLarge)
        #expect(server.failure?.reason == "the will has 11 bytes, 10 are allowed")
        hello.will = nil
        hello.clientID += "n"
        server = try opened(hello, change)
        #expect(server.takeOutput() == [0x20, 2, 0, 2] && server.failure?.code == .handshakeFailed)
        #expect(server.failure?.reason == "the client identifier has 31 bytes, 30 are allowed")
    }
}
