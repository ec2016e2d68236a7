import Primitives
import SocketIO
import TransportAPI

/// A discrete-event simulation of several servers that fail one after another, as in a rolling restart or a bad release.
///
/// The clients are spread evenly at first. Server k fails at k times the model's interval, and is up again after the outage. A
/// load balancer knows which servers are up, and gives each attempt to a random one of them; while all are down, it refuses.
/// Nobody moves a client that is connected, so a client whose new server fails later loses its connection again.
/// Everything else is as in ``ReconnectStorm``.
package struct RollingRestart: Sendable {
    /// A server, which is up, then down, and then up again without any memory of its clients.
    private struct Server {
        let downFrom: Int64
        let upFrom: Int64
        var before: StormServer
        var after: StormServer
        var clients: Int

        init(_ model: StormModel, _ index: Int, clients: Int) {
            downFrom = Int64(index) * max(0, model.interval.wholeNanoseconds)
            upFrom = downFrom + max(0, model.outage.wholeNanoseconds)
            before = StormServer(model, upFrom: 0)
            after = StormServer(model, upFrom: upFrom)
            self.clients = clients
        }

        func isUp(at now: Int64) -> Bool { now < downFrom || now >= upFrom }

        mutating func receive(at now: Int64) -> StormServer.Answer {
            now < downFrom ? before.receive(at: now) : after.receive(at: now)
        }
    }

    private let limit: Int64
    private let timeout: Int64
    private var servers: [Server] = []
    private var clients: [StormClient] = []
    /// When each client lost its connection, in nanoseconds.
    private var lostAt: [Int64] = []
    /// The clients with an attempt in flight, by its time of arrival. Each is there at most once.
    private var queue = TimerQueue<Int>()
    private var random: RandomSource
    private var outcome: RollingOutcome

    /// Simulates to the end or to the model's limit. Returns `nil` once `isCancelled`, which is called regularly, returns
    /// `true`.
    package static func run(
        _ model: StormModel,
        _ policy: BackoffPolicy,
        seed: UInt64,
        isCancelled: () -> Bool = { false }
    ) -> RollingOutcome? {
        var restart = RollingRestart(model, policy, seed: seed)
        var steps = 0
        while let now = restart.queue.next, let client = restart.queue.popFirst() {
            restart.attempt(of: client, arriving: now)
            steps += 1
            if steps & 0xffff == 0, isCancelled() { return nil }
        }
        if isCancelled() { return nil }
        restart.outcome.clientsByServer = restart.servers.map(\.clients)
        restart.outcome.finish()
        return restart.outcome
    }

    private init(_ model: StormModel, _ policy: BackoffPolicy, seed: UInt64) {
        limit = model.limit.wholeNanoseconds
        timeout = model.connectTimeout.wholeNanoseconds
        random = .seeded(seed)
        outcome = RollingOutcome(model)
        let count = max(1, model.servers)
        servers = (0..<count).map { Server(model, $0, clients: (model.clients + count - 1 - $0) / count) }
        lostAt = Array(repeating: 0, count: model.clients)
        for index in 0..<model.clients {
            clients.append(StormClient(policy, using: &random))
            lose(index, index % count)
        }
    }

    /// The server of a client fails, now or later. What happens before does not matter to the client.
    private mutating func lose(_ index: Int, _ server: Int) {
        let time = servers[server].downFrom
        guard time <= limit else { return }
        servers[server].clients -= 1
        outcome.lostTimes.append(time)
        lostAt[index] = time
        clients[index].backoff.reset()
        tryAgain(index, after: time + StormClient.notice(using: &random))
    }

    /// One attempt reaches the load balancer.
    private mutating func attempt(of index: Int, arriving now: Int64) {
        let halfTrip = clients[index].halfTrip
        let leavesAt = now - halfTrip + timeout
        outcome.attempts += 1
        let up = servers.indices.filter { servers[$0].isUp(at: now) }
        guard let server = up.randomElement(using: &random) else { return refused(index, now + halfTrip) }
        outcome.count(at: now, server)
        guard case .done(let time) = servers[server].receive(at: now) else {
            outcome.timedOut += 1
            return ended(index, leavesAt)
        }
        // The server fails before the client has the answer.
        let fails = servers[server].downFrom
        if now < fails, time + halfTrip >= fails {
            guard fails + halfTrip <= leavesAt else {
                outcome.timedOut += 1
                return ended(index, leavesAt)
            }
            return refused(index, fails + halfTrip)
        }
        guard time + halfTrip <= leavesAt else {
            outcome.wasted += 1
            outcome.timedOut += 1
            return ended(index, leavesAt)
        }
        guard time + halfTrip <= limit else { return }
        servers[server].clients += 1
        outcome.connected(lostAt: lostAt[index], at: time + halfTrip)
        if time < fails { lose(index, server) }
    }

    private mutating func refused(_ index: Int, _ time: Int64) {
        outcome.refused += 1
        ended(index, time)
    }

    /// An attempt has failed, and the client knows it at this time.
    private mutating func ended(_ index: Int, _ time: Int64) {
        if time <= limit { tryAgain(index, after: time) }
    }

    private mutating func tryAgain(_ index: Int, after failure: Int64) {
        guard let arrival = clients[index].nextArrival(after: failure, limit: limit, using: &random) else {
            outcome.gaveUp += 1
            return
        }
        if arrival <= limit { queue.add(index, at: arrival) }
    }
}

