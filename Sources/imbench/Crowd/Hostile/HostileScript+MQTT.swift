import TransportAPI

// What hostile clients say to a broker (MQTT 3.1.1).
extension HostileScript {
    private static let text = [UInt8](repeating: 65, count: 64)

    /// The scripts of a kind over MQTT, between which its clients take turns; none where there is no such kind.
    static func mqtt(_ kind: HostileKind) -> [HostileScript] {
        let hello = connect()
        let message = publish(qos: 1, to: "x", identifier: 1, text)
        func loading(_ load: [UInt8]) -> HostileScript { HostileScript(opening: hello, load: load) }
        switch kind {
        case .halfOpen: return [HostileScript()]
        case .slowHeaders:
            // A CONNECT of 1,000 bytes, of which the rest comes byte by byte.
            let start: [UInt8] = [0x10, 0xe8, 7, 0, 4, 77, 81, 84, 84, 4, 2, 0, 0]
            return [HostileScript(opening: start, load: [65], pace: 100_000_000)]
        case .neverReading:
            return [HostileScript(opening: hello, freshLoad: { client, _ in own(client) }, reads: false)]
        case .giantLength: return [HostileScript(opening: hello + [0x30, 0xff, 0xff, 0xff, 0x7f])]
        case .pingFlood: return [loading(repeated([0xc0, 0]))]
        case .messageFlood: return [loading(repeated(message))]
        case .subscriptionFlood:
            return [loading(repeated(subscribe([("#", 0)]))), loading(subscribe((0..<900).map { ("flood/\($0)", 0) }))]
        case .filterFlood:
            return [HostileScript(opening: hello, freshLoad: { filters.bytes($0, $1) }, countsRefusals: true)]
        case .slowSubscriber:
            let slow = [UInt8(0), 1, 0].map { qos in
                HostileScript(opening: hello + subscribe([("slow", qos)]), reads: false)
            }
            return slow + [loading(repeated(publish(qos: 1, to: "slow", identifier: 1, text)))]
        case .takeoverFlood: return [HostileScript(opening: connect("thief", will: "x"))]
        case .identifierReuse: return [loading(repeated(publish(qos: 2, to: "x", identifier: 1, [65])))]
        case .unreleasedFlood:
            return [loading((1...1800).flatMap { publish(qos: 2, to: "x", identifier: $0, []) })]
        case .poisonedIdentity:
            return [
                HostileScript(
                    opening: hello + subscribe([(HonestMembers.topic, 0)]),
                    learns: poisoned,
                    pace: 10_000_000
                )
            ]
        case .releaseFlood: return [loading((1...4000).flatMap { [0x62, 2] + word($0) })]
        default: return []
        }
    }

    /// Messages of a client to itself.
    private static func own(_ client: Int) -> [UInt8] {
        let topic = "own/\(client)"
        return subscribe([(topic, 0)]) + repeated(publish(qos: 0, to: topic, identifier: 0, text))
    }

    /// Copies of the first message of a member in what a broker has sent: eight of its next numbers, and eight far ahead.
    @Sendable
    private static func poisoned(_ heard: [UInt8]) -> [UInt8]? {
        let topic = Array(HonestMembers.topic.utf8)
        // At QoS 0 nothing stands between the topic and the envelope (Docs/wire-formats.md).
        for start in heard.indices where heard[start...].starts(with: topic) {
            guard
                case .origin(let member, let number, _)? = try? SessionFrame(
                    Payload(Array(heard[(start + topic.count)...]))
                )
            else { continue }
            return (1...16 as ClosedRange<UInt64>).flatMap { step -> [UInt8] in
                let ahead = step > 8 ? step << 20 : step
                let copy = SessionFrame.origin(member, number &+ ahead, Payload(text)).payload.bytes
                return publish(qos: 0, to: HonestMembers.topic, identifier: 0, copy)
            }
        }
        return nil
    }

    /// Filters that begin alike nowhere, or only in wildcards, so that each level is a node of the broker's tree.
    private static let filters = FilterLoad(
        (0..<8).flatMap { packet in
            subscribe(
                (0..<25).map { number in
                    let own = FilterLoad.mark + "n\(packet * 25 + number)"
                    return (number % 2 == 0 ? own + "/a/b/c/d/e/f/g/h/i/j/k/l/m" : "+/+/+/" + own + "/#", 0)
                }
            )
        }
    )

    // MARK: Packets, none of whose lengths is over 16,383

    private static func connect(_ identifier: String = "", will: String? = nil) -> [UInt8] {
        // A clean session; with a will at QoS 1 (section 3.1.2.3).
        let flags: UInt8 = will == nil ? 0x02 : 0x0e
        let rest = string(identifier) + (will.map { string($0) + word(text.count) + text } ?? [])
        return packet(0x10, [0, 4, 77, 81, 84, 84, 4, flags, 0, 0] + rest)
    }

    private static func subscribe(_ filters: [(String, UInt8)]) -> [UInt8] {
        packet(0x82, word(1) + filters.flatMap { string($0.0) + [$0.1] })
    }

    private static func publish(qos: UInt8, to topic: String, identifier: Int, _ payload: [UInt8]) -> [UInt8] {
        packet(0x30 | qos << 1, string(topic) + (qos == 0 ? [] : word(identifier)) + payload)
    }

    private static func packet(_ first: UInt8, _ body: [UInt8]) -> [UInt8] {
        let low = UInt8(body.count & 0x7f)
        return [first] + (body.count < 128 ? [low] : [low | 0x80, UInt8(body.count >> 7 & 0x7f)]) + body
    }

    private static func string(_ text: String) -> [UInt8] { word(text.utf8.count) + Array(text.utf8) }

    private static func word(_ number: Int) -> [UInt8] { [UInt8(number >> 8 & 0xff), UInt8(number & 0xff)] }
}
