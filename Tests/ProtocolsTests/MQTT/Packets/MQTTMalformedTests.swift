import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// A CONNECT with these flags, and with `body` after the keep alive.
private func connect(flags: UInt8, _ body: [UInt8], name: String = "MQTT") -> [UInt8] {
    let all = field(name) + [4, flags, 0, 0] + body
    return [0x10, UInt8(all.count)] + all
}

private let malformed: [(String, [UInt8])] = [
    ("type 0 is reserved", [0x00, 0]),
    ("type 15 is reserved", [0xf0, 0]),
    ("CONNECT with flags", [0x11]),
    ("CONNACK with flags", [0x21]),
    ("PUBACK with flags", [0x42]),
    ("PUBREC with flags", [0x52]),
    ("PUBREL without its flags", [0x60]),
    ("PUBCOMP with flags", [0x72]),
    ("SUBSCRIBE without its flags", [0x80]),
    ("SUBACK with flags", [0x92]),
    ("UNSUBSCRIBE without its flags", [0xa0]),
    ("UNSUBACK with flags", [0xb2]),
    ("PINGREQ with flags", [0xc1]),
    ("PINGRESP with flags", [0xd8]),
    ("DISCONNECT with flags", [0xe4]),
    ("PUBLISH at QoS 3", [0x36]),
    ("PUBLISH with DUP at QoS 0", [0x38]),
    ("remaining length of five bytes", [0x30, 0x80, 0x80, 0x80, 0x80]),
    ("CONNACK too long", [0x20, 3]),
    ("CONNACK too short", [0x20, 1]),
    ("PUBACK too long", [0x40, 3]),
    ("UNSUBACK too short", [0xb0, 0]),
    ("PINGREQ with content", [0xc0, 1]),
    ("PINGRESP with content", [0xd0, 1]),
    ("DISCONNECT with content", [0xe0, 1]),
    ("CONNACK with reserved flags", [0x20, 2, 2, 0]),
    ("CONNACK refused with a session", [0x20, 2, 1, 1]),
    ("PUBACK of packet identifier 0", [0x40, 2, 0, 0]),
    ("PUBREL of packet identifier 0", [0x62, 2, 0, 0]),
    ("PUBLISH of packet identifier 0", [0x32, 5, 0, 1, 0x61, 0, 0]),
    ("PUBLISH without topic length", [0x30, 1, 0]),
    ("PUBLISH with an empty topic", [0x30, 2, 0, 0]),
    ("PUBLISH with a topic beyond its end", [0x30, 3, 0, 2, 0x61]),
    ("PUBLISH without packet identifier", [0x32, 4, 0, 1, 0x61, 0]),
    ("PUBLISH with #", [0x30, 3, 0, 1, 0x23]),
    ("PUBLISH with +", [0x30, 5, 0, 3, 0x61, 0x2f, 0x2b]),
    ("PUBLISH with U+0000", [0x30, 4, 0, 2, 0x61, 0]),
    ("PUBLISH with a stray continuation byte", [0x30, 3, 0, 1, 0x80]),
    ("PUBLISH with a surrogate", [0x30, 5, 0, 3, 0xed, 0xa0, 0x80]),
    ("PUBLISH with an overlong form", [0x30, 4, 0, 2, 0xc0, 0x80]),
    ("PUBLISH with a cut sequence", [0x30, 4, 0, 2, 0x61, 0xe2]),
    ("SUBSCRIBE without filters", [0x82, 2, 0, 1]),
    ("SUBSCRIBE of packet identifier 0", [0x82, 6, 0, 0, 0, 1, 0x61, 0]),
    ("SUBSCRIBE at QoS 3", [0x82, 6, 0, 1, 0, 1, 0x61, 3]),
    ("SUBSCRIBE with reserved bits in the QoS", [0x82, 6, 0, 1, 0, 1, 0x61, 0x81]),
    ("SUBSCRIBE without QoS", [0x82, 5, 0, 1, 0, 1, 0x61]),
    ("SUBSCRIBE with an empty filter", [0x82, 5, 0, 1, 0, 0, 0]),
    ("SUBSCRIBE with # in the middle", [0x82, 8, 0, 1, 0, 3, 0x23, 0x2f, 0x61, 0]),
    ("SUBSCRIBE with # beside other letters", [0x82, 7, 0, 1, 0, 2, 0x61, 0x23, 0]),
    ("SUBSCRIBE with + beside other letters", [0x82, 7, 0, 1, 0, 2, 0x2b, 0x61, 0]),
    ("SUBSCRIBE with U+0000", [0x82, 6, 0, 1, 0, 1, 0, 0]),
    ("SUBSCRIBE with ill-formed UTF-8", [0x82, 6, 0, 1, 0, 1, 0xff, 0]),
    ("SUBSCRIBE with bytes after its end", [0x82, 7, 0, 1, 0, 1, 0x61, 0, 0]),
    ("SUBACK without return codes", [0x90, 2, 0, 1]),
    ("SUBACK with return code 3", [0x90, 3, 0, 1, 3]),
    ("SUBACK with return code 0x81", [0x90, 3, 0, 1, 0x81]),
    ("UNSUBSCRIBE without filters", [0xa2, 2, 0, 1]),
    ("UNSUBSCRIBE with ill-formed UTF-8", [0xa2, 5, 0, 1, 0, 1, 0xff]),
    ("UNSUBSCRIBE with an empty filter", [0xa2, 4, 0, 1, 0, 0]),
    ("CONNECT without content", [0x10, 0]),
    ("CONNECT of another protocol", connect(flags: 2, field("a"), name: "MQTS")),
    ("CONNECT of MQTT 3.1", connect(flags: 2, field("a"), name: "MQIsdp")),
    ("CONNECT with the reserved flag", connect(flags: 3, field("a"))),
    ("CONNECT with a will QoS but no will", connect(flags: 0x0a, field("a"))),
    ("CONNECT with will retain but no will", connect(flags: 0x22, field("a"))),
    ("CONNECT with a will of QoS 3", connect(flags: 0x1e, field("a") + field("w") + field(""))),
    ("CONNECT with a password but no user", connect(flags: 0x42, field("a") + field("p"))),
    ("CONNECT without client identifier", connect(flags: 2, [])),
    ("CONNECT with ill-formed UTF-8 in the client identifier", connect(flags: 2, [0, 1, 0xff])),
    ("CONNECT with ill-formed UTF-8 in the will topic", connect(flags: 6, field("a") + [0, 1, 0xff] + field(""))),
    ("CONNECT with a user that its flags do not announce", connect(flags: 2, field("a") + field("u"))),
    ("CONNECT with a password that its flags lack", connect(flags: 0x82, field("a") + field("u") + field("p"))),
    ("CONNECT without its will", connect(flags: 0x06, field("a"))),
    ("CONNECT with wildcards in the will topic", connect(flags: 0x06, field("a") + field("w/#") + field(""))),
    ("CONNECT with an empty will topic", connect(flags: 0x06, field("a") + field("") + field(""))),
    ("CONNECT without its user", connect(flags: 0x82, field("a"))),
    ("CONNECT without its password", connect(flags: 0xc2, field("a") + field("u"))),
    ("CONNECT with bytes after its end", connect(flags: 2, field("a") + [0])),
    ("CONNECT with U+0000 in the client identifier", connect(flags: 2, [0, 1, 0])),
    ("CONNECT with ill-formed UTF-8 in the user", connect(flags: 0x82, field("a") + [0, 1, 0xc3])),
]

