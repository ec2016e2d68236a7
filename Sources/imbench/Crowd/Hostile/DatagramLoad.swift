/// The datagrams that a hostile client sends (Docs/wire-formats.md).
struct DatagramLoad {
    private let kind: HostileKind
    /// The connection id, once there is a session.
    private(set) var session: [UInt8]?
    /// How many sessions there have been before.
    private(set) var sessions: UInt64 = 0
    /// Counts what is sent; also the source of what is made up.
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

    /// The session is over; the next one has another nonce.
    mutating func forget() {
        session = nil
        sessions &+= 1
        count &+= 1
    }

    /// A hello or a confirm.
    func request(_ kind: UInt8, cookie: [UInt8] = []) -> [UInt8] {
        var bytes = Self.header(kind) + Self.bytes(count) + cookie
        if kind == 3, isReliable {
            // Unordered, so that each message comes back whatever is lost; with more credit than anybody needs.
            bytes += [2] + Self.bytes(UInt64(1 << 20) << 32 | 1 << 30)
        }
        return bytes + [UInt8](repeating: 0, count: 64 - bytes.count)
    }

    /// What is sent next.
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
            // As many messages as there is credit for: two of the largest; then all over again.
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

    /// The smallest fragment that there may be.
    private func fragment(of message: UInt64, size: UInt64, at offset: UInt64) -> [UInt8] {
        [2] + Self.bytes(message) + Self.bytes(size << 32 | offset) + [1, 0] + Self.text(256)
    }

    /// Numbers that nobody expects (the mixer of SplitMix64).
    private var noise: [UInt8] {
        var word = count &* 0x9e37_79b9_7f4a_7c15
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        return Self.bytes(word ^ word >> 31)
    }

    private static func header(_ kind: UInt8) -> [UInt8] { [0x49, 0x4d, 1, kind] }

    private static func text(_ count: Int) -> [UInt8] { [UInt8](repeating: 65, count: count) }

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian, Array.init) }
}
