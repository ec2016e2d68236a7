import CommandSupport
import Protocols
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// The output of a hostile client over a stream.
struct HostileScript: Sendable {
    /// The first bytes.
    var opening: [UInt8] = []
    /// Makes an opening that differs between clients and between connections, in place of ``opening``.
    var freshOpening: (@Sendable (_ client: Int, _ visit: Int) -> [UInt8])?
    /// The bytes that are sent repeatedly after the opening.
    var load: [UInt8] = []
    /// Makes a load that differs between clients and between rounds, in place of ``load``.
    var freshLoad: (@Sendable (_ client: Int, _ round: Int) -> [UInt8])?
    /// Makes a load from the number of loads since the client connected, in place of ``load``.
    var numberedLoad: (@Sendable (_ number: Int) -> [UInt8])?
    /// Makes the load from received bytes, in place of ``load``; `nil` leaves it unchanged.
    var learns: (@Sendable (_ received: [UInt8]) -> [UInt8]?)?
    /// Whether a client disconnects at the server's first bytes, by the number of its earlier connections.
    var leaves: (@Sendable (_ visit: Int) -> Bool)?
    /// Makes the TLS handshake whose records are the output, in place of ``opening``.
    var handshake: (@Sendable () -> HostileHandshake?)?
    /// How many connections all clients together open in a second, as long as their earlier ones end in time; `nil` if they
    /// connect whenever they have no connection.
    var rate: Int?
    /// Nanoseconds between two loads.
    var pace: Int64 = 0
    /// Whether the client reads.
    var reads = true
    /// Makes a load from the token of a session over HTTP and from the number of loads since the client connected, in place
    /// of ``load``. The answer to the opening contains the token. A client whose session has ended disconnects.
    var sessionLoad: (@Sendable (_ token: String, _ number: Int) -> [UInt8])?
    /// Whether a client sends its next load only after it has received something.
    var awaitsAnswers = false
    /// Whether the client reads nothing more once its session is open.
    var isDeafInSession = false
    /// Whether what is received are answers over HTTP, whose statuses are counted.
    var readsAnswers = false
    /// What no answer may contain.
    var forbidden: String?
    /// Whether each received byte 0x80 is a subscription that the server has refused (MQTT 3.1.1, section 3.9.3).
    var countsRefusals = false

    /// The size of a load, in bytes.
    static let batch = 16 << 10

    /// The scripts of a kind for a transport, between which its clients alternate; empty if the protocol has no such attack.
    static func all(_ kind: HostileKind, _ transport: String) -> [HostileScript] {
        byTransport[transport]?(kind) ?? (isEncrypted(transport) ? encrypted(kind) : [])
    }

    /// Whether the transport is encrypted, over a stream. Its hostile clients attack the TLS handshake.
    static func isEncrypted(_ transport: String) -> Bool {
        TransportRegistry.available.transports.contains { $0.name == transport && $0.isEncrypted && !$0.isDatagram }
    }

