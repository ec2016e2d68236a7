import SocketIO

/// A hostile client over UDP (Docs/wire-formats.md), on a socket of its own.
struct HostileDatagrams {
    /// What is sent in a row before the next client has its turn.
    private static let burst = 16
    /// How long a client waits for an answer to its handshake, and stays away that was sent away, in nanoseconds.
    private static let patience: Int64 = 200_000_000
    private static let absence: Int64 = 50_000_000

    private let kind: HostileKind
    private var socket: Int32 = -1
    /// When it asks again, or comes back.
    private var due: Int64 = 0
    private var session: [UInt8]?
    /// Counts what it sends; also the source of what it makes up.
    private var count: UInt64

    init(_ kind: HostileKind, number: Int) {
        self.kind = kind
        count = UInt64(number) << 40
    }

    /// Whether the kind exists over UDP.
    static func knows(_ kind: HostileKind) -> Bool {
        switch kind {
        case .helloFlood, .garbageFlood, .unknownSession, .messageFlood, .pingFlood: true
        default: false
        }
    }

    /// Does its worst for a moment; gives how often it connected.
    mutating func work(_ port: UInt16, _ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) -> Int {
        guard socket >= 0 else {
            guard due <= now, connect(port) else { return 0 }
            return 1
        }
        hear(buffer, now)
        guard needsSession, session == nil else {
            for _ in 0..<Self.burst { send(load) }
            return 0
        }
        if due <= now {
            due = now + Self.patience
            send(request(1))
        }
        return 0
    }

    var isAway: Bool { socket < 0 }

    mutating func hangUp(until time: Int64 = .max) {
        if socket >= 0 { closeDescriptor(socket) }
        (socket, session, due) = (-1, nil, time)
    }

    private var needsSession: Bool { kind == .messageFlood || kind == .pingFlood }

    // MARK: Bytes

    private static func header(_ kind: UInt8) -> [UInt8] { [0x49, 0x4d, 1, kind] }

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }

    /// Numbers that nobody expects (the mixer of SplitMix64).
    private var noise: [UInt8] {
        var word = count &* 0x9e37_79b9_7f4a_7c15
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        return Self.bytes(word ^ word >> 31)
    }

    private func request(_ kind: UInt8, cookie: [UInt8] = []) -> [UInt8] {
        let start = Self.header(kind) + Self.bytes(count) + cookie
        return start + [UInt8](repeating: 0, count: 64 - start.count)
    }

    private var load: [UInt8] {
        mutating get {
            count &+= 1
            switch kind {
            case .helloFlood: return request(1)
            case .garbageFlood: return noise + [UInt8](repeating: 65, count: 56)
            case .unknownSession: return Self.header(5) + noise + [0, 0, 0, 1] + [UInt8](repeating: 65, count: 64)
            case .pingFlood: return Self.header(6) + (session ?? []) + Self.bytes(count)
            default:
                return Self.header(5) + (session ?? []) + Self.bytes(count).suffix(4)
                    + [UInt8](repeating: 65, count: 64)
            }
        }
    }

    // MARK: The socket

    private mutating func connect(_ port: UInt16) -> Bool {
        #if canImport(Glibc)
        let raw = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        #else
        let raw = SocketIO.socket(AF_INET, SOCK_DGRAM, 0)
        #endif
        guard raw >= 0 else { return false }
        _ = fcntl(raw, F_SETFL, O_NONBLOCK)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                SocketIO.connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        socket = raw
        due = 0
        if result != 0 { hangUp(until: 0) }
        return result == 0
    }

    private func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { SocketIO.send(socket, $0.baseAddress, $0.count, 0) }
    }

    /// Takes what has come, and answers what belongs to the handshake.
    private mutating func hear(_ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) {
        for _ in 0..<2 * Self.burst {
            let size = recv(socket, buffer.baseAddress, buffer.count, 0)
            guard size >= 12 else { return }
            switch buffer[3] {
            case 2 where size >= 20 && needsSession && session == nil: send(request(3, cookie: Array(buffer[12..<20])))
            case 4 where size >= 20 && session == nil: session = Array(buffer[12..<20])
            case 8 where session != nil, 9 where session != nil, 10: return hangUp(until: now + Self.absence)
            default: break
            }
        }
    }
}
