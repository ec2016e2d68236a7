import TransportAPI

/// The pings of users that wait for their answers. An answer completes the ping with its number, and all before it.
struct PendingPings {
    typealias Continuation = UnsafeContinuation<Result<Duration, TransportError>, Never>

    struct Ping {
        /// Its number in the core (``ProtocolCore/ping(_:)``).
        var number: UInt64
        /// The caller that waits for it.
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
    /// The greatest number that was answered, also of a ping that the core has sent by itself.
    private var lastAnswered: UInt64 = 0

    /// Returns whether another ping may be sent.
    ///
    /// - Parameter mayReplace: Whether it may replace one that is old enough.
    func hasRoom(now: Int64, mayReplace: Bool) -> Bool {
        guard all.count >= Self.limit, let oldest = all.first else { return true }
        return mayReplace && now - oldest.sentAt >= Self.replacementAge
    }

    /// Adds a ping that was sent. Beyond the limit, the oldest one is given up.
    mutating func append(_ number: UInt64, of id: UInt64, now: Int64, _ continuation: Continuation?) {
        if all.count >= Self.limit {
            let error = TransportError(
                .timedOut,
                .open,
                "the ping was given up for a later one: \(Self.limit) had no answer"
            )
            all.removeFirst().continuation?.resume(returning: .failure(error))
        }
        all.append(Ping(number: number, id: id, sentAt: now, continuation: continuation))
    }

    /// Handles an answer. Returns `false` if it was answered before.
    mutating func answered(_ number: UInt64, now: @autoclosure () -> Int64) -> Bool {
        guard number > lastAnswered else { return false }
        lastAnswered = number
        while let ping = all.first, ping.number <= number {
            all.removeFirst()
            ping.continuation?.resume(returning: .success(.nanoseconds(now() - ping.sentAt)))
        }
        return true
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
