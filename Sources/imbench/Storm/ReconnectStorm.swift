import Primitives
import SocketIO
import TransportAPI

/// A discrete-event simulation of many clients that lose one server at the same moment and come back under one policy.
///
/// Pure: the same model, policy and seed give the same outcome on every machine. Each client gets from the seed how
/// soon it notices the loss (0 to 100 ms) and its round trip (1 to 50 ms); all policies of a seed meet the same
/// clients. After the loss, and after each failed attempt, the client asks its ``Backoff`` for a delay. An attempt
/// reaches the server half a round trip after it was made. It is refused while the server is down, dropped when the
/// queue is full, or else done when its turn has come. A client that has no answer within the connect timeout leaves
/// and counts that as a failure, but the server still wastes the handshake on it.
struct ReconnectStorm: Sendable {
    static let latestNotice = Duration.milliseconds(100)
    static let roundTrip = Duration.milliseconds(1)...Duration.milliseconds(50)

    private struct Client {
        /// Half of the round trip, in nanoseconds.
        var halfTrip: Int64
        var backoff: Backoff
    }

    private let limit: Int64
    private let timeout: Int64
    private var server: StormServer
    private var random: RandomSource
    private var clients: [Client] = []
    /// The clients whose next attempt is on its way, by the time at which it arrives. Each is there at most once.
    private var queue = TimerQueue<Int>()
    private var outcome: StormOutcome

    /// Simulates to the end or to the model's limit. `nil` if `isCancelled`, which is asked now and then, says so.
    static func run(
        _ model: StormModel,
        _ policy: BackoffPolicy,
        seed: UInt64,
        isCancelled: () -> Bool = { false }
    ) -> StormOutcome? {
        var storm = ReconnectStorm(model, seed: seed)
        guard storm.begin(model, policy, isCancelled), storm.goOn(isCancelled) else { return nil }
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

    /// The loss of all connections, and the outage. As long as the server refuses everybody no client feels another
    /// one, so each can be followed by itself, without the queue.
    private mutating func begin(_ model: StormModel, _ policy: BackoffPolicy, _ isCancelled: () -> Bool) -> Bool {
        let notices = (0..<model.clients).map { _ in
            clients.append(Client(halfTrip: drawHalfTrip(), backoff: Backoff(policy)))
            return Int64.random(in: 0...Self.latestNotice.wholeNanoseconds, using: &random)
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

    /// All that is left, in the order of time.
    private mutating func goOn(_ isCancelled: () -> Bool) -> Bool {
        var steps = 0
        while let now = queue.next, let client = queue.popFirst() {
            if let time = attempt(of: client, arriving: now) { queue.add(client, at: time) }
            steps += 1
            if steps & 0xffff == 0, isCancelled() { return false }
        }
        return true
    }

    /// One attempt reaches the server. Returns when the client's next one does; `nil` if it is back, has given up, or goes on
    /// beyond the limit.
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
            outcome.underWay += 1
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
        guard let delay = clients[index].backoff.next(using: &random) else {
            outcome.gaveUp += 1
            return nil
        }
        // A delay beyond the limit is as good as the limit, and cannot overflow.
        let wait = delay == .zero ? 0 : min(max(0, delay.wholeNanoseconds), limit)
        let arrival = failure + wait + clients[index].halfTrip
        guard arrival <= limit else {
            outcome.waiting += 1
            return nil
        }
        return arrival
    }

    private mutating func drawHalfTrip() -> Int64 {
        let (low, high) = (Self.roundTrip.lowerBound.wholeNanoseconds, Self.roundTrip.upperBound.wholeNanoseconds)
        return Int64.random(in: low...high, using: &random) / 2
    }
}
