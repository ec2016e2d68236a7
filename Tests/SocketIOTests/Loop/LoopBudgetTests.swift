import Testing

@testable import SocketIO

@Suite("Time budgets of a tick")
struct LoopBudgetTests {
    @Test("The time budget of a tick also limits slow timers that are due at the same time")
    func lateTimers() async throws {
        let loop = try EventLoop(name: "late")
        let order = Locked<[String]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            loop.execute {
                for number in 0..<3 {
                    _ = loop.schedule(at: loop.now) {
                        order.withLock { $0.append("timer \(number)") }
                        if number == 0 { loop.execute { order.withLock { $0.append("job") } } }
                        let end = MonotonicClock.now() + EventLoop.timeBudget
                        while MonotonicClock.now() <= end {}
                        if number == 2 { continuation.resume() }
                    }
                }
            }
        }
        #expect(order.withLock { $0 } == ["timer 0", "timer 1", "job", "timer 2"])
    }

    @Test("The budget ends at the same time for all deferred handlers, and separately for each other caller")
    func ends() async throws {
        let loop = try EventLoop(name: "deferred")
        let isRight = await withCheckedContinuation { (continuation: CheckedContinuation<[Bool], Never>) in
            loop.execute { loop.add(DeferredEnd(loop, continuation), to: .deferred) }
        }
        #expect(isRight == [true, true])
    }

    @Test("Deferred handlers have a smaller budget while low-priority handlers are queued")
    func besideLowPriority() async throws {
        let loop = try EventLoop(name: "low-priority")
        let order = Locked<[String]>([])
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            loop.execute {
                loop.add(Sender(loop, order), to: .lowPriority)
                loop.add(Reader(order, "first"), to: .deferred)
                loop.add(Reader(order, "second") { continuation.resume() }, to: .deferred)
            }
        }
        #expect(order.withLock { $0 } == ["sender", "first", "sender", "second"])
    }
}

/// Sends in each tick, until the second reader has run.
private final class Sender: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let loop: EventLoop
    private let order: Locked<[String]>

    init(_ loop: EventLoop, _ order: Locked<[String]>) {
        (self.loop, self.order) = (loop, order)
    }

    func run(_: LoopQueue) {
        guard order.withLock({ $0.last != "second" }) else { return }
        order.withLock { $0.append("sender") }
        loop.add(self, to: .lowPriority)
    }
}

/// Uses up the budget that deferred handlers have while low-priority handlers are queued.
private final class Reader: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let order: Locked<[String]>
    private let name: String
    private let done: () -> Void

    init(_ order: Locked<[String]>, _ name: String, _ done: @escaping () -> Void = {}) {
        (self.order, self.name, self.done) = (order, name, done)
    }

    func run(_: LoopQueue) {
        order.withLock { $0.append(name) }
        let end = MonotonicClock.now() + LoopScheduler.budgetBesideLowPriority
        while MonotonicClock.now() <= end {}
        done()
    }
}

/// Records the end of its time budget, first as a deferred handler and then as a job.
private final class DeferredEnd: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let loop: EventLoop
    private let done: CheckedContinuation<[Bool], Never>

    init(_ loop: EventLoop, _ done: CheckedContinuation<[Bool], Never>) {
        (self.loop, self.done) = (loop, done)
    }

    func run(_: LoopQueue) {
        let isShared = loop.deferredEnd != 0 && loop.budgetEnd == loop.deferredEnd
        loop.execute { [loop, done] in
            let start = MonotonicClock.now()
            done.resume(returning: [isShared, loop.deferredEnd == 0 && loop.budgetEnd >= start + EventLoop.timeBudget])
        }
    }
}
