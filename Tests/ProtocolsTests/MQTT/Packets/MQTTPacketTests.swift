import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Packets and their bytes, written by hand from the figures of the specification.
private let golden: [(MQTTPacket, [UInt8])] = {
    var plain = MQTTConnect(clientID: "a")
    plain.keepAlive = 60
    var full = MQTTConnect(clientID: "cli")
    full.cleanSession = false
    full.keepAlive = 0x0102
    full.will = MQTTWill(topic: "w/t", payload: [1, 2], qos: .exactlyOnce, retain: true)
    full.user = "u"
    full.password = [0, 255]
    var publish1 = MQTTPublish(topic: "a/b", payload: Array("hi".utf8))
    publish1.qos = .atLeastOnce
    publish1.retain = true
    publish1.isDuplicate = true
    publish1.packetID = 10
    var publish2 = MQTTPublish(topic: "a/b", payload: [])
    publish2.qos = .exactlyOnce
    publish2.packetID = 0xfffe
    return [
        (.connect(plain), [0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 2, 0, 60, 0, 1, 0x61]),
        (
            .connect(full),
            [0x10, 31, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 0xf4, 1, 2, 0, 3, 0x63, 0x6c, 0x69]
                + [0, 3, 0x77, 0x2f, 0x74, 0, 2, 1, 2, 0, 1, 0x75, 0, 2, 0, 255]
        ),
        (.connack(sessionPresent: false, code: 0), [0x20, 2, 0, 0]),
        (.connack(sessionPresent: true, code: 0), [0x20, 2, 1, 0]),
        (.connack(sessionPresent: false, code: 5), [0x20, 2, 0, 5]),
        (.publish(MQTTPublish(topic: "a/b", payload: [7])), [0x30, 6, 0, 3, 0x61, 0x2f, 0x62, 7]),
        (.publish(publish1), [0x3b, 9, 0, 3, 0x61, 0x2f, 0x62, 0, 10, 0x68, 0x69]),
        (.publish(publish2), [0x34, 7, 0, 3, 0x61, 0x2f, 0x62, 0xff, 0xfe]),
        (.puback(1), [0x40, 2, 0, 1]),
        (.pubrec(2), [0x50, 2, 0, 2]),
        (.pubrel(0x0300), [0x62, 2, 3, 0]),
        (.pubcomp(4), [0x70, 2, 0, 4]),
        (
            .subscribe(10, [MQTTSubscription("a/b", qos: .atLeastOnce), MQTTSubscription("c/#", qos: .exactlyOnce)]),
            [0x82, 14, 0, 10, 0, 3, 0x61, 0x2f, 0x62, 1, 0, 3, 0x63, 0x2f, 0x23, 2]
        ),
        (.suback(10, [.atMostOnce, .exactlyOnce, nil]), [0x90, 5, 0, 10, 0, 2, 0x80]),
        (.unsubscribe(10, ["a/b", "+"]), [0xa2, 10, 0, 10, 0, 3, 0x61, 0x2f, 0x62, 0, 1, 0x2b]),
        (.unsuback(10), [0xb0, 2, 0, 10]),
        (.pingreq, [0xc0, 0]),
        (.pingresp, [0xd0, 0]),
        (.disconnect, [0xe0, 0]),
    ]
}()

@Suite("MQTT packets")
struct MQTTPacketTests {
    @Test("Every packet is written as the specification shows it", arguments: golden)
    func writes(packet: MQTTPacket, bytes: [UInt8]) {
        #expect(encoded(packet) == bytes)
    }

    @Test("Every packet is read from the bytes that the specification shows", arguments: golden)
    func reads(packet: MQTTPacket, bytes: [UInt8]) {
        let result = readPackets(bytes)
        #expect(result.packets == [packet])
        #expect(result.failure == nil)
    }

    @Test("A stream of all packets gives the same packets whole, byte by byte and in random slices")
    func slices() {
        let stream = golden.flatMap(\.1)
        let packets = golden.map(\.0)
        #expect(readPackets(stream).packets == packets)
        #expect(readPackets(stream, slices: Array(repeating: 1, count: stream.count)).packets == packets)
        var random = RandomSource.seeded(7)
        for _ in 0..<200 {
            let slices = (0..<stream.count).map { _ in Int.random(in: 1...9, using: &random) }
            let result = readPackets(stream, slices: slices)
            #expect(result.packets == packets && result.failure == nil)
        }
    }

    @Test(
        "The remaining length takes one to four bytes",
        arguments: [(127, 2), (128, 3), (16_383, 3), (16_384, 4), (2_097_151, 4), (2_097_152, 5)]
    )
    func remainingLength(remaining: Int, headerSize: Int) {
        let payload = [UInt8](repeating: 9, count: remaining - 3)
        let bytes = encoded(.publish(MQTTPublish(topic: "t", payload: payload)))
        #expect(bytes.count == remaining + headerSize)
        let result = readPackets(bytes, maximumMessageSize: 4 << 20)
        #expect(result.packets == [.publish(MQTTPublish(topic: "t", payload: payload))])
    }

    @Test("A CONNECT of another protocol level is recognized, whatever follows")
    func otherLevel() {
        let version5: [UInt8] = [0x10, 16, 0, 4, 0x4d, 0x51, 0x54, 0x54, 5, 2, 0, 60, 3, 0x21, 0, 20, 0, 0]
        #expect(readPackets(version5).packets == [.connectOtherLevel(5)])
        #expect(readPackets(encoded(.connectOtherLevel(3))).packets == [.connectOtherLevel(3)])
    }

    @Test("A byte order mark belongs to the topic")
    func byteOrderMark() {
        let result = readPackets([0x30, 6, 0, 4, 0xef, 0xbb, 0xbf, 0x61])
        guard case .publish(let publish)? = result.packets.first else {
            Issue.record("the packet is not a PUBLISH")
            return
        }
        #expect(Array(publish.topic.utf8) == [0xef, 0xbb, 0xbf, 0x61])
    }

    @Test("Topics that differ only in their normal form stay different")
    func normalForms() {
        let composed = encoded(.publish(MQTTPublish(topic: "\u{e9}", payload: [])))
        let decomposed = encoded(.publish(MQTTPublish(topic: "e\u{301}", payload: [])))
        let topics = readPackets(composed + decomposed).packets.map { packet -> [UInt8] in
            guard case .publish(let publish) = packet else { return [] }
            return Array(publish.topic.utf8)
        }
        #expect(topics == [[0xc3, 0xa9], [0x65, 0xcc, 0x81]])
    }
}
