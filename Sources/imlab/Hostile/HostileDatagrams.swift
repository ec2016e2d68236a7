import CommandSupport
import Foundation
import Measuring
import Transports

/// A hostile client over UDP (Docs/reference/wire-formats.md), with its own socket.
struct HostileDatagrams {
    /// The number of datagrams before the next client runs.
    private static let burst = 16
    /// How long a client waits for an answer to its handshake, and its pause after a rejection, in nanoseconds.
    private static let answerTimeout: Int64 = 200_000_000
    private static let absence: Int64 = 50_000_000

    private let kind: HostileKind
    private let number: Int
    private var socket: RawDatagrams?
    /// The socket that uses the same session from another address, if there is one.
    private var elsewhere: RawDatagrams?
    /// The bytes sent from that address, and received there.
    private var (elsewhereSent, elsewhereReceived) = (0, 0)
    /// How often the server has tried to validate that address.
    private(set) var questions = 0
    /// The time of the next request, or of the next session.
    private var due: Int64 = 0
    private var load: DatagramLoad

    init(_ kind: HostileKind, number: Int) {
        (self.kind, self.number) = (kind, number)
        load = DatagramLoad(kind, number)
    }

    /// The transport that it attacks.
    static let transport = TransportDescriptor.udp.name

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

    /// Whether the other address, which is not validated, was sent more than three times as much as it has sent
    /// (Docs/reference/wire-formats.md, "Another address").
    var wasAmplified: Bool { elsewhereReceived > 3 * elsewhereSent }

    /// Attacks for one round. Returns how often it connected.
    mutating func work(_ port: UInt16, _ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) -> Int {
        guard let socket else {
            guard due <= now, open(port) else { return 0 }
            return 1
        }
        while let size = elsewhere?.receive(buffer) {
            elsewhereReceived += size
            if size >= 12, buffer[3] == 6 { questions += 1 }
        }
        guard receive(socket, buffer) else {
            disconnect(until: now + Self.absence)
            return 0
        }
        guard load.needsSession, load.session == nil else {
            attack(socket, now)
            return 0
        }
        if due <= now {
            due = now + Self.answerTimeout
            socket.send(load.request(1))
        }
        return 0
    }

    mutating func disconnect(until time: Int64 = .max) {
        socket?.close()
        elsewhere?.close()
        (socket, elsewhere, due) = (nil, nil, time)
        load.forget()
    }

