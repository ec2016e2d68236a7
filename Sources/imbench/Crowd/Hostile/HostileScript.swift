import Transports

/// What a hostile client over a stream sends.
struct HostileScript: Sendable {
    /// What is sent first.
    var opening: [UInt8] = []
    /// Makes an opening that differs from client to client and from visit to visit, in place of ``opening``.
    var freshOpening: (@Sendable (_ client: Int, _ visit: Int) -> [UInt8])?
    /// What is sent again and again after that; nothing if it is empty.
    var load: [UInt8] = []
    /// Makes a load that differs from client to client and from time to time, in place of ``load``.
    var freshLoad: (@Sendable (_ client: Int, _ round: Int) -> [UInt8])?
    /// The same by how many loads the client has sent since it connected.
    var turnLoad: (@Sendable (_ turn: Int) -> [UInt8])?
    /// What is sent from now on in place of the load, by what the server says; `nil` leaves it as it is.
    var learns: (@Sendable (_ heard: [UInt8]) -> [UInt8]?)?
    /// Whether a client leaves as soon as the server has said anything, by how often it has come before.
    var leaves: (@Sendable (_ visit: Int) -> Bool)?
    /// Nanoseconds between two loads.
    var pace: Int64 = 0
    /// Whether what the server says is read.
    var reads = true
    /// Whether each byte 0x80 that comes is a subscription that the server has refused (MQTT 3.1.1, section 3.9.3).
    var countsRefusals = false

    /// How much of a load is sent at a time.
    static let batch = 16 << 10

    /// The scripts of a kind for a transport, between which its clients take turns; none where the protocol leaves no room for
    /// it.
    static func all(_ kind: HostileKind, _ transport: String) -> [HostileScript] {
        switch transport {
        case "tcp": (tcp(kind) ?? session(kind, { $0 }, framed: { tcpFrame($0) })).map { [$0] } ?? []
        case "ws":
            (webSocket(kind) ?? session(kind, { request("") + $0 }, framed: { frame(0x82, $0) })).map { [$0] } ?? []
        case "mqtt": mqtt(kind)
        case "mqtt+ws": mqttOverWebSocket(kind)
        default: []
        }
    }

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

    /// What is done over MQTT, in frames, and what can be done before there are any.
    private static func mqttOverWebSocket(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .slowHeaders: [slowRequest]
        case .halfOpen: mqtt(kind)
        // It is the same attack on the same broker.
        case .poisonedIdentity: []
        default: mqtt(kind).map(inFrames)
        }
    }

    private static func inFrames(_ inner: HostileScript) -> HostileScript {
        var script = inner
        script.opening = request("Sec-WebSocket-Protocol: mqtt\r\n") + frame(0x82, inner.opening)
        if !inner.load.isEmpty { script.load = frame(0x82, inner.load) }
        if let fresh = inner.freshLoad {
            script.freshLoad = { client, round in frame(0x82, fresh(client, round)) }
        }
        // Of frames and packets nobody could tell by single bytes.
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
        ZLib.shared?.makeDeflater(windowBits: 15)?.deflate($0)
    }
}
