import CommandSupport
import Simulation
import TransportAPI

/// The parameters of one schedule, drawn from its seed.
struct StackPlan {
    /// A transport with its mode.
    enum Carrier: String, CaseIterable {
        case tcp, webSocket = "ws"
        case mqtt0 = "mqtt-qos0"
        case mqtt1 = "mqtt-qos1"
        case mqtt2 = "mqtt-qos2"
        case mqttWebSocket = "mqtt+ws-qos1"
        case stomp
        /// A queue, whose messages the client acknowledges one by one.
        case stompQueue = "stomp-queue"
        case stompWebSocket = "stomp+ws"
        case xmpp
        case datagrams = "udp"
        case ordered = "udp-ordered"
        case unordered = "udp-unordered"
        case eventStream = "http-sse"
        case longPoll = "http-long-poll"
        case poll = "http-poll"

        /// The transports that are drawn first. Some of them are then replaced by one over HTTP, by one of STOMP, or by XMPP.
        static let common: [Carrier] = allCases.filter { !$0.isRequests && !$0.isSTOMP && $0 != .xmpp }

        /// The scheme of the transport without encryption.
        var scheme: String {
            switch self {
            case .tcp: "tcp"
            case .webSocket: "ws"
            case .mqtt0, .mqtt1, .mqtt2: "mqtt"
            case .mqttWebSocket: "mqtt+ws"
            case .stomp, .stompQueue: "stomp"
            case .stompWebSocket: "stomp+ws"
            case .xmpp: "xmpp"
            case .datagrams, .ordered, .unordered: "udp"
            case .eventStream, .longPoll, .poll: "http"
            }
        }

        /// The scheme of the encrypted transport.
        var encryptedScheme: String {
            switch scheme {
            case "tcp": "tls"
            case "ws": "wss"
            case "mqtt": "mqtts"
            case "mqtt+ws": "mqtt+wss"
            case "stomp": "stomp+tls"
            case "stomp+ws": "stomp+wss"
            case "xmpp": "xmpps"
            case "udp": "dtls"
            case "http": "https"
            default: scheme
            }
        }

        var isDatagram: Bool { scheme == "udp" }
        var isBroker: Bool { scheme.hasPrefix("mqtt") || isSTOMP }
        var isSTOMP: Bool { scheme.hasPrefix("stomp") }
        /// Whether the frames of the protocol are in those of a WebSocket.
        var isInsideWebSocket: Bool { [.mqttWebSocket, .stompWebSocket].contains(self) }
        /// Whether a broker keeps the messages of a client without a connection, if the client wants that.
        var isKept: Bool { isAcknowledged && (!isSTOMP || self == .stompQueue) }
        /// Whether a connection brings a message at most once.
        var isOnce: Bool { isReliable && self != .mqtt1 && self != .mqttWebSocket }
        /// The topic of this name, or the queue.
        func destination(_ name: String) -> String {
            isSTOMP ? (self == .stompQueue ? "/queue/" : "/topic/") + name : name
        }
        /// Whether each connection is a session of HTTP requests.
        var isRequests: Bool { scheme == "http" }
        /// Whether a connection is a stream between two apps, which only its apps end.
        var isStream: Bool { [.tcp, .webSocket].contains(self) || isRequests }
        /// Whether no written message is lost while the connection is open.
        var isReliable: Bool { self != .datagrams }
        var isOrdered: Bool { self != .datagrams && self != .unordered }
        /// Whether a broker acknowledges each message.
        var isAcknowledged: Bool { [.mqtt1, .mqtt2, .mqttWebSocket].contains(self) || isSTOMP }

        /// The client options of this mode.
        var options: [String] {
            switch self {
            case .mqtt0: ["qos=0"]
            case .mqtt1, .mqttWebSocket: ["qos=1"]
            case .mqtt2: ["qos=2"]
            case .stomp, .stompWebSocket: ["receipt=on"]
            case .stompQueue: ["receipt=on", "ack=client-individual"]
            case .ordered: ["reliable=ordered"]
            case .unordered: ["reliable=unordered"]
            case .longPoll: ["mode=long-poll"]
            case .poll: ["mode=poll", "interval=200ms"]
            case .tcp, .webSocket, .xmpp, .datagrams, .eventStream: []
            }
        }
    }

