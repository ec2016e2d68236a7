import CommandSupport
import Crowds
import Transports

/// The behaviour of a hostile client.
enum HostileKind: String, Sendable, Hashable, CaseIterable {
    case slowHeaders = "slow-headers"
    /// Sends the body of a request very slowly.
    case slowBody = "slow-body"
    case halfOpen = "half-open"
    /// Begins TLS handshakes continuously, and leaves each at the server's answer.
    case handshakeFlood = "handshake-flood"
    /// Replays ClientHellos with groups that a server may offer.
    case helloOffered = "hello-offered"
    /// Replays ClientHellos with larger elliptic curves.
    case helloCurves = "hello-curves"
    /// Replays ClientHellos with groups of finite fields.
    case helloFields = "hello-fields"
    /// Sends long chains of certificates of an authority that the server does not trust.
    case fatChains = "fat-chains"
    /// Begins ClientHellos that announce 128 KiB.
    case unfinishedHellos = "unfinished-hellos"
    case neverReading = "never-reading"
    case giantLength = "giant-length"
    case pingFlood = "ping-flood"
    case fragmentFlood = "fragment-flood"
    case compressionBomb = "compression-bomb"
    /// Subscribes to the same filter repeatedly.
    case subscriptionFlood = "subscription-flood"
    /// Subscribes to different filters of many levels, half of them with wildcards.
    case filterFlood = "filter-flood"
    /// Most clients subscribe, at QoS 0 or 1, to the messages of the others, and read none.
    case slowSubscriber = "slow-subscriber"
    /// All clients have the same client identifier, and a will.
    case takeoverFlood = "takeover-flood"
    /// Sends the same message of QoS 2 repeatedly.
    case identifierReuse = "identifier-reuse"
    /// Sends different messages of QoS 2, and releases none.
    case unreleasedFlood = "unreleased-flood"
    /// Releases messages that were never sent.
    case releaseFlood = "release-flood"
    /// Sends only what keeps a connection alive: line ends between frames of STOMP, white space between stanzas of XMPP.
    case blankFlood = "blank-flood"
    /// Sends headers of STOMP, or the start tag of a stream of XMPP, without an end.
    case endlessHeaders = "endless-headers"
    /// Sends the body of a frame of STOMP without its NUL, or a stanza of XMPP without its end.
    case endlessBody = "endless-body"
    /// Sends frames of STOMP whose bodies are longer than their content-length.
    case wrongLength = "wrong-length"
    /// Sends elements of XMPP within elements, or beside each other, without end.
    case deepNesting = "deep-nesting"
    /// Sends stanzas of XMPP with too many attributes or namespaces.
    case endlessAttributes = "endless-attributes"
    /// Declares entities that expand to others (billion laughs), or refers to them.
    case entityExpansion = "entity-expansion"
    /// Authenticates continuously, without success.
    case passwordGuessing = "password-guessing"
    /// Chooses long addresses, which a server of XMPP would repeat in each message.
    case longAddress = "long-address"
    /// Sends messages of XMPP that cost as much as the limits allow.
    case costlyStanzas = "costly-stanzas"
    /// Acknowledges more stanzas of XMPP than were sent.
    case falseAcknowledgement = "false-acknowledgement"
    case messageFlood = "message-flood"
    /// Floods a chat room with messages.
    case roomFlood = "room-flood"
    /// Begins sessions in a chat room and leaves them, nine for each client, and then floods the room.
    case zombieSessions = "zombie-sessions"
    /// Sends keys to a chat room whose normalisation takes very long.
    case hostileText = "hostile-text"
    /// Begins sessions continuously, and resumes none.
    case sessionSquatting = "session-squatting"
    /// Sends the second and later messages of a session, and never the first.
    case sessionHoarding = "session-hoarding"
    /// Requests a WebSocket, or a session over HTTP, as a web page of another origin does.
    case foreignOrigin = "foreign-origin"
    /// Sends bodies over HTTP in chunks whose lengths, extensions or trailers are too large.
    case chunkOverflow = "chunk-overflow"
    /// Hides a request over HTTP in another one, for proxies that see a different end of it.
    case requestSmuggling = "request-smuggling"
    /// Puts line ends into everything that a request over HTTP contains, for answers that repeat it.
    case responseSplitting = "response-splitting"
    /// Guesses the tokens of sessions over HTTP.
    case tokenGuessing = "token-guessing"
    /// Opens sessions over HTTP continuously, and uses none.
    case abandonedSessions = "abandoned-sessions"
    /// Lets the server hold as many polls over HTTP as possible.
    case heldPolls = "held-polls"
    /// Sends copies of members' messages over a broker, with their identifiers and higher numbers.
    case poisonedIdentity = "poisoned-identity"
    case helloFlood = "hello-flood"
    /// Requests sessions with forged cookies.
    case forgedCookie = "forged-cookie"
    /// Opens sessions continuously, each from another address, and leaves each after one message.
    case addressFlood = "address-flood"
    /// Uses a session from two addresses in turn, of which the second is not validated.
    case stolenSession = "stolen-session"
    case garbageFlood = "garbage-flood"
    case unknownSession = "unknown-session"
    /// Begins a reliable message that is larger than the limit.
    case giantTotal = "giant-total"
    /// Sends the beginning of each block of reliable messages, and the rest of none.
    case unfinishedFragments = "unfinished-fragments"
    /// Acknowledges nothing of what it receives: reliable messages over UDP, the stream of a session over HTTP, or stanzas of
    /// XMPP, although it answers each request for their number.
    case neverAcknowledging = "never-acknowledging"