    private static func encrypted(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .halfOpen: [HostileScript()]
        case .handshakeFlood: [HostileScript(opening: clientHello, leaves: { _ in true })]
        case .helloOffered: ReplayedHello.offered.map(replaying)
        case .helloCurves: ReplayedHello.curves.map(replaying)
        case .helloFields: ReplayedHello.fields.map(replaying)
        case .fatChains:
            chains.map { context in
                HostileScript(handshake: { HostileHandshake(context) }, rate: handshakeRate)
            }
        case .unfinishedHellos: [HostileScript(opening: unfinishedHello, rate: handshakeRate)]
        default: []
        }
    }

    /// As many certificates as are decoded, more, and more than are read.
    private static let chains = [3, 10, 200].map(HostileHandshake.withChain)

    /// The handshakes in a second of attacks at a fixed rate.
    private static let handshakeRate = 200

    /// Sends the ClientHello at a fixed rate, and leaves each handshake at the server's answer.
    private static func replaying(_ hello: ReplayedHello) -> HostileScript {
        HostileScript(opening: hello.record, leaves: { _ in true }, rate: handshakeRate)
    }

    /// The same number of handshakes with the usual group, to which attacks at a fixed rate are compared.
    static let usualHandshakes = replaying(.x25519)

    /// The first record of the longest ClientHello that OpenSSL accepts.
    private static let unfinishedHello: [UInt8] =
        [22, 3, 1, 0x40, 0, 1, 2, 0, 0] + [UInt8](repeating: 3, count: 16_380)

    /// The first message of a TLS client. The server's answer to it takes most of the server's work for a handshake.
    private static let clientHello: [UInt8] = {
        guard let context = try? OpenSSL.shared.makeContext(TLSSettings(.client), password: nil),
            let engine = context.makeEngine(host: "localhost", port: 1)
        else { return [] }
        return [UInt8](unsafeUninitializedCapacity: 16 << 10) { buffer, count in
            var output = TLSOutput(UnsafeMutableRawBufferPointer(buffer))
            _ = engine.handshake(UnsafeRawBufferPointer(start: nil, count: 0), &output)
            count = output.count
        }
    }()

    /// The scripts of each transport over a stream. ``HostileDatagrams`` has those over UDP.
    private static let byTransport: [String: @Sendable (HostileKind) -> [HostileScript]] = [
        TransportDescriptor.tcp.name: { kind in
            (tcp(kind) ?? session(kind, { $0 }, framed: { tcpFrame($0) })).map { [$0] } ?? []
        },
        TransportDescriptor.webSocket.name: { kind in
            (webSocket(kind) ?? session(kind, { request("") + $0 }, framed: { frame(0x82, $0) })).map { [$0] } ?? []
        },
        TransportDescriptor.mqtt.name: mqtt,
        TransportDescriptor.mqttWebSocket.name: mqttOverWebSocket,
        TransportDescriptor.stomp.name: stomp,
        TransportDescriptor.stompWebSocket.name: stompOverWebSocket,
        TransportDescriptor.xmpp.name: xmpp,
        TransportDescriptor.http.name: http,
    ]

    /// The transports without a handshake, in which clients could stop half-way.
    static let withoutHandshake = [TransportDescriptor.tcp.name]

    /// The transports that have hostile clients.
    static let transports = {
        let plain = TransportRegistry.available.transports.filter { byTransport[$0.name] != nil }
        return TransportRegistry.available.transports.map(\.name).filter { name in
            byTransport[name] != nil || name == HostileDatagrams.transport
                || plain.contains { $0.encryptedName == name }
        }
    }()

    static func repeated(_ bytes: [UInt8]) -> [UInt8] {
        Array(repeatElement(bytes, count: max(1, batch / bytes.count)).joined())
    }

    private static let text = [UInt8](repeating: 65, count: 64)

    /// A message of framed TCP.
    private static func tcpFrame(_ message: [UInt8]) -> [UInt8] {
        [0, UInt8(message.count >> 16 & 0xff), UInt8(message.count >> 8 & 0xff), UInt8(message.count & 0xff)] + message
    }

    private static func tcp(_ kind: HostileKind) -> HostileScript? {
        let message = [0, 0, 0, 64] + text
        switch kind {
        case .halfOpen: return HostileScript()
        case .neverReading: return HostileScript(load: repeated(message), reads: false)
        case .messageFlood: return HostileScript(load: repeated(message))
        case .giantLength: return HostileScript(opening: [0x7f, 255, 255, 255])
        case .pingFlood: return HostileScript(load: repeated([0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]))
        default: return nil
        }
    }

    // MARK: WebSocket

    private static func webSocket(_ kind: HostileKind) -> HostileScript? {
        let hello = request("Sec-WebSocket-Extensions: permessage-deflate\r\n")
        switch kind {
        case .halfOpen: return HostileScript()
        case .slowHeaders: return slowRequest
        case .neverReading: return HostileScript(opening: hello, load: repeated(frame(0x82, text)), reads: false)
        case .messageFlood: return HostileScript(opening: hello, load: repeated(frame(0x82, text)))
        case .giantLength:
            return HostileScript(opening: hello + [0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        case .pingFlood: return HostileScript(opening: hello, load: repeated(frame(0x89)))
        case .fragmentFlood:
            return HostileScript(opening: hello + frame(0x02, [1]), load: repeated(frame(0x00)))
        case .foreignOrigin: return HostileScript(opening: request("Origin: http://evil.example\r\n"))
        case .compressionBomb: return bomb.map { HostileScript(opening: hello, load: frame(0xc2, $0)) }
        default: return nil
        }
    }

    /// The scripts of MQTT in frames, and those of the time before the first frame.
    private static func mqttOverWebSocket(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .slowHeaders: [slowRequest]
        case .halfOpen: mqtt(kind)
        // The attack over MQTT is the same.
        case .poisonedIdentity: []
        default: mqtt(kind).map { inFrames($0, "mqtt") }
        }
    }

    /// The scripts of STOMP in frames, and those of the time before the first frame.
    private static func stompOverWebSocket(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .slowHeaders: [slowRequest]
        case .halfOpen: stomp(kind)
        default: stomp(kind).map { inFrames($0, "v12.stomp") }
        }
    }

    private static func inFrames(_ inner: HostileScript, _ subprotocol: String) -> HostileScript {
        var script = inner
        let hello = request("Sec-WebSocket-Protocol: \(subprotocol)\r\n")
        script.opening = hello + frame(0x82, inner.opening)
        if let fresh = inner.freshOpening {
            script.freshOpening = { client, visit in hello + frame(0x82, fresh(client, visit)) }
        }
        if !inner.load.isEmpty { script.load = frame(0x82, inner.load) }
        if let fresh = inner.freshLoad {
            script.freshLoad = { client, round in frame(0x82, fresh(client, round)) }
        }
        // Single bytes are ambiguous in frames.
        script.countsRefusals = false
        return script
    }

    private static func request(_ header: String) -> [UInt8] {
        Array(
            ("GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\(header)\r\n").utf8
        )
    }

    private static let slowRequest = HostileScript(
        opening: Array("GET / HTTP/1.1\r\nX: ".utf8),
        load: [65],
        pace: 100_000_000
    )

    /// A frame of a WebSocket client (RFC 6455, section 5.2) whose key of zeros changes nothing; at most 65,535 bytes.
    private static func frame(_ first: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
        let length: [UInt8] =
            payload.count < 126
            ? [0x80 | UInt8(payload.count)] : [0xfe, UInt8(payload.count >> 8 & 0xff), UInt8(payload.count & 0xff)]
        return [first] + length + [0, 0, 0, 0] + payload
    }

    /// 8 MiB of zeros, in about 8 KiB.
    private static let bomb: [UInt8]? = [UInt8](repeating: 0, count: 8 << 20).withUnsafeBytes {
        ZLib.shared?.makeDeflater(windowBits: 15)?.deflate($0, within: ExpansionLimit(factor: .max))
    }
}