    /// The layers above the transport.
    enum Style: String, CaseIterable {
        /// A connection without a supervisor.
        case plain
        /// A supervisor, and a session server.
        case session
        /// Supervisors in a chat room.
        case room
        /// A supervisor over MQTT, whose session the broker keeps.
        case kept
        /// A supervisor whose app greets a server on each connection.
        case greeted
        /// A supervisor and a session server in plain mode, whose apps only make requests.
        case asking
    }

    /// How an app reads messages.
    enum Appetite: String, CaseIterable {
        case atOnce, slowly, bursts, never
        /// It answers each message, and waits for the outcome before it reads the next one.
        case answering
    }

    /// How an app leaves the loop in which it receives, to begin another one.
    struct Leaving {
        /// After how many messages.
        var after: Int
        /// How long there is no loop, in nanoseconds; `nil` if the next one begins before the last one is left.
        var pause: Int64?
    }

    struct App {
        var appetite = Appetite.atOnce
        /// How many received messages its supervisor or session buffers.
        var messageBuffer = SupervisorConfiguration().messageBuffer
        /// `nil` if it has one loop.
        var leaving: Leaving?
        /// Tasks that send, and how many messages each.
        var senders = 1
        var messages = 10
        /// Whether its tasks prefer the loop.
        var isOnLoop = true
        /// The percentage of sends that are cancelled.
        var cancelled = 0
        /// The longest pause between two messages of a sender, in nanoseconds.
        var pause = 0
        var pings = 0
        /// The time after which it closes; `nil` closes it after the last send.
        var closesAfter: Int64?
    }

    enum Fault {
        /// The network drops all packets for this time.
        case cut(Int64)
        /// The server, or a client, does not run for this time.
        case pause(isServer: Bool, Int64)
        case reset
        /// One bit of the next bytes changes on the way.
        case damage
        /// The number of descriptors is limited to the open ones, for this time.
        case descriptors(isServer: Bool, Int64)
        /// The server, or a client, is killed. Another one starts in its place after this time.
        case kill(isServer: Bool, losesPower: Bool, Int64)
    }

    /// A schedule in which no connection may be taken for dead, and its keepalives.
    struct Endurance {
        enum Kind: Equatable {
            /// The path is slow, and everything else works.
            case slowPath
            /// One side's processes are stopped for a time, and continue.
            case stops(server: Bool)
        }

        /// After which silence a side asks its peer, and how long it waits for the answer, in seconds.
        struct Asking {
            var interval: Int
            var timeout: Int

            /// That of a side which never asks, so that it endures a stop of its peer.
            static let endless = Asking(interval: 3600, timeout: 600)
        }

        var kind: Kind
        var client: Asking
        var server: Asking
    }

    var carrier: Carrier
    /// Whether the transport is encrypted.
    var isEncrypted = false
    var style = Style.plain
    var clients = 1
    /// How often each client connects.
    var connections = 1
    var options: [String] = []
    var serverOptions: [String] = []
    var maximumMessage: Int
    var client = App()
    var server = App()
    var faults: [(at: Int64, fault: Fault)] = []
    var path = SimulatedPath()
    var conditions = SimulatedKernel.Conditions()
    var hasEdges = true
    /// Each client's process ends as soon as its last connection is closed.
    var exits = false
    /// The clients of a broker have one topic. All but the first accept smaller messages only.
    var isShared = false
    /// The apps acknowledge each message once they have processed it.
    var acknowledges = false
    /// How many filters the app of a kept session subscribes to through an `MQTTClient`, one after the other; 0 if its
    /// filter is in the URL.
    var filters = 0
    /// Whether only the first process of each client subscribes to one more filter, which its later ones have forgotten.
    var forgets = false
    /// Whether the last client does not trust the authority of the server.
    var hasDoubter = false
    /// Whether the first client sends without end and reads nothing.
    var hasBully = false
    /// The limits of unread and of unsent bytes at the server's connection; 0 if they are not checked.
    var bound = (received: 0, unsent: 0)
    /// The limit of buffered bytes of all clients together (`max-buffered`); 0 if it is not checked.
    var maximumBuffered = 0
    /// The largest message that the server accepts. Clients accept and send larger ones if it is smaller than
    /// ``maximumMessage``.
    var serverLimit = Int.max
    /// How many messages may wait for a member of a room.
    var roomOutbox = 1000
    /// The first of the two addresses of the server's name; `nil` if the server has only its own.
    var decoy: StackDecoy.Kind?
    /// Whether clients go over HTTP where WebSocket is blocked.
    var fallsBack = false
    /// What blocks WebSockets before the server, and how long, in nanoseconds; `nil` if nothing does.
    var middlebox: (kind: StackMiddlebox.Kind, until: Int64)?
    /// Whether connections end only if an app closes them; `nil` if other things may end them. Then each side asks the
    /// other one after short silences.
    var endurance: Endurance?
    /// An attacker that connects to the server; `nil` if there is none.
    var intruder: StackIntruder.Kind?
    /// The percentage of calls to which the store of each client says that the disk is full; `nil` if the clients have no
    /// stores.
    var diskFailures: Int?
    /// How many processes of each client are killed soon after they have written to their store.
    var killsAfterWrite = 0
    /// How many requests each process of a client makes, and each session of the server's app.
    var requests = (client: 0, server: 0)
    /// How many transfers each process of a client sends, and each session of the server's app; 0 if nobody takes one.
    var transfers = (client: 0, server: 0)
    /// The largest transfer in bytes.
    var largestTransfer = 0

