import Primitives
import Testing

@testable import SocketIO

@Suite("Ticks of an event loop")
struct LoopTickTests {
    @Test("A timer that sets itself again fires once in a tick, even if many timers are set for later")
    func repeatedTimer() async throws {
        let loop = try EventLoop(name: "timers")
        let ticks = await withCheckedContinuation { (continuation: CheckedContinuation<Int, Never>) in
            loop.execute {
                for _ in 0..<100 { _ = loop.schedule(at: loop.now + 3600 * second) {} }
                let ticks = TickCount(loop)
                loop.add(ticks, to: .deferred)
                RepeatedTimer(loop, ticks, continuation).set()
            }
        }
        #expect(ticks >= RepeatedTimer.times)
    }

    @Test("Timers fire even if a handler adds itself to the end of each tick again")
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

    @Test("An inline call returns even if a handler adds itself to the end of each tick again")
    func repeatedHandlerInline() throws {
        let loop = try EventLoop(name: "repeated-inline")
        let handler = LoopBound(RepeatedHandler(loop), to: loop)
        while loop.runInlineIfIdle({ loop.add(handler.value, to: .tickEnd) }) == nil { sched_yield() }
        loop.execute { handler.value.isOver = true }
    }

    @Test("Low-priority handlers run after the end of the tick, or in the next tick if no time is left")
    func lowPriority() async throws {
        let loop = try EventLoop(name: "low-priority")
        let order = Locked<[String]>([])
        let (next, prompt) = (TickWork("next", order), TickWork("prompt", order))
        let slow = TickWork("slow", order, isSlowOn: loop)
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

    @Test("One step of a handshake runs at the end of each tick")
    func handshakes() async throws {
        let loop = try EventLoop(name: "handshakes")
        let order = Locked<[String]>([])
        let (first, second) = (TickWork("first", order), TickWork("second", order))
        let (prompt, open) = (TickWork("prompt", order), TickWork("open", order))
        await withCheckedContinuation { continuation in
            loop.execute {
                for handler in [first, second] { loop.add(handler, to: .handshake) }
                loop.add(open, to: .deferred)
                loop.add(prompt, to: .tickEnd)
                _ = loop.schedule(at: loop.now) {
                    order.withLock { $0.append("timer") }
                    _ = loop.schedule(at: loop.now) { continuation.resume() }
                }
            }
        }
        #expect(order.withLock { $0 } == ["prompt", "open", "first", "timer", "second"])
    }
}

/// Adds itself to both queues again whenever the end of a tick calls it.
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

/// Records its call. A slow one takes more time than low-priority handlers have in a tick.
private final class TickWork: ScheduledHandler, @unchecked Sendable {
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

/// Counts the ticks of its loop until `isOver`.
private final class TickCount: ScheduledHandler {
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

/// A timer that sets itself again for the current time, and returns how many ticks that took.
private final class RepeatedTimer {
    static let times = 50

    private let loop: EventLoop
    private let ticks: TickCount
    private let done: CheckedContinuation<Int, Never>
    private var fired = 0

    init(_ loop: EventLoop, _ ticks: TickCount, _ done: CheckedContinuation<Int, Never>) {
        (self.loop, self.ticks, self.done) = (loop, ticks, done)
    }

    func set() {
        _ = loop.schedule(at: loop.now) { [self] in
            fired += 1
            guard fired == Self.times else { return set() }
            ticks.isOver = true
            done.resume(returning: ticks.count)
        }
    }
}