    /// Whether it attacks the TLS handshake only.
    var isOfHandshakes: Bool {
        switch self {
        case .handshakeFlood, .helloOffered, .helloCurves, .helloFields, .fatChains, .unfinishedHellos: true
        default: false
        }
    }

    /// Whether it attacks the sessions of a chat room, and not the connections of a server.
    var isOfSessions: Bool {
        switch self {
        case .roomFlood, .zombieSessions, .hostileText, .sessionSquatting, .sessionHoarding: true
        default: false
        }
    }
}

/// One kind of attack on one transport: the behaviour of its clients, the limit of the server that they must reach within
/// seconds, and the endings that the server must report.
struct AttackPlan: Sendable {
    /// The endings that are counted besides the codes of errors.
    enum Ending {
        /// A connection that ended without an error.
        static let closed = "closed"
        /// A message that a broker has dropped.
        static let dropped = "dropped"
        /// A filter that a broker has refused.
        static let refused = "subscriptionRefused"
        /// A ping that validates an address, before it is sent more than three times as much as it has sent.
        static let questioned = "addressQuestioned"
        /// An answer over HTTP that refuses a request.
        static func status(_ status: Int) -> String { "HTTP \(status)" }
    }

    let transport: String
    let kind: HostileKind
    /// The scripts between which the clients alternate; empty over UDP, where the kind determines the behaviour.
    let scripts: [HostileScript]
    /// The scripts of clients at the same rate to which the attack is compared; empty if it is compared to none.
    private(set) var control: [HostileScript] = []
    /// Whether the server requests certificates of clients.
    private(set) var requestsCertificates = false
    /// Whether the server sends its echoes at QoS 1.
    private(set) var awaitsAcknowledgements = false
    /// The options of the server. They lower limits whose defaults the attack would not reach.
    private(set) var options: [String] = []
    /// The endings that must occur at least once; empty if no client is ended.
    private(set) var expected: [String] = []
    /// How often each of them must occur.
    private(set) var fewestEndings = 1
    /// How many sessions the attacked chat room may have; `nil` if no room is attacked.
    private(set) var roomSessions: Int?
    /// The heap limit of each hostile client in bytes, in addition to `heapOfAll`.
    private(set) var heapEach = usualHeap
    /// The heap limit for all clients together: buffers of the loop, and other work of this process.
    private var heapOfAll = 4 << 20
    /// A queued read of 64 KiB, as much of answers, and the connection itself.
    private static let usualHeap = 160 << 10
    /// The memory that a server counts for an unfinished ClientHello, in bytes.
    private static let memoryOfHello = 192 << 10