    /// Whether the server refuses messages that its clients may send.
    var refuses: Bool { serverLimit < maximumMessage }

    /// Whether the network and the processes work all the time.
    var isCalm: Bool { faults.isEmpty }

    /// The scheme of the server's URL.
    var scheme: String { isEncrypted ? carrier.encryptedScheme : carrier.scheme }

    init(seed: UInt64) {
        var random = SimulationRandom(seed: seed, stream: 4)
        carrier = random.one(of: Carrier.common)
        // Drawn on its own, so that all other seeds keep their schedules.
        var requests = SimulationRandom(seed: seed, stream: 18)
        if [.tcp, .webSocket].contains(carrier), requests.chance(40) {
            carrier = requests.one(of: [.eventStream, .eventStream, .longPoll, .poll])
        }
        // Drawn on its own as well, in place of some brokers of MQTT.
        var frames = SimulationRandom(seed: seed, stream: 21)
        if carrier.isBroker, frames.chance(40) {
            carrier = frames.one(of: [.stomp, .stompQueue, .stompQueue, .stompWebSocket])
        }
        // And in place of some streams between two apps.
        var stanzas = SimulationRandom(seed: seed, stream: 22)
        if [.tcp, .webSocket].contains(carrier), stanzas.chance(25) { carrier = .xmpp }
        // Drawn on its own, so that all other parameters of a seed are those without encryption.
        var encryption = SimulationRandom(seed: seed, stream: 6)
        var datagrams = SimulationRandom(seed: seed, stream: 7)
        isEncrypted = carrier.isDatagram ? datagrams.chance(50) : encryption.chance(40)
        // Drawn on its own for the same reason.
        var loops = SimulationRandom(seed: seed, stream: 17)
        maximumMessage = 1
        drawStyle(&random, datagrams: &loops)
        // Drawn on its own as well: sessions whose clients have stores, also in place of some plain connections.
        var stores = SimulationRandom(seed: seed, stream: 24)
        let hasStores = !carrier.isBroker && style == .plain && stores.chance(10)
        if hasStores { style = .session }
        // Drawn on its own as well. Messages without an order could overtake the answer to a greeting.
        var greetings = SimulationRandom(seed: seed, stream: 8)
        if style == .session, !hasStores, carrier.isOrdered, greetings.chance(30) {
            (style, acknowledges) = (.greeted, false)
        }
        drawOptions(&random)
        client = Self.drawApp(&random)
        server = Self.drawApp(&random)
        if carrier == .datagrams || random.chance(50) { server.closesAfter = nil }
        drawNetwork(&random)
        drawFaults(&random)
        drawCompany(&random)
        drawLoops(&loops)
        if isEncrypted { drawDangers(&encryption) }
        var names = SimulationRandom(seed: seed, stream: 11)
        // Without any handshake, a client cannot know that the decoy is not its server.
        if !carrier.isDatagram, carrier != .tcp || isEncrypted, names.chance(20) {
            decoy = names.one(of: StackDecoy.Kind.allCases)
        }
        if isEncrypted, carrier.isDatagram { drawLosses(&datagrams) }
        // Also drawn on its own.
        var subscriptions = SimulationRandom(seed: seed, stream: 9)
        if style == .kept, !carrier.isSTOMP, subscriptions.chance(50) { drawSubscriptions(&subscriptions) }
        var refusals = SimulationRandom(seed: seed, stream: 10)
        if style == .kept || style == .session, refusals.chance(30) { drawRefusals(&refusals) }
        var enduring = SimulationRandom(seed: seed, stream: 12)
        drawEndurance(&enduring)
        if carrier.isRequests { drawRequests(&requests) }
        if carrier == .webSocket, requests.chance(30) { drawFallback(&requests) }
        // A server that ends sessions, for one of these reasons, promises nothing to their clients.
        let endsSessions = maximumBuffered > 0 || intruder != nil
        if style == .session, endurance == nil, !endsSessions, hasStores || stores.chance(40) { drawStores(&stores) }
        // Also drawn on its own.
        var answers = SimulationRandom(seed: seed, stream: 25)
        if endurance == nil, !endsSessions { drawAnswers(&answers) }
        // Also drawn on its own.
        var files = SimulationRandom(seed: seed, stream: 27)
        if style == .session, !endsSessions, bound == (0, 0), files.chance(25) { drawTransfers(&files) }
    }

