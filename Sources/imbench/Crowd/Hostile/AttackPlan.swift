/// One kind of attack on one transport: what its clients do, which limit of the server they are to reach within seconds, and
/// what its owner is to hear then.
struct AttackPlan: Sendable {
    /// What is told apart besides the codes of errors with which connections end.
    enum Ending {
        /// A connection that ended without an error.
        static let closed = "closed"
        /// A message that a broker had no room for.
        static let dropped = "dropped"
        /// A filter that a broker refused.
        static let refused = "subscriptionRefused"
        /// A ping that an address has to answer before it gets more than three times what came from it.
        static let questioned = "addressQuestioned"
    }

    let transport: String
    let kind: HostileKind
    /// What the clients send, in turns; none over UDP, where the kind says it all.
    let scripts: [HostileScript]
    /// Options of the server: limits that are lower than the defaults where these would not be reached.
    private(set) var options: [String] = []
    /// The endings of which there must be one each; none where a client may go on as long as it likes.
    private(set) var expected: [String] = []
    /// How many sessions a chat room may have, if it is a room that is attacked.
    private(set) var roomSessions: Int?
    /// How many bytes of heap each hostile client may cost at most, beside ``heapOfAll``.
    private(set) var heapEach = usualHeap
    /// A read of 64 KiB that waits for its turn, as much of answers, and what the connection itself takes.
    private static let usualHeap = 160 << 10
    /// What all together may cost besides: buffers that the loop keeps, and what this process does meanwhile.
    static let heapOfAll = 4 << 20

    /// The plan for so many attackers beside honest clients and idle connections; `nil` where the protocol leaves no
    /// room for such an attack.
    init?(_ kind: HostileKind, _ transport: String, attackers: Int, connections: Int = 0) {
        (self.transport, self.kind) = (transport, kind)
        scripts = HostileScript.all(kind, transport)
        // Idle clients have no sessions.
        guard connections == 0 || !kind.isOfSessions && kind != .poisonedIdentity else { return nil }
        guard !scripts.isEmpty || transport == "udp" && HostileDatagrams.knows(kind) else { return nil }
        // Half of the attackers are too many; others are not, though some connect at the same time.
        let room = max(attackers / 2, min(connections, CrowdClients.atOnce))
        limit(to: room, beside: HonestClients.count + connections)
        if kind == .halfOpen || kind == .addressFlood, attackers <= room { expected = [] }
    }

    /// What is set and expected, where that is anything.
    private mutating func limit(to room: Int, beside others: Int) {
        let isBroker = transport.hasPrefix("mqtt")
        switch kind {
        case .slowHeaders:
            expect("timedOut", "handshake-timeout=1s")
            heapEach = 32 << 10
        case .halfOpen:
            let bound = transport == "tcp" ? "max-connections=\(others + room)" : "max-handshakes=\(room)"
            expect("tooManyRequests", bound)
            heapEach = 32 << 10
        case .neverReading:
            expect(isBroker ? "timedOut" : "bufferFull", "write-buffer=65536")
            if isBroker { options.append("stall-timeout=1s") }
            heapEach = 256 << 10
        case .giantLength: expect("messageTooLarge")
        case .pingFlood, .fragmentFlood, .subscriptionFlood, .identifierReuse, .releaseFlood:
            expect("tooManyRequests", "control-rate=50")
        case .compressionBomb:
            expect("messageTooLarge", "deflate=on")
            // What it may expand to before it counts as a bomb, and what the compressor takes.
            heapEach = 2 << 20
        case .filterFlood:
            expect("tooManyRequests", "control-rate=50", "max-subscriptions=100")
            if scripts.contains(where: \.countsRefusals) { expected.append(Ending.refused) }
            heapEach = 512 << 10
        case .slowSubscriber:
            expect("timedOut", "write-buffer=65536", "stall-timeout=1s")
            expected.append(Ending.dropped)
            heapEach = 1 << 20
        case .takeoverFlood: expect("closedByPeer")
        case .unreleasedFlood: expect("tooManyRequests", "max-unreleased=1000")
        case .forgedCookie: expect("handshakeFailed")
        case .addressFlood: expect("tooManyRequests", "max-sessions=\(others + room)")
        case .garbageFlood: expect("protocolViolation")
        case .unknownSession: expect("notFound")
        case .giantTotal: expect("protocolViolation")
        case .unfinishedFragments: expect("resourcesExhausted", "max-held=4194304")
        case .neverAcknowledging:
            expect("bufferFull", "write-buffer=65536")
            heapEach = 256 << 10
        case .stolenSession: expected = [Ending.questioned]
        case .foreignOrigin: expect("handshakeFailed")
        case .roomFlood, .hostileText:
            roomSessions = 1000 + others
            // The messages of a session that wait to be passed on, and those on their way to it.
            heapEach = 320 << 10
        case .zombieSessions:
            roomSessions = 10 * HostileScript.zombies * 100 + others
            // A client has ten sessions. Each holds the received messages that a window has room for.
            heapEach = (HostileScript.zombies + 1) * (192 << 10)
        case .sessionSquatting:
            roomSessions = others + room
            heapEach = 512 << 10
        case .sessionHoarding:
            expect("resourcesExhausted", "max-buffered=8388608")
            roomSessions = 1000 + others
            heapEach = 1 << 20
        case .poisonedIdentity, .messageFlood, .helloFlood: break
        }
    }

    private mutating func expect(_ ending: String, _ options: String...) {
        expected = [ending]
        self.options = options
    }

    /// Where the server listens.
    var url: String { "\(transport)://127.0.0.1:0/?" + options.joined(separator: "&") }

    /// How many bytes of heap so many attackers may cost, each.
    func heapBound(_ attackers: Int) -> Int { heapEach + Self.heapOfAll / attackers }

    /// What is wrong if each of them costs so many bytes of heap; `nil` if nothing is.
    func breach(heap: Double, _ attackers: Int) -> String? {
        let bound = heapBound(attackers)
        guard heap > Double(bound) else { return nil }
        return "\(fixed(heap, 0)) bytes of heap for each hostile client are more than \(bound)"
    }
}