    /// The plan for this number of attackers, besides honest clients and idle connections; `nil` if the protocol makes such
    /// an attack impossible.
    init?(_ kind: HostileKind, _ transport: String, attackers: Int, connections: Int = 0) {
        (self.transport, self.kind) = (transport, kind)
        scripts = HostileScript.all(kind, transport)
        // Idle clients have no sessions.
        guard connections == 0 || !kind.isOfSessions && kind != .poisonedIdentity else { return nil }
        guard !scripts.isEmpty || transport == HostileDatagrams.transport && HostileDatagrams.knows(kind) else {
            return nil
        }
        // Half of the attackers exceed the limit. Other clients do not, although some connect at the same time.
        let room = max(attackers / 2, min(connections, CrowdClients.atOnce))
        limit(to: room, beside: HonestClients.count + connections)
        if scripts.contains(where: { $0.rate != nil }) { control = [HostileScript.usualHandshakes] }
        if kind == .halfOpen || kind == .addressFlood, attackers <= room { expected = [] }
        // Who finds no room is refused at once.
        if kind == .halfOpen { fewestEndings = max(1, attackers - room) }
    }

    /// Sets the options and the expected endings of the kind.
    private mutating func limit(to room: Int, beside others: Int) {
        guard transport != TransportDescriptor.http.name else { return limitHTTP(to: room, beside: others) }
        let isBroker = TransportRegistry.hasBroker(transport)
        let isXMPP = transport == TransportDescriptor.xmpp.name
        switch kind {
        case .slowHeaders:
            expect("timedOut", "handshake-timeout=1s")
            heapEach = 32 << 10
        case .halfOpen:
            let hasHandshake = !HostileScript.withoutHandshake.contains(transport)
            let bound = hasHandshake ? "max-handshakes=\(room)" : "max-connections=\(others + room)"
            expect("tooManyRequests", bound)
            heapEach = 32 << 10
        case .handshakeFlood:
            expect("connectionLost")
            // A handshake that is being processed.
            heapEach = 128 << 10
        case .helloOffered:
            expect("connectionLost")
            heapEach = 128 << 10
        case .helloCurves, .helloFields:
            expect("secureHandshakeFailed")
            heapEach = 128 << 10
        case .fatChains:
            // Of chains that are refused before they are read, TLS knows only that a message is too long.
            expected = ["certificateRejected", "connectionLost"]
            requestsCertificates = true
            // Both ends of a handshake with a chain.
            heapEach = 512 << 10
        case .unfinishedHellos:
            expect("resourcesExhausted", "max-buffered=\(room * Self.memoryOfHello)")
            // OpenSSL also needs memory for a handshake, which is not in that limit.
            (heapEach, heapOfAll) = (Self.memoryOfHello, 64 << 20)
        case .neverReading:
            expect(isBroker ? "timedOut" : "bufferFull", "write-buffer=65536")
            if isBroker { options.append("stall-timeout=1s") }
            heapEach = 256 << 10
        case .giantLength: expect("messageTooLarge")
        case .pingFlood, .blankFlood, .fragmentFlood, .subscriptionFlood, .identifierReuse, .releaseFlood:
            expect("tooManyRequests", "control-rate=50")
        case .compressionBomb:
            expect("messageTooLarge", "deflate=on")
            // The expansion before it counts as a bomb, and the compressor.
            heapEach = 2 << 20
        case .filterFlood:
            expect("tooManyRequests", "control-rate=50", "max-subscriptions=100")
            if scripts.contains(where: \.countsRefusals) { expected.append(Ending.refused) }
            heapEach = 512 << 10
        case .slowSubscriber:
            expect("timedOut", "write-buffer=65536", "stall-timeout=1s")
            expected.append(Ending.dropped)
            heapEach = 1 << 20
        case .endlessHeaders, .deepNesting, .endlessAttributes, .longAddress: expect("messageTooLarge")
        case .endlessBody:
            expect("messageTooLarge", "max-message=65536")
            // The body up to its limit, and the block of one read. A stanza may be more than twice as large as its message.
            heapEach = isXMPP ? 512 << 10 : 256 << 10
        case .wrongLength, .entityExpansion, .falseAcknowledgement: expect("protocolViolation")
        case .passwordGuessing: expect("authenticationFailed")
        case .costlyStanzas:
            options = ["write-buffer=65536"]
            // An echo with a long address may be larger than the rest of the write buffer.
            heapEach = 256 << 10
        case .takeoverFlood: expect("closedByPeer")
        case .unreleasedFlood: expect("tooManyRequests", "max-unreleased=1000")
        case .forgedCookie: expect("handshakeFailed")
        case .addressFlood: expect("tooManyRequests", "max-sessions=\(others + room)")
        case .garbageFlood: expect("protocolViolation")
        case .unknownSession: expect("notFound")
        case .giantTotal: expect("protocolViolation")
        case .unfinishedFragments: expect("resourcesExhausted", "max-held=4194304")
        case .neverAcknowledging where isXMPP:
            expect("acknowledgementTimeout", "ack-timeout=1s")
            awaitsAcknowledgements = true
        case .neverAcknowledging:
            expect("bufferFull", "write-buffer=65536")
            heapEach = 256 << 10
        case .stolenSession: expected = [Ending.questioned]
        case .foreignOrigin: expect("handshakeFailed")
        case .roomFlood, .hostileText:
            roomSessions = 1000 + others
            // The messages of a session that are queued, and those in flight to it.
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
        case .messageFlood:
            // A client that gets little processor time reads its answers late. They wait in the write buffer.
            options = ["write-buffer=65536"]
        case .poisonedIdentity:
            // Each client also receives what all others send, so its write buffer can be as full as that of a client that
            // never reads.
            options = ["write-buffer=65536"]
            heapEach = 256 << 10
        // These are possible over HTTP only.
        case .slowBody, .chunkOverflow, .requestSmuggling, .responseSplitting, .tokenGuessing, .abandonedSessions,
            .heldPolls:
            break
        case .helloFlood: break
        }
    }

