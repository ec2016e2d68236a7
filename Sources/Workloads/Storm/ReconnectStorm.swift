import Primitives
import SocketIO
import TransportAPI

/// The model: the number of clients, and the capacity of the server.
package struct StormModel: Sendable, Hashable {
    package var clients = 100_000
    /// How many handshakes the server completes in a second, one after the other. The time of one is rounded to whole
    /// nanoseconds.
    package var handshakes = 2000
    /// How many connections may wait for the server. Further ones are dropped, as a SYN is.
    package var backlog = 1024
    /// How long the server refuses all connections, from the moment at which the connections are lost.
    package var outage = Duration.seconds(10)
    /// How long a client waits for its handshake to be done.
    package var connectTimeout = Duration.seconds(10)
    /// The virtual time at which the simulation ends.
    package var limit = Duration.seconds(600)
    /// How many servers there are, each with this capacity. Several fail one after another (``RollingRestart``).
    package var servers = 1
    /// The time from the failure of one server to that of the next one.
    package var interval = Duration.seconds(60)

    package init() {}
}

/// A discrete-event simulation of many clients that lose one server at the same moment and reconnect under one policy.
///
/// The same model, policy and seed give the same outcome on every machine. The seed gives each client
/// the time until it detects the loss (0 to 100 ms) and its round trip (1 to 50 ms). All policies of a seed have the same
/// clients. After the loss, and after each failed attempt, the client's ``Backoff`` gives a delay. An attempt reaches the
/// server half a round trip later. It is refused while the server is down, dropped when the queue is full, or else served in
/// its order. A client without an answer within the connect timeout leaves, which counts as a failure, but the server still
/// wastes the handshake on it.
package struct ReconnectStorm: Sendable {
    private let limit: Int64
    private let timeout: Int64
    private var server: StormServer
    private var random: RandomSource
    private var clients: [StormClient] = []
    /// The clients with an attempt in flight, by its time of arrival. Each is there at most once.
    private var queue = TimerQueue<Int>()
    private var outcome: StormOutcome

    /// Simulates to the end or to the model's limit. Returns `nil` once `isCancelled`, which is called regularly, returns
    /// `true`.
    package static func run(
        _ model: StormModel,
        _ policy: BackoffPolicy,
        seed: UInt64,
        isCancelled: () -> Bool = { false }
    ) -> StormOutcome? {
        var storm = ReconnectStorm(model, seed: seed)
        guard storm.begin(model, policy, isCancelled), storm.finish(isCancelled) else { return nil }
        storm.outcome.finish()
        return storm.outcome
    }

    private init(_ model: StormModel, seed: UInt64) {
        limit = model.limit.wholeNanoseconds
        timeout = model.connectTimeout.wholeNanoseconds
        server = StormServer(model)
        random = .seeded(seed)
        outcome = StormOutcome(model)
    }

    /// The loss of all connections, and the outage. While the server refuses all connections no client affects another one,
    /// so each is simulated by itself, without the queue.
    private mutating func begin(_ model: StormModel, _ policy: BackoffPolicy, _ isCancelled: () -> Bool) -> Bool {
        let notices = (0..<model.clients).map { _ in
            clients.append(StormClient(policy, using: &random))
            return StormClient.notice(using: &random)
        }
        let upFrom = min(model.outage.wholeNanoseconds, limit)
        var steps = 0
        for index in clients.indices {
            var arrival = nextArrival(of: index, after: notices[index])
            while let time = arrival, time < upFrom {
                arrival = attempt(of: index, arriving: time)
                steps += 1
                if steps & 0xfffff == 0, isCancelled() { return false }
            }
            if let arrival { queue.add(index, at: arrival) }
            if index & 0xffff == 0, isCancelled() { return false }
        }
        return true
    }

    /// All later events, in the order of time.
    private mutating func finish(_ isCancelled: () -> Bool) -> Bool {
        var steps = 0
        while let now = queue.next, let client = queue.popFirst() {
            if let time = attempt(of: client, arriving: now) { queue.add(client, at: time) }
            steps += 1
            if steps & 0xffff == 0, isCancelled() { return false }
        }
        return true
    }

    /// One attempt reaches the server. Returns when the client's next one does; `nil` if it is connected, has given up, or
    /// continues beyond the limit.
    private mutating func attempt(of index: Int, arriving now: Int64) -> Int64? {
        let halfTrip = clients[index].halfTrip
        let leavesAt = now - halfTrip + timeout
        let answer = server.receive(at: now)
        outcome.countAttempt(at: now, isUp: answer != .refused)
        let answeredAt: Int64? =
            switch answer {
            case .refused: now + halfTrip
            case .dropped: nil
            case .done(let time): time + halfTrip
            }
        let isInTime = answeredAt.map { $0 <= leavesAt } ?? false
        if answeredAt != nil, answer != .refused, !isInTime { outcome.wasted += 1 }
        let endsAt = isInTime ? answeredAt ?? leavesAt : leavesAt
        guard endsAt <= limit else {
            outcome.inFlight += 1
            return nil
        }
        if isInTime, answer != .refused {
            outcome.backTimes.append(endsAt)
            return nil
        }
        if isInTime { outcome.refused += 1 } else { outcome.timedOut += 1 }
        return nextArrival(of: index, after: endsAt)
    }

    /// When the attempt that follows a failure arrives; `nil` if the client gives up or it would be beyond the limit.
    private mutating func nextArrival(of index: Int, after failure: Int64) -> Int64? {
        guard let arrival = clients[index].nextArrival(after: failure, limit: limit, using: &random) else {
            outcome.gaveUp += 1
            return nil
        }
        guard arrival <= limit else {
            outcome.waiting += 1
            return nil
        }
        return arrival
    }
}

/// A server that is down at first and then makes one handshake after the other, each in the same time.
///
/// It serves connections in the order of their arrival, so the end of each handshake is known at the arrival. The queue is
/// not stored, because its length follows from the time at which the server is free. The server does not detect that a client
/// has left the queue, and still makes the handshake.
package struct StormServer: Sendable {
    package enum Answer: Sendable, Hashable {
        /// The server is down. The client is notified after half a round trip.
        case refused
        /// The queue is full. The client is not notified.
        case dropped
        /// The handshake is done at this time, in nanoseconds.
        case done(at: Int64)
    }

    private let upFrom: Int64
    private let handshakeTime: Int64
    private let backlog: Int64
    private var freeAt: Int64 = 0

    package init(_ model: StormModel) { self.init(model, upFrom: model.outage.wholeNanoseconds) }

    /// Makes a server that is up from a time on, in nanoseconds.
    init(_ model: StormModel, upFrom: Int64) {
        self.upFrom = upFrom
        handshakeTime = max(1, 1_000_000_000 / Int64(max(1, model.handshakes)))
        backlog = Int64(max(0, model.backlog))
    }

    /// A connection arrives. Times must not decrease from call to call once the server is up.
    package mutating func receive(at now: Int64) -> Answer {
        guard now >= upFrom else { return .refused }
        let begun = max(now, freeAt)
        // One connection is in the handshake, and the others wait.
        let present = (begun - now + handshakeTime - 1) / handshakeTime
        guard present <= backlog else { return .dropped }
        freeAt = begun + handshakeTime
        return .done(at: freeAt)
    }
}
