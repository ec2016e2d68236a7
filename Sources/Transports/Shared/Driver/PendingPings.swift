import TransportAPI

/// The pings of users that wait for their answers.
///
/// A core reports answers in the order of the pings, and does not say which ping each belongs to. So a ping that is given up,
/// or whose task was cancelled, keeps its place among the answers.
struct PendingPings {
    typealias Continuation = UnsafeContinuation<Result<Duration, TransportError>, Never>

    struct Ping {
        var id: UInt64
        var sentAt: Int64
        /// `nil` if no caller waits for the answer, or its task was cancelled.
        var continuation: Continuation?
    }

    /// How many pings may wait.
    static let limit = 16
    /// The age at which a new ping may replace an unanswered one, in nanoseconds.
    static let replacementAge: Int64 = 1_000_000_000

    /// The pings in the order in which they were sent.
    var all: [Ping] = []
    /// How many answers to pings that were given up come before the answer to the first of ``all``.
    private var givenUp: UInt64 = 0

    /// Returns whether another ping may be sent.
    ///
    /// - Parameter mayReplace: Whether it may replace one that is old enough.
    func hasRoom(now: Int64, mayReplace: Bool) -> Bool {
        guard all.count >= Self.limit, let oldest = all.first else { return true }
        return mayReplace && now - oldest.sentAt >= Self.replacementAge
    }

    /// Adds a ping that was sent. Beyond the limit, the oldest one is given up.
    mutating func append(_ id: UInt64, now: Int64, _ continuation: Continuation?) {
        if all.count >= Self.limit {
            givenUp += 1
            let error = TransportError(
                .timedOut,
                .open,
                "the ping was given up for a later one: \(Self.limit) had no answer"
            )
            all.removeFirst().continuation?.resume(returning: .failure(error))
        }
        all.append(Ping(id: id, sentAt: now, continuation: continuation))
    }

    /// Handles an answer, which completes the oldest ping without one.
    mutating func answered(now: @autoclosure () -> Int64) {
        guard givenUp == 0 else {
            givenUp -= 1
            return
        }
        guard !all.isEmpty else { return }
        let ping = all.removeFirst()
        ping.continuation?.resume(returning: .success(.nanoseconds(now() - ping.sentAt)))
    }

    /// Stops the wait of a caller.
    mutating func cancel(_ id: UInt64) {
        guard let index = all.firstIndex(where: { $0.id == id }) else { return }
        all[index].continuation.take()?.resume(returning: .failure(.cancelled(.open)))
    }

    /// Ends all waits, because the connection has ended.
    mutating func end(_ error: TransportError) {
        let ended = all
        all = []
        for ping in ended { ping.continuation?.resume(returning: .failure(error)) }
    }
}
