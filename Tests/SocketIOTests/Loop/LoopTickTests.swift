import Primitives
import Testing

@testable import SocketIO

@Suite("The turns of an event loop")
struct LoopTickTests {
    @Test("fires a timer that sets itself anew once in a tick, however many others are set for later")
    func repeatedTimer() async throws {
        let loop = try EventLoop(name: "timers")
        let turns = await withCheckedContinuation { (continuation: CheckedContinuation<Int, Never>) in
            loop.execute {
                for _ in 0..<100 { _ = loop.schedule(at: loop.now + 3600 * second) {} }
                let turns = TurnCount(loop)
                loop.add(turns, to: .deferred)
                RepeatedTimer(loop, turns, continuation).set()
            }
        }
        #expect(turns >= RepeatedTimer.times)
    }

    @Test("reaches its timers although a handler asks for the end of each tick again")
    func repeatedHandler() async throws {
        let loop = try EventLoop(name: "repeated-handler")
        await withCheckedContinuation { continuation in
            loop.execute {
                let handler = RepeatedHandler(loop)
                loop.add(handler, to: .tickEnd)
                _ = loop.schedule(at: loop.now + 1_000_000) {
                    handler.isOver = true
                    continuation.resume()
                }
            }
        }
    }

    @Test("ends an inline call although a handler asks for the end of each tick again")
    func repeatedHandlerInline() throws {
        let loop = try EventLoop(name: "repeated-inline")
        let handler = LoopBound(RepeatedHandler(loop), to: loop)
        while loop.runInlineIfIdle({ loop.add(handler.value, to: .tickEnd) }) == nil { sched_yield() }
        loop.execute { handler.value.isOver = true }
    }

    @Test("lets who is patient wait for the ends of ticks, and those for whom there is no time left for the next tick")
    func patience() async throws {
        let loop = try EventLoop(name: "patience")
        let order = Locked<[String]>([])
        let (next, prompt) = (TurnWork("next", order), TurnWork("prompt", order))
        let slow = TurnWork("slow", order, isSlowOn: loop)
        await withCheckedContinuation { continuation in
            loop.execute {
                for handler in [slow, next] { loop.add(handler, to: .lowPriority) }
                loop.add(prompt, to: .tickEnd)
                _ = loop.schedule(at: loop.now) {
                    order.withLock { $0.append("timer") }
                    _ = loop.schedule(at: loop.now) { continuation.resume() }
                }
            }
        }
        #expect(order.withLock { $0 } == ["prompt", "slow", "timer", "next"])
    }
}

/// Asks for the end of a tick again whenever one comes, in both ways.
private final class RepeatedHandler: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let loop: EventLoop
    var isOver = false

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    func run(_ queue: LoopQueue) {
        guard !isOver else { return }
        if queue == .tickEnd { loop.add(self, to: .tickEnd) }
        loop.add(self, to: .lowPriority)
    }
}

/// Notes that it had its tick; a slow one takes more time than others at the end of a tick get.
private final class TurnWork: ScheduledHandler, @unchecked Sendable {
    var schedule = ScheduleEntry()
    private let name: String
    private let order: Locked<[String]>
    private let slow: EventLoop?

    init(_ name: String, _ order: Locked<[String]>, isSlowOn slow: EventLoop? = nil) {
        (self.name, self.order, self.slow) = (name, order, slow)
    }

    func run(_: LoopQueue) {
        order.withLock { $0.append(name) }
        guard let slow else { return }
        let start = MonotonicClock.now()
        let end = start + (start - slow.now) + EventLoop.timeBudget
        while MonotonicClock.now() <= end {}
    }
}

/// Counts the ticks of its loop, until nobody is interested any more.
private final class TurnCount: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let loop: EventLoop
    private(set) var count = 0
    var isOver = false

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    func run(_: LoopQueue) {
        count += 1
        if !isOver { loop.add(self, to: .deferred) }
    }
}

/// A timer that sets itself anew, for at once, and tells how many turns that took.
private final class RepeatedTimer {
    static let times = 50

    private let loop: EventLoop
    private let turns: TurnCount
    private let done: CheckedContinuation<Int, Never>
    private var fired = 0

    init(_ loop: EventLoop, _ turns: TurnCount, _ done: CheckedContinuation<Int, Never>) {
        (self.loop, self.turns, self.done) = (loop, turns, done)
    }

    func set() {
        _ = loop.schedule(at: loop.now) { [self] in
            fired += 1
            guard fired == Self.times else { return set() }
            turns.isOver = true
            done.resume(returning: turns.count)
        }
    }
}