// The output of hostile clients of a broker (MQTT 3.1.1).
extension HostileScript {
    /// The scripts of a kind over MQTT, between which its clients alternate; none if there is no such kind.
    static func mqtt(_ kind: HostileKind) -> [HostileScript] {
        let hello = connect()
        let message = publish(qos: 1, to: "x", identifier: 1, text)
        func loading(_ load: [UInt8]) -> HostileScript { HostileScript(opening: hello, load: load) }
        switch kind {
        case .halfOpen: return [HostileScript()]
        case .slowHeaders:
            // A CONNECT packet of 1,000 bytes, whose last bytes are sent one by one.
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

    /// Copies of the first message of a member in the received bytes: eight with its next numbers, and eight far ahead.
    @Sendable
    private static func poisoned(_ received: [UInt8]) -> [UInt8]? {
        let topic = Array(HonestMembers.topic.utf8)
        // At QoS 0 the envelope directly follows the topic (Docs/reference/wire-formats.md).
        for start in received.indices where received[start...].starts(with: topic) {
            guard
                case .origin(let member, let number, _, _)? = try? SessionFrame(
                    Payload(Array(received[(start + topic.count)...]))
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

    /// Filters without a common prefix, except wildcards, so that each level is a node of the broker's tree.
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

// The output of hostile clients of a broker of STOMP 1.2.
extension HostileScript {
    /// The scripts of a kind over STOMP, between which its clients alternate; none if there is no such kind.
    static func stomp(_ kind: HostileKind) -> [HostileScript] {
        let hello = stompFrame("CONNECT\naccept-version:1.2\nhost:localhost\n\n")
        let body = String(repeating: "A", count: 64)
        func loading(_ load: String) -> HostileScript { HostileScript(opening: hello, load: Array(load.utf8)) }
        switch kind {
        case .halfOpen: return [HostileScript()]
        case .slowHeaders: return [HostileScript(opening: Array("CONNECT\nx:".utf8), load: [65], pace: 100_000_000)]
        case .neverReading:
            var script = HostileScript(reads: false)
            script.freshOpening = { client, _ in
                hello + stompFrame("SUBSCRIBE\nid:0\ndestination:/topic/own.\(client)\n\n")
            }
            script.freshLoad = { client, _ in repeated(stompFrame("SEND\ndestination:/topic/own.\(client)\n\n\(body)"))
            }
            return [script]
        case .giantLength: return [loading("SEND\ndestination:/topic/x\ncontent-length:99999999999\n\n")]
        case .endlessHeaders:
            return [HostileScript(opening: hello + Array("SEND\n".utf8), load: repeated(Array("a:b\n".utf8)))]
        case .endlessBody:
            let begun = Array("SEND\ndestination:/topic/x\n\n".utf8)
            return [HostileScript(opening: hello + begun, load: repeated([65]))]
        case .wrongLength:
            let frame = stompFrame("SEND\ndestination:/topic/x\ncontent-length:3\n\nABCD")
            return [HostileScript(opening: hello, load: repeated(frame))]
        case .messageFlood:
            return [HostileScript(opening: hello, load: repeated(stompFrame("SEND\ndestination:/topic/x\n\n\(body)")))]
        case .releaseFlood: return [HostileScript(opening: hello, load: repeated(stompFrame("ACK\nid:999999\n\n")))]
        case .blankFlood:
            let blank = [[10], [13, 10]].map(repeated)
            return blank.map { HostileScript(opening: hello, load: $0) } + [HostileScript(load: blank[0])]
        case .subscriptionFlood:
            var script = HostileScript(opening: hello)
            script.freshLoad = { _, round in
                (0..<100).flatMap { stompFrame("SUBSCRIBE\nid:\(round)-\($0)\ndestination:/topic/flood\n\n") }
            }
            return [script]
        case .filterFlood:
            return [HostileScript(opening: hello, freshLoad: { stompFilters.bytes($0, $1) })]
        case .slowSubscriber:
            let slow = HostileScript(
                opening: hello + stompFrame("SUBSCRIBE\nid:0\ndestination:/topic/slow\n\n"),
                reads: false
            )
            let sending = stompFrame("SEND\ndestination:/topic/slow\n\n\(body)")
            return [slow, slow, HostileScript(opening: hello, load: repeated(sending))]
        default: return []
        }
    }

    private static func stompFrame(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }

    /// Destinations that differ, half of them with wildcards, so that each level is a node of the broker's tree.
    private static let stompFilters = FilterLoad(
        (0..<100).flatMap { number -> [UInt8] in
            let own = FilterLoad.mark + "n\(number)"
            let filter = number % 2 == 0 ? own + ".a.b.c.d.e.f.g.h.i.j.k.l.m" : "*.*.*." + own + ".#"
            return stompFrame("SUBSCRIBE\nid:\(own)\ndestination:/topic/\(filter)\n\n")
        }
    )
}

// The output of hostile members of a chat room (Docs/reference/wire-formats.md, "The session envelope").
extension HostileScript {
    /// How many sessions each client leaves before it floods.
    static let zombies = 9

    /// The script of a kind over a stream of messages; `nil` if the kind is not about sessions.
    ///
    /// - Parameters:
    ///   - opened: prepends the transport's handshake to the first frame.
    ///   - framed: frames a message.
    static func session(
        _ kind: HostileKind,
        _ opened: @escaping @Sendable ([UInt8]) -> [UInt8],
        framed: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) -> HostileScript? {
        guard kind.isOfSessions else { return nil }
        var script = HostileScript()
        script.freshOpening = { client, visit in
            // Each visit begins another session.
            let session = SessionID(high: UInt64(client), low: UInt64(visit))
            return opened(
                framed(SessionFrame.hello(session, ClientHello(incarnation: 0, received: 0, attempt: 1)).payload.bytes)
            )
        }
        @Sendable func message(_ sequence: Int, _ bytes: [UInt8]) -> [UInt8] {
            framed(SessionFrame.message(UInt64(sequence), Payload(bytes)).payload.bytes)
        }
        switch kind {
        case .roomFlood, .zombieSessions:
            script.numberedLoad = { number in
                (1...shortTextsPerLoad).flatMap { message(number * shortTextsPerLoad + $0, shortText) }
            }
            if kind == .zombieSessions { script.leaves = { $0 < zombies } }
        case .hostileText:
            script.numberedLoad = { message($0 + 1, slowText) }
            script.pace = 500_000_000
        case .sessionSquatting:
            script.leaves = { _ in true }
        case .sessionHoarding:
            script.numberedLoad = { message($0 + 2, hoarded) }
        default: return nil
        }
        return script
    }

    /// A chat message of twelve bytes in protobuf, which has ten of text.
    private static let shortText: [UInt8] = [0x32, 10] + Array("0123456789".utf8)
    private static let shortTextsPerLoad = 256
    private static let hoarded = [UInt8](repeating: 65, count: 60_000)

    /// A chat message with one attribute, whose key of 8 KiB is a letter and alternating combining marks of two classes.
    private static let slowText: [UInt8] = {
        let key = "a" + (0..<4096).map { $0 % 2 == 0 ? "\u{301}" : "\u{316}" }.joined()
        return Array("{\"attributes\":{\"\(key)\":\"\"}}".utf8)
    }()
}

/// SUBSCRIBE packets with filters that differ from all others and from earlier ones of the same client.
///
/// They are built once, and only the client and the round are written into them each time. Otherwise a hostile client would
/// need more time to build them than a broker to process them.
struct FilterLoad: Sendable {
    /// The placeholder of client and round in the template.
    static let mark = "c000000/r00000000/"

    private let template: [UInt8]
    /// The offsets of the placeholders.
    private let places: [Int]

    init(_ template: [UInt8]) {
        let mark = Array(Self.mark.utf8)
        self.template = template
        places = template.indices.filter { template[$0...].starts(with: mark) }
    }

    /// The load of this client in this round.
    func bytes(_ client: Int, _ round: Int) -> [UInt8] {
        var mark = Array(Self.mark.utf8)
        Self.write(client, to: &mark[1..<7])
        Self.write(round, to: &mark[9..<17])
        var bytes = template
        for place in places {
            for (offset, byte) in mark.enumerated() { bytes[place + offset] = byte }
        }
        return bytes
    }

    private static func write(_ number: Int, to digits: inout ArraySlice<UInt8>) {
        var rest = number
        for index in digits.indices.reversed() {
            digits[index] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
    }
}
