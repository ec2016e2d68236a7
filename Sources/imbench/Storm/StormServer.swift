import TransportAPI

/// A server that is down at first and then does one handshake after the other, each in the same time.
///
/// Connections are served in the order in which they came, so the time at which one is done is known when it comes, and the
/// queue need not be kept: its length follows from when the server will be free. The server does not see that a client has
/// left the queue: it spends a handshake on it all the same.
struct StormServer: Sendable {
    enum Answer: Sendable, Hashable {
        /// Nobody listens; the client learns it after half a round trip.
        case refused
        /// The queue is full; the client learns nothing.
        case dropped
        /// The handshake is done at this time, in nanoseconds.
        case done(at: Int64)
    }

    private let upFrom: Int64
    private let handshakeTime: Int64
    private let backlog: Int64
    private var freeAt: Int64 = 0

    init(_ model: StormModel) {
        upFrom = model.outage.wholeNanoseconds
        handshakeTime = max(1, 1_000_000_000 / Int64(max(1, model.handshakes)))
        backlog = Int64(max(0, model.backlog))
    }

    /// A connection arrives. Times must not decrease from call to call once the server is up.
    mutating func receive(at now: Int64) -> Answer {
        guard now >= upFrom else { return .refused }
        let begun = max(now, freeAt)
        // How many are in the house: one in the handshake, the others waiting.
        let present = (begun - now + handshakeTime - 1) / handshakeTime
        guard present <= backlog else { return .dropped }
        freeAt = begun + handshakeTime
        return .done(at: freeAt)
    }
}
