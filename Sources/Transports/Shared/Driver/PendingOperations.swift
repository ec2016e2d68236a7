import Primitives
import Protocols
import TransportAPI

/// Everybody who waits for something of one connection. Each waits under an id of its own, so that a cancellation finds its
/// operation and no other, and each is answered exactly once.
///
/// The continuations are unsafe ones, because checking would cost an allocation for each message; that each is resumed
/// once follows from its being taken out of here before.
struct PendingOperations {
    typealias Received = Result<Payload?, TransportError>

    /// Who has asked for the next message.
    enum Receiver {
        case task(id: UInt64, UnsafeContinuation<Received, Never>)
        /// Lives on the loop.
        case neighbour(any ConnectionReceiver)

        func take(_ arrival: Received) {
            switch self {
            case .task(_, let continuation): continuation.resume(returning: arrival)
            case .neighbour(let receiver): receiver.receive(arrival)
            }
        }
    }

    /// A message that waits for room in the write buffer or in the protocol's window.
    struct BlockedSend {
        var id: UInt64
        var payload: Payload
        var continuation: UnsafeContinuation<SendOutcome, Never>
    }

    /// A ping that waits for its answer.
    struct Ping {
        var id: UInt64
        var sentAt: Int64
        /// `nil` if nobody waits for it, or not any more: the answer will come all the same, and must not be taken for
        /// the next one's.
        var continuation: UnsafeContinuation<Result<Duration, TransportError>, Never>?
    }

    var opener: UnsafeContinuation<TransportError?, Never>?
    var receiver: Receiver?
    var blocked: [BlockedSend] = []
    /// Messages that were sent and wait for their acknowledgement; `nil` if nobody waits for that.
    var unacknowledged: [UInt64: UnsafeContinuation<SendOutcome, Never>?] = [:]
    var pings: [Ping] = []
    /// How many answers come before that to the first of ``pings``: to those that were given up.
    var pingsGivenUp: UInt64 = 0
    /// Callers that wait for the connection's end.
    var closers = Waiters<CloseReason?>()
    /// Callers that wait until the connection is closed; they get the number of undelivered bytes.
    var closing = Waiters<Int>()

    /// Refuses the messages that wait for room: this side closes the connection.
    mutating func rejectBlocked(_ error: TransportError) {
        let all = blocked
        blocked = []
        for send in all { send.continuation.resume(returning: .rejected(error)) }
    }

    /// Ends all operations but the wait for a message and for the closed connection: the connection has ended.
    mutating func finish(_ reason: CloseReason) {
        let all = self
        opener = nil
        blocked = []
        unacknowledged = [:]
        pings = []

        let error = reason.asError
        all.opener?.resume(returning: error)
        for send in all.blocked { send.continuation.resume(returning: .rejected(reason.sendError)) }
        // In the order in which they were sent, so that a simulation runs alike each time.
        for (_, send) in all.unacknowledged.sorted(by: { $0.key < $1.key }) { send?.resume(returning: .unknown(error)) }
        for ping in all.pings { ping.continuation?.resume(returning: .failure(error)) }
        closers.resumeAll(returning: reason)
    }
}