    /// Apps that send each other more than one message holds.
    private mutating func drawTransfers(_ random: inout SimulationRandom) {
        transfers = (random.int(1...4), random.chance(50) ? random.int(1...4) : 0)
        // A slow path carries it in a minute.
        let rate = path.parameters.bytesPerSecond
        largestTransfer = min(random.magnitude(1...300_000), rate.map { Int($0) * 60 } ?? .max)
    }

    /// Clients whose outboxes are on a disk, and who are killed more often than others.
    private mutating func drawStores(_ random: inout SimulationRandom) {
        diskFailures = random.one(of: [0, 0, 5, 30])
        // The apps talk for so long that kills come in between.
        for app in [\StackPlan.client, \StackPlan.server] {
            self[keyPath: app].senders = max(self[keyPath: app].senders, 1)
            self[keyPath: app].messages = max(self[keyPath: app].messages, random.int(5...30))
            self[keyPath: app].pause = random.one(of: [1_000_000, 10_000_000, 100_000_000])
            if self[keyPath: app].appetite != .answering, random.chance(30) { self[keyPath: app].appetite = .slowly }
        }
        if random.chance(50) { acknowledges = true }
        guard random.chance(75) else { return }
        killsAfterWrite = random.one(of: [0, 1, 3])
        for _ in 0..<random.int(1...4) {
            let at = Int64(random.magnitude(1_000_000...3_000_000_000))
            let length = Int64(random.magnitude(100_000...10_000_000_000))
            faults.append((at, .kill(isServer: random.chance(20), losesPower: random.chance(30), length)))
        }
    }

    /// Apps that make requests, in a session or in plain mode.
    private mutating func drawAnswers(_ random: inout SimulationRandom) {
        if style == .greeted, random.chance(50) {
            style = .asking
            (client.senders, server.senders) = (0, 0)
        }
        guard style == .asking || style == .session && random.chance(40) else { return }
        requests.client = random.magnitude(1...30)
        if random.chance(50) { requests.server = random.magnitude(1...30) }
    }

    /// Clients that go over HTTP where WebSocket is blocked, and most often something that blocks it.
    private mutating func drawFallback(_ random: inout SimulationRandom) {
        fallsBack = true
        bound = (0, 0)
        options += ["fallback=on", "retry-preferred=\(random.one(of: [1, 10, 300]))s"]
        serverOptions.append("fallback=on")
        // Each of the two attempts has half of the time, in which the handshake of TLS must fit.
        if isEncrypted { path.segment = max(path.segment, 64) }
        guard !isEncrypted, decoy == nil, endurance == nil, random.chance(70) else { return }
        middlebox = (
            random.one(of: StackMiddlebox.Kind.allCases), Int64(random.magnitude(1_000_000_000...300_000_000_000))
        )
    }

    /// The limits of sessions over HTTP.
    private mutating func drawRequests(_ random: inout SimulationRandom) {
        if endurance == nil, random.chance(40) {
            // Through a smaller window, a message of this size takes many requests.
            serverOptions.append("window=\(max(maximumMessage, random.one(of: [1024, 4096, 65_536])))")
        }
        if carrier == .longPoll, random.chance(50) { serverOptions.append("hold=\(random.one(of: [1, 5]))s") }
        guard let endurance, case .stops = endurance.kind else { return }
        // Both sides also endure that no request comes or is answered for that time.
        serverOptions.append("session-timeout=10m")
        options.append("resume-timeout=10m")
    }

