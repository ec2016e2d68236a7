import Synchronization
import Testing

@testable import SocketIO

private final class Counter: Sendable {
    let value = Atomic<Int>(0)
}

@Suite("Event loop")
struct EventLoopTests {
    @Test(
        "A task that prefers a loop runs on the loop's thread, also after suspensions",
        arguments: PollerKind.allCases
    )
    func taskExecutor(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let task = Task(executorPreference: loop) {
            var onLoop = [loop.isCurrent]
            await Task.yield()
            onLoop.append(loop.isCurrent)
            await withCheckedContinuation { continuation in Task.detached { continuation.resume() } }
            onLoop.append(loop.isCurrent)
            return onLoop
        }
        #expect(await task.value == [true, true, true])
        #expect(!loop.isCurrent)
    }

    actor Resident {
        nonisolated let loop: EventLoop
        private var count = 0

        init(_ loop: EventLoop) {
            self.loop = loop
        }

        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.serialExecutor.asUnownedSerialExecutor() }

        func step() -> Bool {
            count += 1
            return loop.isCurrent
        }

        /// Calls `step` as a callback of the poller does.
        nonisolated func stepFromCallback() -> Int {
            assumeIsolated { resident in
                resident.count += 1
                return resident.count
            }
        }
    }

    @Test(
        "A loop is the executor of the actors on it, also in callbacks outside jobs",
        arguments: PollerKind.allCases
    )
    func serialExecutor(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let resident = Resident(loop)
        #expect(await resident.step())
        #expect(try await on(loop) { resident.stepFromCallback() } == 2)
    }

    @Test("A loop runs work in the order in which one thread posted it", arguments: PollerKind.allCases)
    func order(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let seen = Locked<[Int]>([])
        for number in 0..<1000 { loop.execute { seen.withLock { $0.append(number) } } }
        _ = try await on(loop) { 0 }
        #expect(seen.withLock { $0 } == Array(0..<1000))
    }

    @Test(
        "A loop runs work that another thread has posted before work that the loop posts later",
        arguments: PollerKind.allCases
    )
    func causality(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let seen = Locked<[String]>([])
        try await on(loop) {
            let posted = Atomic<Bool>(false)
            _ = try? startThread("im-poster") {
                loop.execute { seen.withLock { $0.append("another thread") } }
                posted.store(true, ordering: .releasing)
            }
            while !posted.load(ordering: .acquiring) { sched_yield() }
            loop.execute { seen.withLock { $0.append("the loop") } }
        }
        _ = try await on(loop) { 0 }
        #expect(seen.withLock { $0 } == ["another thread", "the loop"])
    }

    @Test("A loop loses no work that many threads post at once", arguments: PollerKind.allCases)
    func manyThreads(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let count = Counter()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<500 {
                        await withCheckedContinuation { continuation in
                            loop.execute {
                                count.value.wrappingAdd(1, ordering: .relaxed)
                                continuation.resume()
                            }
                        }
                    }
                }
            }
        }
        #expect(count.value.load(ordering: .relaxed) == 4000)
    }

    @Test("Timers fire in order and never early, and cancelled timers do not fire", arguments: PollerKind.allCases)
    func timers(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let fired = Locked<[Int]>([])
        let earliest = MonotonicClock.now() + 2_000_000
        let lateness = await withCheckedContinuation { (continuation: CheckedContinuation<Int64, Never>) in
            loop.execute {
                let victim = loop.schedule(at: earliest) { fired.withLock { $0.append(0) } }
                _ = loop.schedule(at: earliest + 1_000_000) {
                    fired.withLock { $0.append(2) }
                    continuation.resume(returning: MonotonicClock.now() - earliest - 1_000_000)
                }
                _ = loop.schedule(at: earliest) { fired.withLock { $0.append(1) } }
                loop.cancel(timer: victim)
            }
        }
        #expect(fired.withLock { $0 } == [1, 2])
        #expect(lateness >= 0)
    }

    @Test("A loop drops an event for a descriptor that an earlier event of the same tick has closed")
    func staleEvent() {
        var list = WatchList()
        let first = list.add(Recorder())
        list.remove(first)
        let second = list.add(Recorder())
        #expect(list.handler(first) == nil)
        #expect(list.handler(second) != nil)
        list.remove(first)
        #expect(list.handler(second) != nil)
    }
}
