import Primitives
import Protocols
import TransportAPI

/// All operations that wait for an event of one connection. Each waits under its own id, so a cancellation finds its
/// operation and no other. Each is resumed exactly once.
///
/// The continuations are unsafe ones, because checking would cost an allocation for each message. Each is resumed once
/// because it is removed from this value before.
struct PendingOperations {
    typealias Received = Result<Payload?, TransportError>

    /// The caller that has requested the next message.
    enum Receiver {
        /// A task.
        case task(id: UInt64, UnsafeContinuation<Received, Never>)
        /// An object on the same loop.
        case localReceiver(any ConnectionReceiver)

        func take(_ arrival: Received) {
            switch self {
            case .task(_, let continuation): continuation.resume(returning: arrival)
            case .localReceiver(let receiver): receiver.receive(arrival)
            }
        }
    }

    /// A message that waits for room in the write buffer or in the protocol's window.
    struct BlockedSend {
        var id: UInt64
        var payload: Payload
        var continuation: UnsafeContinuation<SendOutcome, Never>
    }

    var opener: UnsafeContinuation<TransportError?, Never>?
    var receiver: Receiver?
    var blocked = Deque<BlockedSend>()
    /// A message in the output, or sent, without an acknowledgement.
    struct UnacknowledgedSend {
        /// `nil` if no caller waits for the acknowledgement.
        var continuation: UnsafeContinuation<SendOutcome, Never>?
        /// The number of bytes that were written to the output before it (``WriteState/flushed``).
        var start: UInt64
    }

    var unacknowledged: [UInt64: UnacknowledgedSend] = [:]
    var pings = PendingPings()
    /// Callers that wait for the connection's end.
    var closers = Waiters<CloseReason?>()
    /// Callers that wait until the connection is closed. They get the number of undelivered bytes.
    var closing = Waiters<Int>()

    /// Refuses the messages that wait for room, because this side closes the connection.
    mutating func rejectBlocked(_ error: TransportError) {
        let all = blocked
        blocked = Deque()
        for send in all { send.continuation.resume(returning: .rejected(error)) }
    }

    /// Ends all operations when the connection has ended, except the waits for a message and for the closed connection.
    ///
    /// - Parameters:
    ///   - reason: Why the connection has ended.
    ///   - left: The number of bytes of output that have left. Nothing has left of a message that starts after them.
    mutating func finish(_ reason: CloseReason, left: UInt64) {
        let all = self
        opener = nil
        blocked = Deque()
        unacknowledged = [:]

        let error = reason.asError
        all.opener?.resume(returning: error)
        for send in all.blocked { send.continuation.resume(returning: .rejected(reason.sendError)) }
        // In the order in which they were sent, so that a simulation runs alike each time.
        for (_, send) in all.unacknowledged.sorted(by: { $0.key < $1.key }) {
            send.continuation?.resume(returning: send.start < left ? .unknown(error) : .rejected(reason.sendError))
        }
        pings.end(error)
        closers.resumeAll(returning: reason)
    }
}