    /// A server that refuses messages which its clients may send. A session server has told its limit; a broker closes the
    /// connection.
    private mutating func drawRefusals(_ random: inout SimulationRandom) {
        serverLimit = random.int(300...max(300, maximumMessage))
        serverOptions = serverOptions.map { $0.hasPrefix("max-message=") ? "max-message=\(serverLimit)" : $0 }
        client.messages = max(client.messages, 5)
        client.senders = max(client.senders, 1)
        // Answers are refused too, and each refusal costs up to five connections, which bring unprocessed messages again.
        if client.appetite == .answering { (client.senders, client.messages) = (1, 5) }
        // An app that takes a few of these repetitions in a second would not reach the last message within a schedule.
        if carrier.isBroker, acknowledges, client.leaving?.pause != nil { client.messages = min(client.messages, 5) }
    }

    /// An app that subscribes while it runs. It and its broker are killed more often than others, because the broker keeps
    /// the filters of the process before, or loses them.
    private mutating func drawSubscriptions(_ random: inout SimulationRandom) {
        filters = random.int(1...3)
        forgets = random.chance(30)
        acknowledges = false
        client.senders = max(client.senders, 1)
        client.messages = max(client.messages, random.int(5...40))
        if random.chance(60) {
            let length = Int64(random.magnitude(100_000...1_000_000_000))
            let at = Int64(random.magnitude(100_000...2_000_000_000))
            faults.append((at, .kill(isServer: random.chance(50), losesPower: random.chance(30), length)))
        }
    }

    /// Some schedules have only a slow path, or only processes that are stopped. Datagrams may be lost there, so all are over
    /// streams.
    private mutating func drawEndurance(_ random: inout SimulationRandom) {
        guard !carrier.isDatagram, random.chance(12) else { return }
        let isSlow = random.chance(50)
        style = !carrier.isBroker ? .session : carrier.isKept && random.chance(50) ? .kept : .plain
        options = carrier.options + (style == .kept && !carrier.isSTOMP ? ["clean-session=off"] : [])
        (clients, connections, roomOutbox, maximumBuffered, bound) = (random.int(1...2), 1, 1000, 0, (0, 0))
        (exits, isShared, acknowledges, hasDoubter, hasBully, intruder) = (false, false, false, false, false, nil)
        (filters, forgets, serverLimit, decoy) = (0, false, .max, nil)
        faults = []
        path = SimulatedPath()
        let latency = random.magnitude(1_000_000...100_000_000)
        path.latency = latency...latency * 2
        conditions.buffers = 16_384...random.one(of: [16_384, 65_536, 131_072])
        let short = Endurance.Asking(interval: random.int(1...15), timeout: random.int(2...10))
        var app = App()
        app.isOnLoop = random.chance(60)
        if isSlow {
            // A peer that asks is a sign of life itself.
            let other = random.chance(50) ? .endless : short
            let asksServer = !carrier.isBroker && random.chance(50)
            endurance = Endurance(
                kind: .slowPath,
                client: asksServer ? other : short,
                server: asksServer ? short : other
            )
            let rate = random.int(8_000...64_000)
            path.parameters.bytesPerSecond = Double(rate)
            // Messages of up to 30 s.
            maximumMessage = rate * random.int(5...30)
            app.messages = random.int(1...3)
        } else {
            // A client of MQTT gives a stopped broker up before the broker gives the client up.
            let stopsServer = !carrier.isBroker && random.chance(50)
            endurance = Endurance(
                kind: .stops(server: stopsServer),
                client: stopsServer ? .endless : short,
                server: stopsServer ? short : .endless
            )
            maximumMessage = 8192
            app.messages = random.int(10...40)
            app.pause = 1_000_000_000
            app.pings = 5
            for _ in 0..<random.int(1...3) {
                let length = Int64(random.magnitude(100_000_000...60_000_000_000))
                faults.append(
                    (Int64(random.int(1_000_000_000...30_000_000_000)), .pause(isServer: stopsServer, length))
                )
            }
        }
        (client, server) = (app, app)
        if random.chance(50) { server.senders = 0 }
        serverOptions = ["max-message=\(maximumMessage)"]
        if let endurance, carrier.isBroker {
            let asking = endurance.client
            guard !carrier.isSTOMP else {
                // The intervals of both sides are those of the client, so a client that is stopped needs long ones.
                return options.append("keepalive-interval=\(isSlow ? asking.interval : 3600)s")
            }
            // The broker ends a client after one and a half times its keep alive.
            let keepAlive = isSlow ? asking.interval * 2 : 3600
            options.append("keepalive-interval=\(asking.interval)s")
            options += ["ping-timeout=\(asking.timeout)s", "keep-alive=\(keepAlive)"]
        }
    }