@Suite("Malformed MQTT packets")
struct MQTTMalformedTests {
    @Test("A malformed packet is a protocol violation, whole and byte by byte", arguments: malformed)
    func refused(what: String, bytes: [UInt8]) {
        for slices in [[], Array(repeating: 1, count: bytes.count)] {
            let result = readPackets(encoded(.pingreq) + bytes, slices: slices)
            #expect(result.packets == [.pingreq])
            #expect(result.failure?.code == .protocolViolation)
            #expect(result.failure?.phase == .open)
            #expect(result.failure?.reason.isEmpty == false)
        }
    }

    @Test("The error names the statement of the specification")
    func sentences() {
        #expect(readPackets([0x36]).failure?.reason == "PUBLISH has QoS 3 (MQTT-3.3.1-4)")
        #expect(readPackets([0xc1]).failure?.reason == "PINGREQ has flags 1 instead of 0 (MQTT-2.2.2-2)")
        #expect(
            readPackets([0x40, 2, 0, 0]).failure?.reason == "PUBACK has packet identifier 0 (MQTT-2.3.1-1)"
        )
    }

    @Test("A length beyond the limit is rejected before its bytes arrive")
    func tooLarge() {
        // 100 bytes of payload and the longest topic are allowed: 65,639 bytes, and not one more.
        let allowed: [UInt8] = [0x30, 0xe7, 0x80, 0x04]
        #expect(readPackets(allowed, maximumMessageSize: 100).failure == nil)
        let beyond: [UInt8] = [0x30, 0xe8, 0x80, 0x04]
        #expect(readPackets(beyond, maximumMessageSize: 100).failure?.code == .messageTooLarge)
        let largest: [UInt8] = [0x30, 0xff, 0xff, 0xff, 0x7f]
        #expect(readPackets(largest).failure?.code == .messageTooLarge)
    }

    @Test("A CONNECT that is larger than its fields can be is rejected")
    func largeConnect() {
        #expect(
            readPackets([0x10, 0x80, 0x80, 0x80, 0x01], maximumMessageSize: 16 << 20).failure?.code == .messageTooLarge
        )
    }

    @Test("A packet may not carry more than 4,096 filters")
    func manyFilters() {
        let filters = Array(repeating: "a", count: 4096)
        #expect(readPackets(encoded(.unsubscribe(1, filters))).packets == [.unsubscribe(1, filters)])
        #expect(readPackets(encoded(.unsubscribe(1, filters + ["a"]))).failure?.code == .messageTooLarge)
        let subscriptions = Array(repeating: MQTTSubscription("a"), count: 4097)
        #expect(readPackets(encoded(.subscribe(1, subscriptions))).failure?.code == .messageTooLarge)
    }

    @Test("Random changes to valid packets give packets or one typed error, the same for every slicing")
    func mutations() {
        var random = RandomSource.seeded(0x4d51_5454)
        let seeds: [[UInt8]] = [
            connect(flags: 0xc6, field("a") + field("w") + field("x") + field("u") + field("p")),
            [0x32, 9, 0, 3, 0x61, 0x2f, 0x62, 0, 10, 0x68, 0x69],
            [0x82, 14, 0, 10, 0, 3, 0x61, 0x2f, 0x62, 1, 0, 3, 0x63, 0x2f, 0x23, 2],
            [0x90, 5, 0, 10, 0, 2, 0x80, 0xa2, 10, 0, 10, 0, 3, 0x61, 0x2f, 0x62, 0, 1, 0x2b],
            [0x20, 2, 0, 0, 0x40, 2, 0, 1, 0x62, 2, 0, 1, 0xc0, 0, 0xd0, 0, 0xe0, 0],
        ]
        for round in 0..<20_000 {
            var bytes = seeds[round % seeds.count] + seeds[Int.random(in: 0..<seeds.count, using: &random)]
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
                case 2 where bytes.count > 1: bytes.remove(at: place)
                default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
                }
            }
            let whole = readPackets(bytes)
            let sliced = readPackets(
                bytes,
                slices: (0..<bytes.count).map { _ in Int.random(in: 1...3, using: &random) }
            )
            #expect(whole.packets == sliced.packets && whole.failure == sliced.failure)
            if let failure = whole.failure {
                #expect(failure.code == .protocolViolation || failure.code == .messageTooLarge)
            }
        }
    }
}
