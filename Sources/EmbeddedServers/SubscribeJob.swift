import Protocols
import SocketIO
import Transports

/// The filters of one SUBSCRIBE or UNSUBSCRIBE, worked off in shares of the loop's turns. The client's next packets wait until
/// all of them are. Between two shares the connection may end, or another take its session over: what is left is nobody's then.
final class SubscribeJob: ScheduledHandler {
    var schedule = ScheduleEntry()

    /// How many pieces of work are done before it goes into the line of the busy. There the clock is looked at after each: one
    /// filter may have as many levels as the broker allows, and each of them be a node of its own.
    static let atOnce = 4

    private let driver: ConnectionDriver
    private let count: Int
    private var done = 0
    private let isWanted: () -> Bool
    private let work: (Int) -> Bool
    private let end: () -> Void

    /// Calls `work` for each of `count` indices, again until it says that it is done with that one: as often at once as
    /// fits into a share in the line, or a few times outside of it. Calls `end` behind the last one; nothing more once
    /// a share begins that is not wanted.
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
        guard isWanted() else { return driver.letGo() }
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
        driver.letGo()
    }
}

/// Clears away the filters of sessions that have ended, in shares of the loop's turns. Each such session brings one of
/// these into the line of the busy, so that clearing away keeps up with whoever makes work of that kind.
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
