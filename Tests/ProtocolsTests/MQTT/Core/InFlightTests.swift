import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Packet identifiers in flight")
struct InFlightTests {
    @Test("Every identifier from 1 to 65,535 can be in flight, and one that is free again is reused")
    func exhaustion() {
        var table = InFlight(window: 65_535)
        var seen: Set<UInt16> = []
        for id in 0..<65_535 as Range<UInt64> {
            guard let packetID = table.begin(.publish, id: id, now: .zero) else { break }
            seen.insert(packetID)
        }
        #expect(seen.count == 65_535)
        #expect(!seen.contains(0))
        #expect(table.begin(.publish, id: 0, now: .zero) == nil)
        #expect(table.end(.publish, 40_000) != nil)
        #expect(table.begin(.publish, id: 7, now: .zero) == 40_000)
        #expect(table.end(.publish, 40_000) == 7)
    }

    /// The error code of a subscription, or `nil` if it was sent.
    private func subscribe(_ client: inout MQTTClientHarness) -> TransportError.Code? {
        do throws(TransportError) {
            try client.core.subscribe([MQTTSubscription("s")], id: 70_001, &client.context)
            return nil
        } catch {
            return error.code
        }
    }

    @Test("A client with 65,535 packets in flight sends and subscribes again only after an acknowledgement")
    func exhaustedClient() throws {
        var client = try mqttClient {
            $0.qos = .atLeastOnce
            $0.maximumInFlight = 65_535
        }
        client.openByHand()
        let message = Payload([1], topic: "t")
        for id in 1...65_535 as ClosedRange<UInt64> {
            guard try client.send(message, id: id) == .awaitingAcknowledgement else {
                Issue.record("message \(id) was blocked")
                return
            }
        }
        _ = client.takeOutput()
        #expect(try client.send(message, id: 70_000) == .blocked)
        #expect(subscribe(&client) == .wouldBlock)
        #expect(client.takeOutput().isEmpty)
        client.feed([0x40, 2, 0x9c, 0x40])
        #expect(client.acknowledged == [40_000])
        #expect(try client.send(message, id: 70_000) == .awaitingAcknowledgement)
        #expect(client.takeOutput() == [0x32, 6, 0, 1, 0x74, 0x9c, 0x40, 1])
        #expect(try client.send(message, id: 70_002) == .blocked)
        client.feed([0x40, 2, 0, 7])
        #expect(subscribe(&client) == nil)
        #expect(client.takeOutput() == [0x82, 6, 0, 7, 0, 1, 0x73, 0])
        #expect(client.failure == nil)
    }

    @Test("A full window blocks until a packet is acknowledged")
    func window() {
        var table = InFlight(window: 3)
        let ids = (0..<3).compactMap { table.begin(.publish, id: $0, now: .zero) }
        #expect(ids == [1, 2, 3])
        #expect(table.begin(.publish, id: 3, now: .zero) == nil)
        #expect(table.end(.publish, 2) == 1)
        #expect(table.begin(.publish, id: 3, now: .zero) != nil)
        #expect(table.count == 3)
    }

    @Test("New identifiers follow the newest one of the former connection, whatever the order of the old ones")
    func resumed() {
        var table = InFlight(window: 10)
        for packetID in [65_534, 3, 65_535, 1] as [UInt16] { table.resume(.release, packetID, id: 0, now: .zero) }
        #expect(table.begin(.publish, id: 1, now: .zero) == 4)
        #expect(table.kind(of: 3) == .release && table.kind(of: 2) == .free && table.kind(of: 4) == .publish)
    }

    @Test(
        "All packets of a former connection are resumed, whatever their identifiers and their order"
    )
    func resumedAll() {
        var random = RandomSource.seeded(4)
        for round in 0..<2000 {
            var table = InFlight(window: 64)
            var left: Set<UInt16> = []
            for _ in 0..<round % 40 { left.insert(UInt16.random(in: 1...300, using: &random)) }
            for packetID in left { table.resume(.exactlyOnce, packetID, id: UInt64(packetID), now: .zero) }
            #expect(table.count == left.count)
            for packetID in left { #expect(table.end(.exactlyOnce, packetID) == UInt64(packetID)) }
            #expect(table.count == 0)
        }
    }

    @Test("An identifier ends once, and only by the acknowledgement of its kind")
    func kinds() {
        var table = InFlight(window: 8)
        #expect(table.end(.publish, 1) == nil)
        #expect(table.begin(.subscribe, id: 5, now: .zero) == 1)
        #expect(table.end(.publish, 1) == nil)
        #expect(table.end(.subscribe, 9) == nil)
        #expect(table.end(.subscribe, 1) == 5)
        #expect(table.end(.subscribe, 1) == nil)
    }

    @Test("Identifiers never collide, whatever the order of acknowledgements")
    func random() {
        var random = RandomSource.seeded(3)
        var table = InFlight(window: 100)
        var model: [UInt16: UInt64] = [:]
        for id in 0..<200_000 as Range<UInt64> {
            if model.count == 100 || (!model.isEmpty && Bool.random(using: &random)) {
                guard let (packetID, expected) = model.randomElement(using: &random) else { continue }
                model[packetID] = nil
                #expect(table.end(.publish, packetID) == expected)
            } else if let packetID = table.begin(.publish, id: id, now: .zero) {
                #expect(packetID != 0 && model[packetID] == nil)
                model[packetID] = id
            } else {
                Issue.record("blocked with \(model.count) in flight")
            }
            #expect(table.count == model.count)
        }
    }
}
