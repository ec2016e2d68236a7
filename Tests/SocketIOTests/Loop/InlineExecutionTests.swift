import Primitives
import Testing

@testable import SocketIO

@Suite("Inline execution on an idle loop")
struct InlineExecutionTests {
    @Test("An idle loop runs an operation inline on the caller's thread", arguments: PollerKind.allCases)
    func callersThread(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let isHere = runInline(loop) { [thread = currentThread()] in loop.isCurrent && currentThread() == thread }
        #expect(isHere)
        #expect(!loop.isCurrent)
    }

    @Test(
        "A busy loop runs an operation inline only for a caller on its own thread",
        arguments: PollerKind.allCases
    )
    func running(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let (elsewhere, here) = try await on(loop) {
            let answer = Locked<Bool?>(nil)
            try startThread("im-caller") {
                let ranInline = loop.runInlineIfIdle { true } != nil
                answer.withLock { $0 = ranInline }
            }
            while answer.withLock({ $0 }) == nil { sched_yield() }
            return (answer.withLock { $0 }, loop.runInlineIfIdle { loop.isCurrent })
        }
        #expect(elsewhere == false)
        #expect(here == true)
    }

    @Test(
        "During an inline call the caller is on that loop only, even if its thread belongs to another loop",
        arguments: PollerKind.allCases
    )
    func fromAnotherLoop(kind: PollerKind) async throws {
        let outer = try EventLoop(poller: kind, name: "outer")
        let inner = try EventLoop(poller: kind, name: "inner")
        let states = try await on(outer) {
            var states: [Bool] = []
            runInline(inner) { states += [inner.isCurrent, outer.isCurrent] }
            return states + [inner.isCurrent, outer.isCurrent]
        }
        #expect(states == [true, false, false, true])
    }

