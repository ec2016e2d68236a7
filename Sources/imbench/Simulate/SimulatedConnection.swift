import TransportAPI

/// One attempt and the connection that it gives, seen from above: what each side believes, and what the network does to it.
struct SimulatedConnection {
    /// A message, or a frame without one, that the connection has not taken yet.
    struct Pending {
        var id: SentID?
        var payload: Payload
    }

    /// The client has neither let go of it nor been told of its end.
    var isClientUp = true
    /// It is certain that the attempt will succeed, so that it can end.
    var isGranted = false
    /// The server has accepted it, and neither let go of it nor been told of its end.
    var isServerUp = false
    /// The server's session uses it.
    var isServed = false
    /// Nothing that is sent from now on arrives.
    var isCut = false
    /// Nothing arrives any more at the server, at the client; what is already under way included.
    var hasHoleUp = false
    var hasHoleDown = false
    /// What arrives at the server, at the client after this time is lost: the suffix that a broken connection loses.
    var cutoffUp = Int64.max
    var cutoffDown = Int64.max
    /// When what was sent last arrives.
    var lastUp: Int64 = 0
    var lastDown: Int64 = 0
    /// Nothing arrives before this time.
    var stalledUntil: Int64 = 0
    /// Bytes that the client has received.
    var bytesDown: UInt64 = 0
    /// Bytes that the server has received.
    var bytesUp: UInt64 = 0
    /// The connection takes nothing from the client now.
    var isBlocked = false
    var pending: [Pending] = []
    /// Messages that a broker has not acknowledged.
    var inFlight: [SentID] = []
}

/// What happens in the world, apart from timers.
enum SimulatedEvent {
    // At the client
    case connected(Int)
    case failed(Int, TransportError)
    case received(Int, Payload)
    case partial(Int)
    case pong(Int)
    case ended(Int, CloseReason)
    case settled(Int, SentID, SendOutcome)
    /// A broker has acknowledged a message.
    case confirmed(Int, SentID)
    /// Other credentials have come for this attempt.
    case refreshed(Int, endpoint: Int, timeout: Duration)
    // At the server
    case accepted(Int, closes: Bool)
    case serverReceived(Int, SentID?, Payload)
    case serverPong(Int)
    case serverEnded(Int, CloseReason)
    case serverSettled(Int, SentID, SendOutcome)
    case brokerAcknowledged(Int, UInt64)
    // In the apps
    /// One is done with a message that it was given under this key.
    case processed(Side, UInt64, Payload, epoch: UInt64)
    /// One acknowledges the message.
    case acknowledges(Side, UInt64, epoch: UInt64)
    // From outside
    case submit(Side)
    case cancel(Side, SentID)
    case fault(Fault)
    case over(Fault)
    case unblock(Int)
    /// The network ends a connection through which nothing came any more.
    case breaks(Int)
    /// A black hole has swallowed this connection for as long as a keepalive may need to notice.
    case mustBeDead(Int, pauses: Int, serverPauses: Int)
    case calm, look, enough
}

/// Who sends a message.
enum Side: Int, Sendable {
    case client, server
}

/// What goes wrong.
enum Fault: Int, Sendable, CaseIterable {
    case fin, reset, resetWithLoss, hole, holeUp, holeDown, stall, block, partial
    case serverDown, serverSilent, slowConnect, acceptAndClose, full, busy
    case restartKeeping, restartForgetting, kick
    case credentialsExpired, credentialsForever, endpointHopeless
    case pathDown, pathChanged, suspend, connectNow, clientPauses, serverPauses, clientFull, serverFull
}
