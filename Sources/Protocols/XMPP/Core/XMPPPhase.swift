import TransportAPI

/// The life of one side of a stream. The two sides differ in the steps of its handshake.
enum XMPPPhase<Step: Sendable>: Sendable {
    /// The core has not started.
    case idle
    /// The handshake must be complete by this time.
    case opening(Step, until: Instant)
    /// Messages can be sent and received.
    case open
    /// This side has ended its stream, and the peer must end its own by this time.
    case closing(CloseReason, until: Instant)
    /// The connection has ended, and `closed` is still to be reported.
    case ending(CloseReason)
    /// The end was reported.
    case closed

    /// The peer has closed the connection. Returns the event for that, or `nil` if neither side has ended the stream.
    mutating func inputEnded() -> CoreEvent? {
        switch self {
        case .closing(let reason, _), .ending(let reason):
            self = .closed
            return .closed(reason)
        case .closed: return .closed(.user)
        case .idle, .opening, .open: return nil
        }
    }

    /// Closes the stream for a reason. The peer may take until `time` if the stream is open. Returns whether this side's
    /// stream has begun, and so has to be ended.
    mutating func close(_ reason: CloseReason, until time: Instant) -> Bool {
        switch self {
        case .idle:
            self = .ending(reason)
            return false
        case .opening:
            self = .ending(reason)
            return true
        case .open:
            self = .closing(reason, until: time)
            return true
        case .closing, .ending, .closed: return false
        }
    }
}