    /// The same over HTTP, where a refusal is an answer with a status.
    private mutating func limitHTTP(to room: Int, beside others: Int) {
        switch kind {
        case .slowHeaders, .slowBody:
            expect("timedOut", "handshake-timeout=1s")
            expected.append(Ending.status(408))
            heapEach = 32 << 10
        case .halfOpen:
            expect("tooManyRequests", "max-handshakes=\(room)")
            heapEach = 32 << 10
        case .giantLength: expected = [Ending.status(413), "messageTooLarge"]
        case .chunkOverflow: expected = ["handshakeFailed", Ending.status(400), Ending.status(413)]
        case .requestSmuggling: expected = ["handshakeFailed", Ending.status(400)]
        case .responseSplitting: expected = [Ending.status(400), Ending.status(404)]
        case .foreignOrigin: expected = ["handshakeFailed", Ending.status(403)]
        case .tokenGuessing: expected = [Ending.status(404)]
        case .abandonedSessions:
            expect("tooManyRequests", "sessions=\(others + room)")
            expected.append(Ending.status(503))
        case .heldPolls:
            // A client that comes again opens another session, and its former one remains for this time.
            expect("tooManyRequests", "session-timeout=1s")
            heapEach = 512 << 10
        case .pingFlood: expect("tooManyRequests", "control-rate=50")
        case .messageFlood:
            // The former sessions of a client that comes again remain for this time, here and below.
            options = ["write-buffer=65536", "session-timeout=1s"]
            heapEach = 512 << 10
        case .neverReading:
            expect("bufferFull", "window=65536", "write-buffer=65536", "session-timeout=1s")
            heapEach = 512 << 10
        case .neverAcknowledging:
            expect("timedOut", "window=65536", "write-buffer=65536", "stall-timeout=1s")
            heapEach = 512 << 10
        default: break
        }
    }

    private mutating func expect(_ ending: String, _ options: String...) {
        expected = [ending]
        self.options = options
    }

    /// The URL of the server.
    var url: String { "\(transport)://127.0.0.1:0/?" + options.joined(separator: "&") }

    /// The limit of the bytes of heap of each attacker.
    func heapBound(_ attackers: Int) -> Int { heapEach + heapOfAll / attackers }

    /// The breach if each attacker has this many bytes of heap; `nil` if there is none.
    func breach(heap: Double, _ attackers: Int) -> String? {
        let bound = heapBound(attackers)
        guard heap > Double(bound) else { return nil }
        return "\(fixed(heap, 0)) bytes of heap for each hostile client are more than \(bound)"
    }
}
