import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("MQTT packets with many filters")
struct MQTTManyFiltersTests {
    private static let filters = (0..<1000).map { "rooms/\($0)" }
    private static let subscribe = MQTTPacket.subscribe(7, filters.map { MQTTSubscription($0, qos: .atLeastOnce) })

    /// Calls `next` until it returns a packet or throws. Returns the number of calls before that, and the outcome.
    private static func pieces(of bytes: [UInt8]) -> (pieces: Int, packet: MQTTPacket?, failure: TransportError?) {
        var reader = MQTTPacketReader(maximumMessageSize: 1 << 20)
        var input = ByteBuffer()
        input.append(contentsOf: bytes)
        var pieces = 0
        do throws(TransportError) {
            while true {
                if let packet = try reader.next(&input) { return (pieces, input.isEmpty ? packet : nil, nil) }
                guard reader.begun != nil else { return (pieces, nil, nil) }
                pieces += 1
            }
        } catch {
            return (pieces, nil, error)
        }
    }

    @Test("A packet is read in pieces of 64 filters or 16 KiB")
    func inPieces() {
        let many = Self.pieces(of: encoded(Self.subscribe))
        #expect(many.pieces == 15 && many.packet == Self.subscribe)
        let long = MQTTPacket.unsubscribe(1, (0..<5).map { "\($0)" + String(repeating: "x", count: 16_000) })
        let large = Self.pieces(of: encoded(long))
        #expect(large.pieces == 2 && large.packet == long)
        let exactly = MQTTPacket.unsubscribe(1, Array(repeating: "a", count: 64))
        let few = Self.pieces(of: encoded(exactly))
        #expect(few.pieces == 0 && few.packet == exactly)
    }

    @Test("An error in a late filter is reported like one in the first")
    func late() {
        var bytes = encoded(Self.subscribe)
        // The QoS of the last filter.
        bytes[bytes.count - 1] = 3
        let read = Self.pieces(of: bytes)
        #expect(read.pieces == 15 && read.failure?.code == .protocolViolation)
        #expect(read.failure?.reason.contains("MQTT-3.8.3-4") == true)
    }

    @Test(
        "A server yields between the pieces, buffers the filters read so far, and drops them with the connection"
    )
    func server() throws {
        var server = try mqttServer { $0.routesSignals = true }
        server.acceptByHand()
        let before = server.core.bufferedBytes
        server.input.append(contentsOf: encoded(Self.subscribe))
        var steps = 0
        var event = try server.core.next(&server.input, &server.context)
        while case .progress? = event, steps < 5 {
            steps += 1
            event = try server.core.next(&server.input, &server.context)
        }
        #expect(steps == 5 && server.core.bufferedBytes > before + 5 * 64 * 8)
        var other = server.core
        other.connectionEnded()
        #expect(other.bufferedBytes == before)
        server.drain()
        let asked = server.signals.compactMap {
            if case .subscribed(let id, let filters) = $0 { (id, filters) } else { nil }
        }
        #expect(asked.map(\.0) == [7] && asked.first?.1.map(\.filter) == Self.filters)
        #expect(server.core.bufferedBytes == before && server.input.isEmpty)
    }

    @Test("Point to point, filters beyond the limit are rejected, and those that are already kept are not")
    func kept() throws {
        var server = try mqttServer { $0.maximumSubscriptions = 3 }
        server.acceptByHand()
        let long = String(repeating: "l", count: 1025)
        let asked = [long, "a", "b", "a", "c", "d", "b"].map { MQTTSubscription($0, qos: .atLeastOnce) }
        server.feed(encoded(.subscribe(1, asked)))
        let one = MQTTQoS.atLeastOnce
        #expect(server.takeOutput() == encoded(.suback(1, [nil, one, one, one, one, nil, one])))
        server.feed(encoded(.unsubscribe(2, ["x", "b", "a", "a"])) + encoded(.subscribe(3, [MQTTSubscription("d")])))
        #expect(server.takeOutput() == encoded(.unsuback(2)) + encoded(.suback(3, [.atMostOnce])))
        #expect(server.core.filters?.subscriptions.map(\.filter) == ["c", "d"])
    }
}
