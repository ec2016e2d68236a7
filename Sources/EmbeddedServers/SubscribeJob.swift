import Protocols
import SocketIO
import Transports

/// Processes the filters of one SUBSCRIBE or UNSUBSCRIBE within a time budget per tick. The client's next packets wait
/// until all filters are processed. In between, the connection may end, or another one may take over its session. Then
/// the rest is dropped.
final class SubscribeJob: ScheduledHandler {
    var schedule = ScheduleEntry()

    /// How many steps are done before the job is deferred. A deferred job reads the clock after each step, because one
    /// filter may have as many levels as the broker allows, each with a node of its own.
    static let atOnce = 4

    private let driver: ConnectionDriver
    private let count: Int
    private var done = 0
    private let isWanted: () -> Bool
    private let work: (Int) -> Bool
    private let end: () -> Void

    /// Calls `work` for each of `count` indices, repeatedly until it returns `true` for that index. Calls `end` after
    /// the last one. The job first makes a few calls, and then continues as a deferred handler within its time budget.
    /// It stops without a call of `end` when it continues and `isWanted` returns `false`.
    static func begin(
        _ count: Int,
        of driver: ConnectionDriver,
        while isWanted: @escaping () -> Bool,
        _ work: @escaping (Int) -> Bool,
        end: @escaping () -> Void
    ) {
        SubscribeJob(count, driver, isWanted, work, end).run(.deferred)
    }

    private init(
        _ count: Int,
        _ driver: ConnectionDriver,
        _ isWanted: @escaping () -> Bool,
        _ work: @escaping (Int) -> Bool,
        _ end: @escaping () -> Void
    ) {
        self.count = count
        self.driver = driver
        self.isWanted = isWanted
        self.work = work
        self.end = end
    }

    func run(_: LoopQueue) {
        guard isWanted() else { return driver.release() }
        let due = driver.loop.deferredEnd
        var pieces = 0
        while done < count {
            if work(done) { done += 1 }
            pieces += 1
            guard done < count, due == 0 ? pieces >= Self.atOnce : MonotonicClock.now() >= due else { continue }
            driver.hold()
            return driver.loop.add(self, to: .deferred)
        }
        end()
        driver.release()
    }
}

/// Removes the filters of ended sessions within a time budget per tick. Each ended session adds one such handler, so
/// that the removal keeps up with clients that end many sessions.
final class FilterClearing: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let broker: Broker

    init(_ broker: Broker) {
        self.broker = broker
    }

    func run(_: LoopQueue) {
        let due = broker.loop.budgetEnd
        while broker.core.clear(atMost: 1) {
            guard MonotonicClock.now() < due else { return broker.loop.add(self, to: .deferred) }
        }
    }
}