    private mutating func drawStyle(_ random: inout SimulationRandom, datagrams: inout SimulationRandom) {
        clients = random.one(of: [1, 1, 2, 3])
        connections = random.one(of: [1, 1, 1, 2])
        guard random.chance(40) else { return }
        if carrier.isBroker {
            style = carrier.isKept ? .kept : .plain
        } else if carrier == .datagrams {
            style = datagrams.one(of: [.session, .session, .room])
            acknowledges = style == .session && datagrams.chance(50)
            return
        } else {
            style = random.one(of: [.session, .session, .room])
        }
        acknowledges = style != .room && style != .plain && random.chance(50)
    }

    /// Small buffers, and apps that leave their loops or send inside them.
    private mutating func drawLoops(_ random: inout SimulationRandom) {
        guard style != .plain else { return }
        for app in [\StackPlan.client, \StackPlan.server] {
            if random.chance(60) { self[keyPath: app].messageBuffer = random.one(of: [1, 2, 3, 4, 8, 16, 32, 64]) }
            if random.chance(40) {
                self[keyPath: app].leaving = Leaving(
                    after: random.one(of: [1, 2, 5, 20]),
                    pause: random.one(of: [nil, 0, 1_000_000, 200_000_000])
                )
            }
            if maximumBuffered == 0, random.chance(30) { self[keyPath: app].appetite = .answering }
            // More messages than such buffers hold.
            guard maximumBuffered == 0, random.chance(40) else { continue }
            self[keyPath: app].senders = max(self[keyPath: app].senders, 2)
            self[keyPath: app].messages = max(self[keyPath: app].messages, 30)
        }
    }

    private mutating func drawOptions(_ random: inout SimulationRandom) {
        switch carrier {
        case .datagrams: maximumMessage = random.one(of: [64, 512, 1200])
        // The limit of one datagram.
        case .ordered, .unordered: maximumMessage = random.one(of: [64, 1000, 8192, 60_000])
        default: maximumMessage = random.one(of: [64, 1000, 8192, 70_000])
        }
        if style != .plain { maximumMessage = max(maximumMessage, 1000) }
        options = carrier.options
        if style == .kept, !carrier.isSTOMP { options.append("clean-session=off") }
        serverOptions = ["max-message=\(maximumMessage)"]
        // Without this, the limit is that of a record.
        if isEncrypted, carrier.isDatagram, maximumMessage > 16_000 { serverOptions += carrier.options }
        if random.chance(40) { options.append("inbox=\(random.one(of: [1, 2, 16]))") }
        if random.chance(40) { options.append("write-buffer=\(random.one(of: [1, 100, 4096, 65_536]))") }
        if carrier.isBroker, carrier != .mqtt0, random.chance(60) {
            options.append("in-flight=\(random.one(of: [1, 2, 8]))")
        }
        if !carrier.isBroker {
            var (inbox, buffer) = (1024, 1 << 20)
            if random.chance(40) {
                inbox = random.one(of: [1, 2, 16])
                serverOptions.append("inbox=\(inbox)")
            }
            if random.chance(40) {
                buffer = random.one(of: [1, 100, 4096, 65_536])
                serverOptions.append("write-buffer=\(buffer)")
            }
            if clients == 1, style == .plain, [.tcp, .webSocket].contains(carrier) {
                // The rest is a handshake, a message in transit to the app, an incomplete message, and two blocks of one read
                // call.
                let framed = maximumMessage + 14
                bound = (min(inbox * framed, 4 << 20) + 3 * framed + 131_072, buffer + 2 * framed)
                // TLS has a block of records in each direction.
                if isEncrypted { bound = (bound.received + 65_536, bound.unsent + 65_536) }
            }
        }
    }

