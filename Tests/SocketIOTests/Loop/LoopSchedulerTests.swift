import Testing

@testable import SocketIO

@Suite("Loop scheduler")
struct LoopSchedulerTests {
    @Test("A scheduler calls a handler once for each queue, however often it was added")
    func once() {
        let rig = Rig()
        let handler = Step("a", rig)
        for _ in 0..<3 {
            rig.scheduler.add(handler, to: .tickEnd)
            rig.scheduler.add(handler, to: .deferred)
        }
        rig.tick()
        #expect(rig.order == ["a tickEnd", "a deferred"])
        rig.tick()
        #expect(rig.order.count == 2)
        #expect(rig.scheduler.isEmpty)
    }

    @Test("A removed handler is not called, and keeps its place if it is added again")
    func removed() {
        let rig = Rig()
        let (first, second) = (Step("first", rig), Step("second", rig))
        rig.scheduler.add(first, to: .tickEnd)
        rig.scheduler.add(second, to: .tickEnd)
        first.schedule.remove(.tickEnd)
        rig.tick()
        #expect(rig.order == ["second tickEnd"])
        rig.scheduler.add(first, to: .tickEnd)
        rig.scheduler.add(second, to: .tickEnd)
        first.schedule.remove(.tickEnd)
        rig.scheduler.add(first, to: .tickEnd)
        rig.tick()
        #expect(rig.order == ["second tickEnd", "first tickEnd", "second tickEnd"])
    }

    @Test("A handler that adds itself again is called in the next tick", arguments: LoopQueue.all)
    func again(queue: LoopQueue) {
        let rig = Rig()
        let handler = Step("a", rig) { rig.scheduler.add($0, to: queue) }
        rig.scheduler.add(handler, to: queue)
        for ticks in 1...3 {
            rig.tick()
            #expect(rig.order.count == ticks)
        }
    }

    @Test("The deferred handlers of a tick stop when they have used one budget together")
    func sharedBudget() {
        let rig = Rig()
        for name in ["a", "b", "c", "d"] {
            rig.scheduler.add(Step(name, rig, takes: LoopScheduler.timeBudget / 2), to: .deferred)
        }
        rig.tick()
        #expect(rig.order == ["a deferred", "b deferred"])
        rig.tick()
        #expect(rig.order == ["a deferred", "b deferred", "c deferred", "d deferred"])
    }

    @Test("All deferred handlers of a tick have the same budget end, and other callers have a full budget")
    func budgetEnd() {
        let rig = Rig()
        var ends: [Int64] = []
        for name in ["a", "b"] {
            rig.scheduler.add(Step(name, rig, takes: 10) { _ in ends.append(rig.scheduler.budgetEnd) }, to: .deferred)
        }
        let start = rig.now
        rig.tick()
        #expect(ends == [start + LoopScheduler.timeBudget, start + LoopScheduler.timeBudget])
        #expect(rig.scheduler.deferredEnd == 0)
        #expect(rig.scheduler.budgetEnd == rig.now + LoopScheduler.timeBudget)
    }

    @Test("Deferred handlers have less time while low-priority handlers are queued")
    func besideLowPriority() {
        let rig = Rig()
        let sender = Step("sender", rig) { rig.scheduler.add($0, to: .lowPriority) }
        rig.scheduler.add(sender, to: .lowPriority)
        for name in ["a", "b"] {
            rig.scheduler.add(Step(name, rig, takes: LoopScheduler.budgetBesideLowPriority), to: .deferred)
        }
        rig.tick()
        #expect(rig.order == ["sender lowPriority", "a deferred"])
    }

    @Test("Low-priority handlers have as much time as the tick has taken, and at least one budget")
    func lowPriorityTime() {
        let rig = Rig()
        let step = LoopScheduler.timeBudget / 2
        for number in 0..<8 { rig.scheduler.add(Step("\(number)", rig, takes: step), to: .lowPriority) }
        rig.tick()
        #expect(rig.order.count == 2)
        rig.scheduler.add(Step("long", rig, takes: 4 * step), to: .tickEnd)
        rig.tick()
        #expect(rig.order.count == 7)
    }

    @Test("A long end of a tick stops when its time is used up, and continues in the next tick")
    func longTickEnd() {
        let rig = Rig()
        let count = 10 * LoopScheduler.handlersBetweenClockReads
        let step = LoopScheduler.tickEndBudget / Int64(LoopScheduler.handlersBetweenClockReads)
        for number in 0..<count { rig.scheduler.add(Step("\(number)", rig, takes: step), to: .tickEnd) }
        rig.tick()
        #expect(rig.order.count < count)
        for _ in 0..<10 { rig.tick() }
        #expect(rig.order == (0..<count).map { "\($0) tickEnd" })
    }

    @Test("One step of a handshake runs in each tick, after the handlers of open connections")
    func handshakes() {
        let rig = Rig()
        let first = Step("first", rig) { rig.scheduler.add($0, to: .handshake) }
        rig.scheduler.add(first, to: .handshake)
        rig.scheduler.add(Step("second", rig), to: .handshake)
        let open = Step("open", rig) { rig.scheduler.add($0, to: .deferred) }
        rig.scheduler.add(open, to: .deferred)
        for step in ["first", "second", "first", "first"] {
            rig.order = []
            rig.tick()
            #expect(rig.order == ["open deferred", "\(step) handshake"])
        }
    }
}

/// A scheduler whose clock only its handlers advance. Its ticks have the order of those of a loop.
private final class Rig {
    var now: Int64 = 1_000_000
    var order: [String] = []
    private(set) lazy var scheduler = LoopScheduler { [unowned self] in now }

    func tick() {
        scheduler.endTick(since: now)
        scheduler.runDeferred { _ in }
        scheduler.runHandshake()
    }
}

private final class Step: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let name: String
    private unowned let rig: Rig
    private let time: Int64
    private let action: (Step) -> Void

    init(_ name: String, _ rig: Rig, takes time: Int64 = 0, _ action: @escaping (Step) -> Void = { _ in }) {
        (self.name, self.rig, self.time, self.action) = (name, rig, time, action)
    }

    func run(_ queue: LoopQueue) {
        rig.order.append("\(name) \(queue)")
        action(self)
        rig.now += time
    }
}

extension LoopQueue {
    fileprivate static let all: [LoopQueue] = [.tickEnd, .lowPriority, .deferred, .handshake]
}
