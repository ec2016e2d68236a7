import SocketIO

/// A hostile client over UDP (Docs/wire-formats.md), on a socket of its own.
struct HostileDatagrams {
    /// What is sent in a row before the next client has its turn.
    private static let burst = 16
    /// How long a client waits for an answer to its handshake, and stays away that was sent away, in nanoseconds.
    private static let patience: Int64 = 200_000_000
    private static let absence: Int64 = 50_000_000

    private let kind: HostileKind
    private let number: Int
    private var socket: RawDatagrams?
    /// Where the same session is spoken in from another address, if it is.
    private var elsewhere: RawDatagrams?
    /// What went from that address, and what came there, in bytes.
    private var (elsewhereSent, elsewhereHeard) = (0, 0)
    /// How often that address was asked to prove itself.
    private(set) var questions = 0
    /// When it asks again, or comes back.
    private var due: Int64 = 0
    private var load: DatagramLoad

    init(_ kind: HostileKind, number: Int) {
        (self.kind, self.number) = (kind, number)
        load = DatagramLoad(kind, number)
    }

    /// Whether the kind exists over UDP.
    static func knows(_ kind: HostileKind) -> Bool {
        switch kind {
        case .helloFlood, .forgedCookie, .garbageFlood, .unknownSession, .messageFlood, .pingFlood, .giantTotal,
            .unfinishedFragments, .neverAcknowledging:
            true
        case .addressFlood, .stolenSession:
            #if os(Linux)
            true
            #else
            // Elsewhere 127.0.0.1 is the only address of its network that may be bound.
            false
            #endif
        default: false
        }
    }

    var isAway: Bool { socket == nil }

    /// Whether an address that has proved nothing was sent more than three times what came from there (Docs/wire-formats.md,
    /// "Another address").
    var wasAmplified: Bool { elsewhereHeard > 3 * elsewhereSent }

    /// Does its worst for a moment; gives how often it connected.
    mutating func work(_ port: UInt16, _ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) -> Int {
        guard let socket else {
            guard due <= now, open(port) else { return 0 }
            return 1
        }
        while let size = elsewhere?.receive(buffer) {
            elsewhereHeard += size
            if size >= 12, buffer[3] == 6 { questions += 1 }
        }
        guard hear(socket, buffer) else {
            hangUp(until: now + Self.absence)
            return 0
        }
        guard load.needsSession, load.session == nil else {
            speak(socket, now)
            return 0
        }
        if due <= now {
            due = now + Self.patience
            socket.send(load.request(1))
        }
        return 0
    }

    mutating func hangUp(until time: Int64 = .max) {
        socket?.close()
        elsewhere?.close()
        (socket, elsewhere, due) = (nil, nil, time)
        load.forget()
    }

    private mutating func speak(_ socket: RawDatagrams, _ now: Int64) {
        switch kind {
        case .addressFlood:
            // One word makes it one of those who have spoken, and it leaves without another.
            socket.send(load.next())
            hangUp(until: now + Self.absence)
        case .stolenSession:
            for turn in 0..<Self.burst {
                let bytes = load.next()
                if turn % 2 == 0 { socket.send(bytes) }
                guard turn % 2 == 1, let elsewhere else { continue }
                elsewhere.send(bytes)
                elsewhereSent += bytes.count
            }
        default: for _ in 0..<Self.burst { socket.send(load.next()) }
        }
    }

    private mutating func open(_ port: UInt16) -> Bool {
        socket = RawDatagrams(port: port, from: kind == .addressFlood ? place : nil)
        if kind == .stolenSession { elsewhere = RawDatagrams(port: port, from: place) }
        due = 0
        return socket != nil
    }

    /// The last three bytes of an address that none of the last thousand sessions had, nor any other client has.
    private var place: UInt32 { UInt32(truncatingIfNeeded: 0x10_0000 &+ number << 10 &+ Int(load.sessions & 0x3ff)) }

    /// Takes what has come, and answers what belongs to the handshake; `false` once it was sent away.
    private mutating func hear(_ socket: RawDatagrams, _ buffer: UnsafeMutableRawBufferPointer) -> Bool {
        for _ in 0..<2 * Self.burst {
            guard let size = socket.receive(buffer) else { return true }
            guard size >= 12 else { continue }
            switch buffer[3] {
            case 2 where size >= 20 && load.needsSession && load.session == nil:
                socket.send(load.request(3, cookie: Array(buffer[12..<20])))
            case 4 where size >= 20, 11 where size >= 20: load.opened(Array(buffer[12..<20]))
            case 8 where load.session != nil, 9 where load.session != nil, 10: return false
            default: break
            }
        }
        return true
    }
}

/// A UDP socket without any of our code above it, connected to a port of 127.0.0.1.
struct RawDatagrams: Sendable {
    let socket: Int32

    /// Opens the socket, at 127.x.y.z where a number for the last three bytes is given; `nil` if the system refuses.
    init?(port: UInt16, from place: UInt32? = nil) {
        #if canImport(Glibc)
        socket = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        #else
        socket = SocketIO.socket(AF_INET, SOCK_DGRAM, 0)
        #endif
        guard socket >= 0 else { return nil }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        let raw = socket
        let isBound = place.map { place in
            Self.with(0x7f00_0000 | place & 0x00ff_ffff, 0) { bind(raw, $0, $1) == 0 }
        }
        guard isBound ?? true, Self.with(0x7f00_0001, port, { connect(raw, $0, $1) == 0 }) else {
            closeDescriptor(socket)
            return nil
        }
    }

    private static func with(_ host: UInt32, _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Bool)
        -> Bool
    {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { SocketIO.send(socket, $0.baseAddress, $0.count, 0) }
    }

    /// The size of the next datagram; `nil` if there is none.
    func receive(_ buffer: UnsafeMutableRawBufferPointer) -> Int? {
        let size = recv(socket, buffer.baseAddress, buffer.count, 0)
        return size >= 0 ? size : nil
    }

    func close() {
        closeDescriptor(socket)
    }
}
