import Primitives
import TransportAPI

/// One attempt and its connection: the state at each peer, and the faults of the network.
struct SimulatedConnection {
    /// A message, or a frame without one, that the connection has not taken yet.
    struct Pending {
        var id: MessageID?
        var payload: Payload
    }

    /// The packets in one direction.
    struct Direction {
        /// Whether no packet arrives, not even one in flight.
        var hasHole = false
        /// A broken connection loses the packets that would arrive after this time.
        var cutoff = Int64.max
        var path: PathModel
        /// Bytes that the receiver has received.
        var bytes: UInt64 = 0

        /// The arrival of the last packet.
        var last: Int64 { path.lastArrival }

        /// Whether a packet arrives now.
        func arrives(at now: Int64) -> Bool { !hasHole && now <= cutoff }
    }

    /// The server's end.
    enum ServerEnd {
        /// The server has not accepted it yet, has abandoned it, or has received its end.
        case gone
        case accepted
        /// The server's session uses it.
        case serving
    }

    /// Whether the client has neither abandoned it nor received its end.
    var isClientUp = true
    /// Whether the attempt will succeed, so that the connection can end.
    var isGranted = false
    var server = ServerEnd.gone
    /// Whether later sends do not arrive.
    var isCut = false
    /// To the server, and to the client.
    var up: Direction
    var down: Direction
    /// The sends of the client that the connection does not accept yet; `nil` if it accepts everything.
    var blocked: [Pending]?
    /// Messages that a broker has not acknowledged.
    var inFlight: [MessageID] = []

    init(_ path: PathModel.Parameters) {
        up = Direction(path: PathModel(path))
        down = up
    }

    var isServerUp: Bool { server != .gone }

    /// Drops the packets in both directions.
    mutating func dropAll() { (up.hasHole, down.hasHole) = (true, true) }
}

/// The events of the world, apart from timers.
enum SimulatedEvent {
    // At the client
    case connected(Int)
    case failed(Int, TransportError)
    case received(Int, Payload)
    case partial(Int)
    case pong(Int)
    case ended(Int, CloseReason)
    case settled(Int, MessageID, SendOutcome)
    /// A broker has acknowledged a message.
    case confirmed(Int, MessageID)
    /// Renewed credentials have arrived for this attempt.
    case refreshed(Int, endpoint: Int, timeout: Duration)
    // At the server
    case accepted(Int, closes: Bool)
    case serverReceived(Int, MessageID?, Payload)
    case serverPong(Int)
    case serverEnded(Int, CloseReason)
    case serverSettled(Int, MessageID, SendOutcome)
    case brokerAcknowledged(Int, UInt64)
    // In the apps
    /// An app has processed a message with this key.
    case processed(Side, UInt64, Payload, epoch: UInt64)
    /// An app acknowledges the message.
    case acknowledges(Side, UInt64, epoch: UInt64)
    // From outside
    case submit(Side)
    case cancel(Side, MessageID)
    case fault(Fault)
    case over(Fault)
    case unblock(Int)
    /// The network ends a connection that has dropped all packets.
    case breaks(Int)
    /// A black hole has lasted for as long as a keepalive may need to detect it.
    case mustBeDead(Int, pauses: Int, serverPauses: Int)
    case calm, look, enough
}

/// The sender of a message.
enum Side: Int, Sendable {
    case client, server
}

/// A fault.
enum Fault: Int, Sendable, CaseIterable {
    case fin, reset, resetWithLoss, hole, holeUp, holeDown, stall, block, partial
    case serverDown, serverSilent, slowConnect, acceptAndClose, full, busy
    case restartKeeping, restartForgetting, kick
    case credentialsExpired, credentialsForever, endpointHopeless, captivePortal
    case pathDown, pathChanged, suspend, connectNow, clientPauses, serverPauses, clientFull, serverFull
}