    private mutating func attack(_ socket: RawDatagrams, _ now: Int64) {
        switch kind {
        case .addressFlood:
            // It leaves after one message.
            socket.send(load.next())
            disconnect(until: now + Self.absence)
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

    /// The last three bytes of an address that no other client has, and none of the last thousand sessions.
    private var place: UInt32 { UInt32(truncatingIfNeeded: 0x10_0000 &+ number << 10 &+ Int(load.sessions & 0x3ff)) }

    /// Reads the received datagrams, and answers those of the handshake. Returns `false` once it was rejected.
    private mutating func receive(_ socket: RawDatagrams, _ buffer: UnsafeMutableRawBufferPointer) -> Bool {
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

/// A UDP socket that uses only system calls, connected to a port of 127.0.0.1.
struct RawDatagrams: Sendable {
    let socket: Int32

    /// Opens the socket, at 127.x.y.z if `place` has the last three bytes of its address; `nil` if the system refuses.
    init?(port: UInt16, from place: UInt32? = nil) {
        guard let socket = try? BareSocket.open(BareSocket.datagram, isBlocking: false) else { return nil }
        self.socket = socket
        do throws(SystemFailure) {
            if let place { try BareSocket.bind(socket, 0x7f00_0000 | place & 0x00ff_ffff) }
            try BareSocket.connect(socket, port: port)
        } catch {
            close()
            return nil
        }
    }

    func send(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, 0) }
    }

    /// The size of the next datagram; `nil` if there is none.
    func receive(_ buffer: UnsafeMutableRawBufferPointer) -> Int? {
        let size = recv(socket, buffer.baseAddress, buffer.count, 0)
        return size >= 0 ? size : nil
    }

    func close() {
        _ = Foundation.close(socket)
    }
}

/// The datagrams that a hostile client sends (Docs/reference/wire-formats.md).
struct DatagramLoad {
    private let kind: HostileKind
    /// The connection id, once there is a session.
    private(set) var session: [UInt8]?
    /// How many sessions there have been before.
    private(set) var sessions: UInt64 = 0
    /// Counts the datagrams, and is the source of random bytes.
    private var count: UInt64
    /// Counts the packets of a session.
    private var packets: UInt64 = 0

    init(_ kind: HostileKind, _ number: Int) {
        self.kind = kind
        count = UInt64(number) << 40
    }

    /// Whether nothing is sent before there is a session.
    var needsSession: Bool {
        switch kind {
        case .helloFlood, .forgedCookie, .garbageFlood, .unknownSession: false
        default: true
        }
    }

    mutating func opened(_ identifier: [UInt8]) {
        guard needsSession, session == nil else { return }
        (session, packets) = (identifier, 0)
    }

    /// Ends the session. The next one has another nonce.
    mutating func forget() {
        session = nil
        sessions &+= 1
        count &+= 1
    }

    /// A hello or a confirm.
    func request(_ kind: UInt8, cookie: [UInt8] = []) -> [UInt8] {
        var bytes = Self.header(kind) + Self.bytes(count) + cookie
        if kind == 3, isReliable {
            // Unordered, so that each message returns in spite of losses, and with ample credit.
            bytes += [2] + Self.bytes(UInt64(1 << 20) << 32 | 1 << 30)
        }
        return bytes + [UInt8](repeating: 0, count: 64 - bytes.count)
    }

    /// The next datagram.
    mutating func next() -> [UInt8] {
        count &+= 1
        defer { packets &+= 1 }
        switch kind {
        case .helloFlood: return request(1)
        case .forgedCookie: return request(3, cookie: noise)
        case .garbageFlood: return noise + Self.text(56)
        case .unknownSession: return Self.header(5) + noise + [0, 0, 0, 1] + Self.text(64)
        case .pingFlood: return Self.header(6) + (session ?? []) + Self.bytes(count)
        case .giantTotal: return packet(fragment(of: packets, size: 16 << 20, at: 0))
        case .unfinishedFragments:
            // As many messages as the credit allows: always two of the largest size.
            let block = packets % 512
            return packet(fragment(of: block / 256, size: 1 << 20, at: (block % 256) << 12))
        case .neverAcknowledging: return packet([1] + Self.bytes(packets) + [4, 0] + Self.text(1024))
        default: return Self.header(5) + (session ?? []) + Self.bytes(count).suffix(4) + Self.text(64)
        }
    }

    private var isReliable: Bool {
        kind == .giantTotal || kind == .unfinishedFragments || kind == .neverAcknowledging
    }

    private func packet(_ frame: [UInt8]) -> [UInt8] {
        Self.header(12) + (session ?? []) + Self.bytes(packets) + frame
    }

    /// The smallest allowed fragment.
    private func fragment(of message: UInt64, size: UInt64, at offset: UInt64) -> [UInt8] {
        [2] + Self.bytes(message) + Self.bytes(size << 32 | offset) + [1, 0] + Self.text(256)
    }

    /// Pseudorandom bytes (the mixer of SplitMix64).
    private var noise: [UInt8] {
        var word = count &* 0x9e37_79b9_7f4a_7c15
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        return Self.bytes(word ^ word >> 31)
    }

    private static func header(_ kind: UInt8) -> [UInt8] { [0x49, 0x4d, 1, kind] }

    private static func text(_ count: Int) -> [UInt8] { [UInt8](repeating: 65, count: count) }

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }
}