    private static func drawApp(_ random: inout SimulationRandom) -> App {
        var app = App()
        app.appetite = random.one(of: [.atOnce, .atOnce, .slowly, .bursts, .never, .answering])
        app.senders = random.one(of: [0, 1, 1, 2, 4])
        app.messages = random.magnitude(1...40)
        app.isOnLoop = random.chance(60)
        if random.chance(30) { app.cancelled = random.one(of: [5, 30, 100]) }
        app.pause = random.one(of: [0, 0, 10_000, 1_000_000, 100_000_000])
        app.pings = random.one(of: [0, 0, 1, 5])
        if random.chance(20) { app.closesAfter = Int64(random.magnitude(10_000...5_000_000_000)) }
        return app
    }

    private mutating func drawCompany(_ random: inout SimulationRandom) {
        exits = style == .plain && carrier.isStream && random.chance(50)
        hasBully = style == .plain && clients > 1 && random.chance(30)
        isShared = style == .plain && carrier.isAcknowledged && clients > 1 && !hasBully && random.chance(50)
        // A message of a queue goes to one client.
        if carrier == .stompQueue { isShared = false }
        if isShared { connections = 1 }
        if style == .session, carrier.isStream, random.chance(20) {
            intruder = random.chance(50) ? .hoarder : .squatter
        }
        if style == .room, carrier != .datagrams, random.chance(40) { intruder = .idler }
        drawMaximumBuffered(&random)
        // With a small limit, members that write many messages cause others to miss some.
        if style == .room, clients > 1, random.chance(50) {
            roomOutbox = random.one(of: [1, 4, 16])
            client.senders = max(client.senders, 2)
            client.messages = max(client.messages, 20)
        }
    }

    /// Clients that together send more than the server may buffer.
    private mutating func drawMaximumBuffered(_ random: inout SimulationRandom) {
        // Apps that acknowledge after processing hold up their clients before that.
        guard carrier.isStream, style == .plain || style == .session, clients > 1, intruder == nil,
            !acknowledges, random.chance(50), !carrier.isRequests || style == .session
        else { return }
        maximumBuffered = random.one(of: [16_384, 65_536, 262_144])
        server.appetite = random.one(of: [.slowly, .bursts, .never])
        client.senders = max(client.senders, 2)
        client.messages = max(client.messages, 20)
    }

    /// The faults and the clients that only encryption makes harmless.
    private mutating func drawDangers(_ random: inout SimulationRandom) {
        if !faults.isEmpty, random.chance(20) {
            faults.append((Int64(random.magnitude(10_000...10_000_000_000)), .damage))
        }
        guard style == .plain else { return }
        hasDoubter = clients > 1 && random.chance(20)
        if maximumBuffered == 0, random.chance(20) {
            intruder = carrier.isDatagram ? .forger : .mute
            bound = (0, 0)
        }
    }

    /// Loses single datagrams at the beginning of connections. A handshake must survive that.
    private mutating func drawLosses(_ random: inout SimulationRandom) {
        // A handshake takes several round trips.
        path.latency = min(path.latency.lowerBound, 20_000_000)...min(path.latency.upperBound, 40_000_000)
        guard path.parameters.loss == 0, random.chance(60) else { return }
        for _ in 0..<random.int(0...2) { conditions.lostDatagrams.sent.insert(random.int(0...7)) }
        for _ in 0..<random.int(0...2) { conditions.lostDatagrams.received.insert(random.int(0...7)) }
        // A server that closes meanwhile would be the reason why a client does not get in.
        if isLossy { server.closesAfter = nil }
    }

    /// Whether datagrams are lost.
    var isLossy: Bool {
        path.parameters.loss > 0 || !conditions.lostDatagrams.sent.isEmpty || !conditions.lostDatagrams.received.isEmpty
    }

    /// Whether a client does not trust the server.
    func isDoubter(_ number: Int) -> Bool { hasDoubter && number == clients - 1 }

    /// The largest message that a client accepts and sends.
    func limit(ofClient number: Int) -> Int {
        // A client of STOMP skips what is too large, and then lacks it.
        isShared && number > 0 && !carrier.isSTOMP ? max(64, maximumMessage / 2) : maximumMessage
    }

    /// The app of a client.
    func client(_ number: Int) -> App {
        guard hasBully, number == 0 else { return client }
        var app = App()
        app.appetite = .never
        app.senders = 4
        app.messages = 200
        app.isOnLoop = client.isOnLoop
        return app
    }