    @Test("A loop calls user code on its own thread, in the order of the calls", arguments: PollerKind.allCases)
    func callOut(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "call-out")
        let own = try await on(loop) { currentThread() }
        let calls = Locked<[(number: Int, thread: UInt)]>([])
        for number in 0..<100 {
            runInline(loop) {
                loop.callOut { calls.withLock { $0.append((2 * number, currentThread())) } }
            }
            loop.execute {
                loop.callOut { calls.withLock { $0.append((2 * number + 1, currentThread())) } }
            }
        }
        _ = try await on(loop) { 0 }
        let seen = calls.withLock { $0 }
        #expect(seen.map(\.number) == Array(0..<200))
        #expect(seen.allSatisfy { $0.thread == own })
    }

    @Test("A loop does not run a second operation inline at the same time", arguments: PollerKind.allCases)
    func alreadyInline(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let ranInline = try runInline(loop) {
            Result {
                let answer = Locked<Bool?>(nil)
                try startThread("im-caller") {
                    let ranInline = loop.isCurrent || loop.runInlineIfIdle { true } != nil
                    answer.withLock { $0 = ranInline }
                }
                while answer.withLock({ $0 }) == nil { sched_yield() }
                return answer.withLock { $0 }
            }
        }.get()
        #expect(ranInline == false)
    }

    @Test("Work that an inline operation posts runs on the loop's own thread", arguments: PollerKind.allCases)
    func posted(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "posted")
        let isOwn = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
            runInline(loop) { [thread = currentThread()] in
                loop.execute { continuation.resume(returning: loop.isCurrent && currentThread() != thread) }
            }
        }
        #expect(isOwn)
    }

    @Test("Work that a caller has posted runs before the caller's inline operation", arguments: PollerKind.allCases)
    func order(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let order = Locked<[Int]>([])
        for number in 0..<200 {
            loop.execute { order.withLock { $0.append(2 * number) } }
            runInline(loop) { order.withLock { $0.append(2 * number + 1) } }
        }
        #expect(order.withLock { $0 } == Array(0..<400))
    }

    @Test("The end of a tick runs after an inline operation", arguments: PollerKind.allCases)
    func endOfTick(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let count = Locked(0)
        runInline(loop) {
            loop.add(EndCount(count), to: .tickEnd)
            loop.add(EndCount(count), to: .lowPriority)
        }
        #expect(count.withLock { $0 } == 2)
    }

    @Test("A timer that an inline operation sets wakes the loop in time", arguments: PollerKind.allCases)
    func timer(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "inline-timer")
        for _ in 0..<3 {
            let deadline = MonotonicClock.now() + 1_000_000
            let fired = await withCheckedContinuation { (continuation: CheckedContinuation<Int64, Never>) in
                runInline(loop) {
                    _ = loop.schedule(at: deadline + 600 * second) {}
                    _ = loop.schedule(at: deadline) { continuation.resume(returning: MonotonicClock.now()) }
                }
            }
            #expect(fired >= deadline)
        }
    }

    @Test(
        "A descriptor that an inline operation watches reports events until another operation unwatches it",
        arguments: PollerKind.allCases
    )
    func watching(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "inline-watch")
        for _ in 0..<100 {
            let pair = try PollerTests.Pair()
            let raw = pair.left.raw
            // Whether the descriptor is no longer watched, and whether an event came after that.
            let late = Locked((isOver: false, isReported: false))
            let token = await withCheckedContinuation { (continuation: CheckedContinuation<UInt64?, Never>) in
                let token = Locked<UInt64?>(nil)
                runInline(loop) {
                    let recorder = Recorder()
                    var waiting: CheckedContinuation<UInt64?, Never>? = continuation
                    recorder.onReady = { readiness in
                        late.withLock { $0.isReported = $0.isOver }
                        guard readiness.contains(.read) else { return }
                        waiting.take()?.resume(returning: token.withLock { $0 })
                    }
                    let watched = try? loop.watch(raw, recorder)
                    token.withLock { $0 = watched }
                }
                pair.write(1)
            }
            let watched = try #require(token)
            // One more event can be pending.
            pair.write(1)
            runInline(loop) {
                loop.unwatch(raw, watched)
                late.withLock { $0.isOver = true }
            }
            _ = try await on(loop) { 0 }
            #expect(!late.withLock { $0.isReported })
        }
    }

    @Test(
        "No operation is lost while many threads run inline on a loop and post to it at once",
        arguments: PollerKind.allCases
    )
    func manyThreads(kind: PollerKind) async throws {
        try await runFromManyThreads(on: Loops.of(kind))
    }

    @Test("A polling loop runs operations inline and fires their timers", arguments: PollerKind.allCases)
    func polling(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "busy")
        loop.polling = .always(for: .milliseconds(5))
        try await runFromManyThreads(on: loop)
        for _ in 0..<20 {
            let deadline = MonotonicClock.now() + 500_000
            let fired = await withCheckedContinuation { (continuation: CheckedContinuation<Int64, Never>) in
                runInline(loop) {
                    _ = loop.schedule(at: deadline) { continuation.resume(returning: MonotonicClock.now()) }
                }
            }
            #expect(fired >= deadline)
        }
        loop.polling = .never
        #expect(runInline(loop) { loop.isCurrent })
    }

    private func runFromManyThreads(on loop: EventLoop) async throws {
        let tally = LoopBound(Tally(), to: loop)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<500 {
                        if loop.runInlineIfIdle({ tally.value.count += 1 }) != nil { continue }
                        await withCheckedContinuation { continuation in
                            loop.execute {
                                tally.value.count += 1
                                continuation.resume()
                            }
                        }
                    }
                }
            }
        }
        #expect(try await on(loop) { tally.value.count } == 4000)
    }
}

/// A counter that is bound to a loop.
private final class Tally {
    var count = 0
}

/// Counts its calls at the end of a tick.
private final class EndCount: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let count: Locked<Int>

    init(_ count: Locked<Int>) {
        self.count = count
    }

    func run(_: LoopQueue) { count.withLock { $0 += 1 } }
}

/// Runs `body` inline on `loop` as soon as the loop is idle.
private func runInline<Value: Sendable>(_ loop: EventLoop, _ body: () -> Value) -> Value {
    while true {
        if let value = loop.runInlineIfIdle(body) { return value }
        sched_yield()
    }
}
