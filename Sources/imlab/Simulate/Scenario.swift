import CommandSupport
import Primitives
import TransportAPI

/// The parameters of a world, drawn from the seed.
struct Scenario {
    enum Kind: Int, Sendable {
        /// Sessions over reliable and ordered connections, and over lossy ones; a broker; plain messages.
        case reliable, lossy, origin, plain
    }

    var kind = Kind.reliable
    var client = SupervisorConfiguration()
    var server = SupervisorConfiguration()
    var endpoints: [Endpoint] = []
    var capabilities = Capabilities(maximumMessageSize: 1 << 20)
    /// How long a session waits for its client.
    var lifetime = Duration.seconds(60)
    /// The network in one direction. Lossy connections lose and duplicate packets until the calm, and do not keep their order.
    var path = PathModel.Parameters()
    /// Whether the apps of the client and of the server acknowledge messages after they have processed them.
    var clientProcesses = false
    var serverProcesses = false
    /// How the peer refuses certain messages of one side; `nil` if both accept all. Two peers that refuse messages of each
    /// other in the same connections would never learn why these end.
    var refusal: (how: Refusal, of: Side)?
    /// How many faults there are.
    var faults = 0
    /// How many messages the apps of the client and of the server send as answers, inside the loops in which they receive.
    var clientAnswers = 0
    var serverAnswers = 0
    /// Whether abandoned connections still report events.
    var reportsLate = false
    /// The duration of the faults, in nanoseconds.
    var faultTime: Int64 = 0
    /// How long the world runs after its recovery.
    var lingerTime: Int64 = 0

    init(using random: inout RandomSource) {
        func roll(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
        func pick<Value>(_ values: [Value]) -> Value { values[roll(values.count)] }

        kind = pick([.reliable, .reliable, .reliable, .reliable, .lossy, .lossy, .origin, .origin, .plain, .plain])
        let seconds: (Int) -> Int64 = { Int64($0) * 1_000_000_000 }
        let count = 1 + roll(3)
        endpoints = Self.allEndpoints[count - 1]
        capabilities.isReliable = kind != .lossy
        capabilities.isOrdered = kind != .lossy
        capabilities.acknowledgesMessages = kind == .origin
        capabilities.hasNativePing = roll(3) > 0
        path.delay = Int64(1 + roll(200)) * 1_000_000
        path.jitter = 0...Int64(roll(200)) * 1_000_000
        path.keepsOrder = kind != .lossy
        let (loss, duplication) = (pick([0, 0.01, 0.1, 0.3]), pick([0, 0.01, 0.2]))
        if kind == .lossy { (path.loss, path.duplication) = (loss, duplication) }
        reportsLate = roll(2) == 0
        lifetime = pick([.seconds(10), .seconds(600), .seconds(86_400), .seconds(86_400)])
        faultTime = seconds(pick([10, 60, 300, 1800]))
        lingerTime = roll(4) == 0 ? seconds(pick([60, 600, 1800])) : 0

        client.connectTimeout = pick([.seconds(3), .seconds(10)])
        client.stableAfter = pick([.zero, .seconds(1), .seconds(10), .seconds(60)])
        client.maximumAttempts = roll(8) == 0 ? 3 + roll(8) : nil
        client.maximumElapsed = roll(12) == 0 ? pick([.seconds(60), .seconds(600)]) : nil
        switch roll(8) {
        case 0: client.backoff = .immediate
        case 1: client.backoff = .fixed(pick([.milliseconds(100), .seconds(1), .seconds(30)]))
        case 2: client.backoff = .schedule([.zero, .seconds(1), .seconds(5)], givesUp: roll(4) == 0)
        case 3, 4, 5:
            client.backoff = .exponential(
                initial: pick([.milliseconds(100), .milliseconds(500)]),
                maximum: pick([.seconds(5), .seconds(60)]),
                multiplier: pick([1.5, 2, 3]),
                jitter: pick([.none, .equal, .full])
            )
        default: break
        }
        for isClient in [true, false] {
            var side = isClient ? client : server
            side.delivery.mode = kind == .plain ? .plain : .session
            side.delivery.window = pick([1, 2, 4, 8, 64, 1024])
            side.outbox.maximumCount = pick([1, 2, 5, 20, 1000, 1000])
            side.outbox.maximumBytes = pick([64, 300, 4 << 20, 4 << 20])
            side.outbox.maximumAge = pick([nil, .seconds(5), .seconds(60), .seconds(86_400), .seconds(86_400)])
            side.outbox.whenFull = pick([.wait, .wait, .refuseNewest, .dropOldest, .dropOldest])
            side.keepalive.interval = pick([.off, .seconds(5), .seconds(30), .seconds(180)])
            side.keepalive.timeout = pick([.seconds(2), .seconds(10)])
            side.keepalive.isIdleOnly = roll(3) > 0
            if isClient { client = side } else { server = side }
        }
        let isSession = kind == .reliable || kind == .lossy
        clientProcesses = roll(2) == 0 && isSession
        serverProcesses = roll(2) == 0 && isSession
        if kind != .plain, roll(3) == 0 {
            refusal = (pick([.named, .silent]), kind == .origin ? .client : pick([.client, .server]))
        }
        // Many failures in a row are no reason to set a message aside.
        faults = roll(30) == 0 && faultTime >= seconds(300) ? 100 : roll(12)
    }

    /// Draws apps that send inside their loops, on their own, so that all other parameters of a seed stay the same.
    mutating func drawLoops(using random: inout RandomSource) {
        clientAnswers = [0, 0, 5, 40][Int(random.next() % 4)]
        serverAnswers = [0, 0, 5, 40][Int(random.next() % 4)]
    }

    private static let allEndpoints = (1...3).map { count in
        (0..<count).map { Endpoint(scheme: "memory", host: "server\($0)") }
    }

    /// Whether the client can detect a silent server.
    var canClientAsk: Bool { capabilities.hasNativePing || kind == .reliable || kind == .lossy }

    /// The shortest pause between two rounds of attempts, in nanoseconds; 0 if the policy requires none.
    var shortestPause: Int64 {
        switch client.backoff {
        case .immediate, .schedule: 0
        case .fixed(let delay): delay.wholeNanoseconds
        case .exponential(let initial, _, _, .none): initial.wholeNanoseconds
        case .exponential(let initial, _, _, .equal): initial.wholeNanoseconds / 2
        case .exponential: 0
        }
    }
}

/// A rule that the simulated world breaks on purpose, to prove that the checks detect it.
enum Mutation: String, Sendable, CaseIterable {
    /// The server delivers duplicates.
    case dropDedupe
    /// The client's timer does not fire at the end of a pause.
    case forgetTimer
    /// Acknowledgements never arrive.
    case loseAcknowledgement
    /// An event of an old connection counts as one of the present connection.
    case lateCallbacksReachMachineAsCurrent
    /// Messages of one batch leave in the wrong order.
    case reorderResend
    /// Each attempt is made twice.
    case doubleConnect
    /// The server acknowledges a message and drops it.
    case loseDelivery
    /// The connection always reports received bytes.
    case neverSilent
    /// A server that must acknowledge messages after processing acknowledges them on receipt.
    case acknowledgeOnReceipt
    /// The server also keeps the client's former connection at each hello.
    case keepOldConnection
}