/// The outcome of one policy while servers fail one after another.
package struct RollingOutcome: Sendable, Hashable {
    /// The resolution of peaks, in nanoseconds.
    private static let second: Int64 = 1_000_000_000

    package let clients: Int
    package var attempts = 0
    /// Attempts answered by a refusal, because no server was up or the server failed during the handshake.
    package var refused = 0
    /// Attempts that the client gave up after its connect timeout.
    package var timedOut = 0
    /// Handshakes for clients that had left.
    package var wasted = 0
    /// Clients whose policy has ended.
    package var gaveUp = 0
    /// When a connection was lost, in nanoseconds, ascending once the outcome is finished.
    package var lostTimes: [Int64] = []
    /// When a client was connected again, likewise.
    package private(set) var backTimes: [Int64] = []
    /// How long a client had no connection, likewise; one for each loss that has ended.
    package private(set) var gaps: [Int64] = []
    /// The clients that each server has at the end.
    package var clientsByServer: [Int] = []
    private var attemptsBySecond: [[Int]]

    init(_ model: StormModel) {
        clients = model.clients
        let seconds = Int(max(0, model.limit.wholeNanoseconds) / Self.second) + 1
        attemptsBySecond = Array(repeating: Array(repeating: 0, count: seconds), count: max(1, model.servers))
    }

    mutating func count(at time: Int64, _ server: Int) { attemptsBySecond[server][Int(time / Self.second)] += 1 }

    mutating func connected(lostAt: Int64, at time: Int64) {
        backTimes.append(time)
        gaps.append(time - lostAt)
    }

    mutating func finish() {
        lostTimes.sort()
        backTimes.sort()
        gaps.sort()
    }

    /// How many connections were lost.
    package var losses: Int { lostTimes.count }
    /// Clients that have no connection at the end, and have not given up.
    package var stillTrying: Int { losses - backTimes.count - gaveUp }
    /// The most attempts that reached one server within a second.
    package var peak: Int { attemptsBySecond.lazy.map { $0.max() ?? 0 }.max() ?? 0 }
    /// The clients of the fullest server at the end, as a part of what it would have if all had the same.
    package var fullest: Double {
        let all = clientsByServer.reduce(0, +)
        guard all > 0 else { return 0 }
        return Double(clientsByServer.max() ?? 0) * Double(clientsByServer.count) / Double(all)
    }

    /// How long `percent` of the losses lasted at most, in seconds; `nil` if fewer of them have ended.
    package func seconds(percent: Int) -> Double? {
        let needed = (losses * percent + 99) / 100
        guard needed > 0, needed <= gaps.count else { return nil }
        return Double(gaps[needed - 1]) / 1e9
    }

    /// How many clients had no connection at the end of each second, up to the last change.
    package var timeline: [Int] {
        var (lost, back, values) = (0, 0, [Int]())
        let last = max(lostTimes.last ?? 0, backTimes.last ?? 0) / Self.second
        for second in 0..<Int64(attemptsBySecond[0].count) where second <= last {
            let end = (second + 1) * Self.second
            while lost < lostTimes.count, lostTimes[lost] < end { lost += 1 }
            while back < backTimes.count, backTimes[back] < end { back += 1 }
            values.append(lost - back)
        }
        return values
    }

    /// The most clients without a connection at the same moment.
    package var mostWithout: Int {
        var (back, most) = (0, 0)
        for (index, time) in lostTimes.enumerated() {
            while back < backTimes.count, backTimes[back] <= time { back += 1 }
            most = max(most, index + 1 - back)
        }
        return most
    }
}
