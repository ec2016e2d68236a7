import Primitives
import Testing

@testable import SocketIO

@Suite("A loop that sleeps")
struct InlineExecutionTests {
    @Test("runs an operation inline on the caller's thread", arguments: PollerKind.allCases)
    func callersThread(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let isHere = borrowing(loop) { [thread = currentThread()] in loop.isCurrent && currentThread() == thread }
        #expect(isHere)
        #expect(!loop.isCurrent)
    }

    @Test(
        "runs an operation of another thread inline only while it sleeps, and a caller on the loop always",
        arguments: PollerKind.allCases
    )
    func running(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let (elsewhere, here) = try await on(loop) {
            let answer = Locked<Bool?>(nil)
            try startThread("im-borrower") {
                let isLent = loop.runInlineIfIdle { true } != nil
                answer.withLock { $0 = isLent }
            }
            while answer.withLock({ $0 }) == nil { sched_yield() }
            return (answer.withLock { $0 }, loop.runInlineIfIdle { loop.isCurrent })
        }
        #expect(elsewhere == false)
        #expect(here == true)
    }

    @Test(
        "is the only loop that its caller runs on, even if the caller is another loop's thread",
        arguments: PollerKind.allCases
    )
    func fromAnotherLoop(kind: PollerKind) async throws {
        let outer = try EventLoop(poller: kind, name: "outer")
        let inner = try EventLoop(poller: kind, name: "inner")
        let states = try await on(outer) {
            var states: [Bool] = []
            borrowing(inner) { states += [inner.isCurrent, outer.isCurrent] }
            return states + [inner.isCurrent, outer.isCurrent]
        }
        #expect(states == [true, false, false, true])
    }

    @Test("calls user code on its own thread, in the order of the calls", arguments: PollerKind.allCases)
    func callOut(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "call-out")
        let own = try await on(loop) { currentThread() }
        let calls = Locked<[(number: Int, thread: UInt)]>([])
        for number in 0..<100 {
            borrowing(loop) {
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

    @Test("does not run a second operation inline at the same time", arguments: PollerKind.allCases)
    func lentAlready(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let isLent = try borrowing(loop) {
            Result {
                let answer = Locked<Bool?>(nil)
                try startThread("im-borrower") {
                    let isLent = loop.isCurrent || loop.runInlineIfIdle { true } != nil
                    answer.withLock { $0 = isLent }
                }
                while answer.withLock({ $0 }) == nil { sched_yield() }
                return answer.withLock { $0 }
            }
        }.get()
        #expect(isLent == false)
    }

    @Test("runs work that an inline operation posts, on its own thread", arguments: PollerKind.allCases)
    func posted(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "posted")
        let isOwn = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
            borrowing(loop) { [thread = currentThread()] in
                loop.execute { continuation.resume(returning: loop.isCurrent && currentThread() != thread) }
            }
        }
        #expect(isOwn)
    }

    @Test("runs work that a caller has posted before the caller's inline operation", arguments: PollerKind.allCases)
    func order(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let order = Locked<[Int]>([])
        for number in 0..<200 {
            loop.execute { order.withLock { $0.append(2 * number) } }
            borrowing(loop) { order.withLock { $0.append(2 * number + 1) } }
        }
        #expect(order.withLock { $0 } == Array(0..<400))
    }

    @Test("runs the end of a tick after an inline operation", arguments: PollerKind.allCases)
    func endOfTurn(kind: PollerKind) throws {
        let loop = try Loops.of(kind)
        let count = Locked(0)
        borrowing(loop) {
            loop.add(EndCount(count), to: .tickEnd)
            loop.add(EndCount(count), to: .lowPriority)
        }
        #expect(count.withLock { $0 } == 2)
    }

    @Test("fires a timer that an inline operation sets before the end of its sleep", arguments: PollerKind.allCases)
    func timer(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "lent-timer")
        for _ in 0..<3 {
            let deadline = MonotonicClock.now() + 1_000_000
            let fired = await withCheckedContinuation { (continuation: CheckedContinuation<Int64, Never>) in
                borrowing(loop) {
                    _ = loop.schedule(at: deadline + 600 * second) {}
                    _ = loop.schedule(at: deadline) { continuation.resume(returning: MonotonicClock.now()) }
                }
            }
            #expect(fired >= deadline)
        }
    }

    @Test(
        "reports events of a descriptor that an inline operation watches, until one unwatches it",
        arguments: PollerKind.allCases
    )
    func watching(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "lent-watch")
        for _ in 0..<100 {
            let pair = try PollerTests.Pair()
            let raw = pair.left.raw
            // Whether the descriptor is no longer watched, and whether an event came after that.
            let late = Locked((isOver: false, isReported: false))
            let token = await withCheckedContinuation { (continuation: CheckedContinuation<UInt64?, Never>) in
                let token = Locked<UInt64?>(nil)
                borrowing(loop) {
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
            borrowing(loop) {
                loop.unwatch(raw, watched)
                late.withLock { $0.isOver = true }
            }
            _ = try await on(loop) { 0 }
            #expect(!late.withLock { $0.isReported })
        }
    }

    @Test(
        "keeps an exact count while many threads run inline on it and post to it at once",
        arguments: PollerKind.allCases
    )
    func stampede(kind: PollerKind) async throws {
        try await stampede(on: Loops.of(kind))
    }

    @Test("runs operations inline and fires their timers while it polls", arguments: PollerKind.allCases)
    func pollingBusily(kind: PollerKind) async throws {
        let loop = try EventLoop(poller: kind, name: "busy")
        loop.polling = .always(for: .milliseconds(5))
        try await stampede(on: loop)
        for _ in 0..<20 {
            let deadline = MonotonicClock.now() + 500_000
            let fired = await withCheckedContinuation { (continuation: CheckedContinuation<Int64, Never>) in
                borrowing(loop) {
                    _ = loop.schedule(at: deadline) { continuation.resume(returning: MonotonicClock.now()) }
                }
            }
            #expect(fired >= deadline)
        }
        loop.polling = .never
        #expect(borrowing(loop) { loop.isCurrent })
    }

    private func stampede(on loop: EventLoop) async throws {
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

/// Lives on a loop.
private final class Tally {
    var count = 0
}

/// Counts how often the end of a tick was run.
private final class EndCount: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let count: Locked<Int>

    init(_ count: Locked<Int>) {
        self.count = count
    }

    func run(_: LoopQueue) { count.withLock { $0 += 1 } }
}

/// Runs `body` inline on `loop` as soon as the loop sleeps.
private func borrowing<Value: Sendable>(_ loop: EventLoop, _ body: () -> Value) -> Value {
    while true {
        if let value = loop.runInlineIfIdle(body) { return value }
        sched_yield()
    }
}
