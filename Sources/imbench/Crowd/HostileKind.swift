import Transports

/// What a hostile client does.
enum HostileKind: String, Sendable, Hashable, CaseIterable {
    case slowHeaders = "slow-headers"
    case halfOpen = "half-open"
    case neverReading = "never-reading"
    case giantLength = "giant-length"
    case pingFlood = "ping-flood"
    case fragmentFlood = "fragment-flood"
    case compressionBomb = "compression-bomb"
    case subscriptionFlood = "subscription-flood"
    case identifierReuse = "identifier-reuse"
    case messageFlood = "message-flood"
    case helloFlood = "hello-flood"
    case garbageFlood = "garbage-flood"
    case unknownSession = "unknown-session"
}

/// The same in bytes.
struct HostileScript: Sendable {
    /// What is sent first.
    var opening: [UInt8] = []
    /// What is sent again and again after that; nothing if it is empty.
    var load: [UInt8] = []
    /// Nanoseconds between two loads.
    var pace: Int64 = 0
    /// Whether what the server says is read.
    var reads = true
    /// What is done with datagrams in place of all this.
    var datagrams: HostileKind?

    /// How much of a load is sent at a time.
    private static let batch = 16 << 10

    /// The script of a kind for a transport; `nil` where the protocol leaves no room for it.
    init?(_ kind: HostileKind, _ transport: String) {
        guard transport != "udp" else {
            guard HostileDatagrams.knows(kind) else { return nil }
            datagrams = kind
            return
        }
        guard let words = Self.words(transport) else { return nil }
        opening = words.hello
        switch kind {
        case .halfOpen: opening = []
        case .slowHeaders:
            guard let slow = words.slow else { return nil }
            (opening, load, pace) = (slow, [65], 100_000_000)
        case .neverReading: (load, reads) = (Self.repeated(words.message), false)
        case .messageFlood: load = Self.repeated(words.message)
        case .giantLength: opening += words.giant
        case .pingFlood: load = Self.repeated(words.ping)
        case .fragmentFlood:
            guard transport == "ws" else { return nil }
            opening += Self.frame(0x02, [1])
            load = Self.repeated(Self.frame(0x00))
        case .compressionBomb:
            guard transport == "ws", let bomb = Self.bomb else { return nil }
            load = Self.frame(0xc2, bomb)
        case .subscriptionFlood:
            guard transport == "mqtt" else { return nil }
            load = Self.repeated([0x82, 6, 0, 1, 0, 1, 35, 0])
        case .identifierReuse:
            guard transport == "mqtt" else { return nil }
            load = Self.repeated([0x34, 6, 0, 1, 120, 0, 1, 65])
        case .helloFlood, .garbageFlood, .unknownSession: return nil
        }
    }

    private static func words(
        _ transport: String
    ) -> (hello: [UInt8], slow: [UInt8]?, message: [UInt8], ping: [UInt8], giant: [UInt8])? {
        let text = [UInt8](repeating: 65, count: 64)
        switch transport {
        case "ws":
            let request =
                "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
            let giant: [UInt8] = [0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            return (Array(request.utf8), Array("GET / HTTP/1.1\r\nX: ".utf8), frame(0x82, text), frame(0x89), giant)
        case "tcp":
            return ([], nil, [0, 0, 0, 64] + text, [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1], [0x7f, 255, 255, 255])
        case "mqtt":
            let connect: [UInt8] = [0x10, 12, 0, 4, 77, 81, 84, 84, 4, 2, 0, 0, 0, 0]
            let slow: [UInt8] = [0x10, 0xe8, 7, 0, 4, 77, 81, 84, 84, 4, 2, 0, 0]
            let message: [UInt8] = [0x32, 69, 0, 1, 120, 0, 1] + text
            return (connect, slow, message, [0xc0, 0], [0x30, 0xff, 0xff, 0xff, 0x7f])
        default: return nil
        }
    }

    private static func repeated(_ bytes: [UInt8]) -> [UInt8] {
        Array(repeatElement(bytes, count: max(1, batch / bytes.count)).joined())
    }

    /// A frame of a WebSocket client (RFC 6455, section 5.2) whose key of zeros changes nothing.
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
