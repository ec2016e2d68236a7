import Synchronization
import Testing

@testable import SocketIO

private final class Counter: Sendable {
    let value = Atomic<Int>(0)
}

@Suite("The event loop")
struct EventLoopTests {
    @Test("runs a task that prefers it on its thread, across suspensions", arguments: PollerKind.allCases)
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

        /// As a callback of the poller would do it.
        nonisolated func stepFromCallback() -> Int {
            assumeIsolated { resident in
                resident.count += 1
                return resident.count
            }
        }
    }

    @Test(
        "is the executor of actors that live on it, also in callbacks outside of jobs",
        arguments: PollerKind.allCases
    )
    func serialExecutor(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let resident = Resident(loop)
        #expect(await resident.step())
        #expect(try await on(loop) { resident.stepFromCallback() } == 2)
    }

    @Test("runs work in the order in which one thread posted it", arguments: PollerKind.allCases)
    func order(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let seen = Mutex<[Int]>([])
        for number in 0..<1000 { loop.execute { seen.withLock { $0.append(number) } } }
        _ = try await on(loop) { 0 }
        #expect(seen.withLock { $0 } == Array(0..<1000))
    }

    @Test("runs what another thread has posted before what the loop posts itself later", arguments: PollerKind.allCases)
    func causality(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let seen = Mutex<[String]>([])
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

    @Test("loses no work that many threads post at once", arguments: PollerKind.allCases)
    func stampede(kind: PollerKind) async throws {
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

    @Test("fires timers in order and never early, and not those that were cancelled", arguments: PollerKind.allCases)
    func timers(kind: PollerKind) async throws {
        let loop = try Loops.of(kind)
        let fired = Mutex<[Int]>([])
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

    @Test("fires a timer that sets itself anew once in a turn, however many others are set for later")
    func repeatedTimer() async throws {
        let loop = try EventLoop(name: "timers")
        let turns = await withCheckedContinuation { (continuation: CheckedContinuation<Int, Never>) in
            loop.execute {
                for _ in 0..<100 { _ = loop.schedule(at: loop.now + 3600 * second) {} }
                let turns = TurnCount(loop)
                loop.runLater(turns)
                RepeatedTimer(loop, turns, continuation).set()
            }
        }
        #expect(turns >= RepeatedTimer.times)
    }

    @Test("lets who is patient wait for the ends of turns, and those for whom there is no time left for the next turn")
    func patience() async throws {
        let loop = try EventLoop(name: "patience")
        let order = Locked<[String]>([])
        let (next, prompt) = (TurnWork("next", order), TurnWork("prompt", order))
        let slow = TurnWork("slow", order, isSlowOn: loop)
        await withCheckedContinuation { continuation in
            loop.execute {
                for handler in [slow, next] { loop.runPatiently(handler) }
                loop.atEndOfTurn(prompt)
                _ = loop.schedule(at: loop.now) {
                    order.withLock { $0.append("timer") }
                    _ = loop.schedule(at: loop.now) { continuation.resume() }
                }
            }
        }
        #expect(order.withLock { $0 } == ["prompt", "slow", "timer", "next"])
    }

    @Test("drops a report for a descriptor that an earlier report of the same turn has closed")
    func staleReport() {
        var list = WatchList()
        let first = list.add(Recorder())
        list.remove(first)
        let second = list.add(Recorder())
        #expect(list.handler(first) == nil)
        #expect(list.handler(second) != nil)
        list.remove(first)
        #expect(list.handler(second) != nil)
    }

    @Test("keeps jobs in order while its queue grows around the ring's end")
    func ring() {
        var queue = RingQueue<LoopJob>()
        let order = Mutex<[Int]>([])
        var next = 0
        func add(_ count: Int) {
            for _ in 0..<count {
                let number = next
                queue.append(.work { order.withLock { $0.append(number) } })
                next += 1
            }
        }
        func run(_ count: Int) {
            for _ in 0..<count { if case .work(let work) = queue.popFirst() { work() } }
        }
        add(60)
        run(50)
        add(100)
        run(110)
        #expect(queue.isEmpty)
        #expect(order.withLock { $0 } == Array(0..<160))
    }
}

/// Notes that it had its turn; a slow one takes more time than others at the end of a turn get.
private final class TurnWork: TurnHandler, PatientHandler, Sendable {
    private let name: String
    private let order: Locked<[String]>
    private let slow: EventLoop?

    init(_ name: String, _ order: Locked<[String]>, isSlowOn slow: EventLoop? = nil) {
        (self.name, self.order, self.slow) = (name, order, slow)
    }

    func turnEnded() {
        order.withLock { $0.append(name) }
        guard let slow else { return }
        let start = MonotonicClock.now()
        let end = start + (start - slow.now) + EventLoop.share
        while MonotonicClock.now() <= end {}
    }

    func turnCame() { turnEnded() }
}

/// Counts the turns of its loop, until nobody is interested any more.
private final class TurnCount: ShareHandler {
    private let loop: EventLoop
    private(set) var count = 0
    var isOver = false

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    func shareBegins() {
        count += 1
        if !isOver { loop.runLater(self) }
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