    private mutating func drawNetwork(_ random: inout SimulationRandom) {
        let low = random.magnitude(1_000...100_000_000)
        path.latency = low...low * random.int(1...3)
        path.segment = random.magnitude(1...65_536)
        if carrier.isDatagram, random.chance(50) {
            path.parameters.loss = random.one(of: [0, 0.01, 0.1, 0.3])
            path.parameters.duplication = random.one(of: [0, 0.01, 0.2])
            path.parameters.reordering = random.one(of: [0, 0.05, 0.5])
            conditions.datagramsFull = random.one(of: [0, 0, 10])
            conditions.pathErrors = random.one(of: [0, 0, 5, 50])
        }
        let small = random.one(of: [64, 1024, 16_384])
        conditions.buffers = small...small * random.one(of: [1, 4, 64])
        // Small segments would need thousands of steps.
        path.segment = max(path.segment, maximumMessage / 16)
        // Through a small buffer, or in small pieces, a handshake on a long path would exceed its time limit.
        let least = isEncrypted || carrier.isRequests ? 1024 : 64
        if small <= least || path.segment < least {
            path.latency = min(low, 5_000_000)...min(path.latency.upperBound, 10_000_000)
        }
        conditions.buffers =
            max(
                conditions.buffers.lowerBound,
                maximumMessage / 16
            )...max(conditions.buffers.upperBound, maximumMessage / 16)
        conditions.interrupted = random.one(of: [0, 1, 10])
        conditions.together = random.one(of: [0, 50, 100])
        conditions.reports = random.one(of: [1, 2, 256])
        conditions.callTime = Int64(random.one(of: [100, 1_000, 10_000]))
        hasEdges = random.chance(75)
    }

    private mutating func drawFaults(_ random: inout SimulationRandom) {
        guard random.chance(60) else { return }
        for _ in 0..<random.int(1...4) {
            let at = Int64(random.magnitude(10_000...10_000_000_000))
            let length = Int64(random.magnitude(100_000...60_000_000_000))
            let fault: Fault
            switch random.int(0...9) {
            case 0...3: fault = .cut(length)
            case 4, 5: fault = .pause(isServer: random.chance(50), length)
            case 6: fault = .reset
            case 7: fault = .descriptors(isServer: random.chance(50), length)
            default:
                let isServer = style == .plain || style == .room || random.chance(50)
                fault = .kill(isServer: isServer, losesPower: random.chance(30), length)
            }
            faults.append((at, fault))
        }
    }

    /// The plan as text.
    var summary: String {
        var text =
            "\(carrier.rawValue)\(isEncrypted ? " over TLS" : "") \(style.rawValue), \(clients) clients with \(connections) connections, \(options.joined(separator: "&"))"
        text += "&max-message=\(maximumMessage)"
        if refuses { text += ", and the server refuses some messages" }
        if exits { text += ", which exit" }
        if acknowledges { text += ", which acknowledge after processing" }
        if filters > 0 { text += ", with \(filters) filters of their own\(forgets ? " and a forgotten one" : "")" }
        if isShared { text += ", on one topic" }
        if let decoy { text += ", with another address first (\(decoy))" }
        if let middlebox {
            text += ", behind a middlebox that \(middlebox.kind) WebSockets for \(middlebox.until / 1_000_000) ms"
        }
        if hasDoubter { text += ", the last without trust" }
        if hasBully { text += ", the first a bully" }
        if let endurance {
            text += ", which must endure: \(endurance) at \(Int(path.parameters.bytesPerSecond ?? 0)) bytes in a second"
        }
        if let diskFailures {
            text += ", with stores that are full in \(diskFailures) % of their calls"
            if killsAfterWrite > 0 { text += " and \(killsAfterWrite) kills after a write" }
        }
        if transfers.client > 0 {
            text += ", each of which sends \(transfers.client) transfers and gets \(transfers.server), of up to"
            text += " \(largestTransfer) bytes"
        }
        if requests.client > 0 {
            text += ", each of which makes \(requests.client) requests and answers \(requests.server) of the server"
        }
        if let intruder { text += ", and a \(intruder)" }
        if roomOutbox < 1000 { text += ", for each of which at most \(roomOutbox) messages wait" }
        if maximumBuffered > 0 { text += ", for which the server keeps \(maximumBuffered) bytes" }
        if isLossy, path.parameters.loss == 0 {
            text += ", where single datagrams are lost: \(conditions.lostDatagrams)"
        }
        text += "; server \(serverOptions.joined(separator: "&"))\n  client \(client)\n  server \(server)"
        for (at, fault) in faults { text += "\n  at \(at / 1_000_000) ms \(fault)" }
        return text
    }
}
