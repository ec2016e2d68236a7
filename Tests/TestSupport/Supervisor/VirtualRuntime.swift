import Primitives
import SocketIO
import TransportAPI

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A runtime in virtual time. Time moves only when a test moves it, and jobs run only when the test says so, on the
/// test's own thread. So a day of attempts takes only as long as its jobs.
package final class VirtualRuntime: SupervisorRuntime, TaskExecutor {
    private enum Job {
        case task(UnownedJob)
        case work(@Sendable () -> Void)
    }

    private struct Timer: @unchecked Sendable {
        // Unchecked: set and called by the thread that runs the jobs.
        var id: UInt64
        var deadline: Instant
        var action: () -> Void
    }

    private struct State: Sendable {
        var jobs: [Job] = []
        var timers: [Timer] = []
        var lastTimer: UInt64 = 0
        var now = Instant(nanoseconds: 1_000_000_000)
        var thread: pthread_t?
    }

    /// An operation did not complete without a move of the time.
    package struct Stuck: Error {}

    /// Runs each piece of work after a time.
    private struct SlowQueue: BlockingQueue {
        let runtime: VirtualRuntime
        let time: Duration

        func run(_ work: @escaping @Sendable () -> Void) {
            _ = runtime.schedule(at: runtime.clock.advanced(by: time), work)
        }
    }

    private let state = Locked(State())
    private let seed: UInt64
    /// How long a piece of work takes that may block.
    private let blockingTime: Duration

    package init(seed: UInt64 = 1, blockingTime: Duration = .zero) {
        self.seed = seed
        self.blockingTime = blockingTime
    }

    package func makeBlockingQueue(_: String) throws(TransportError) -> any BlockingQueue {
        blockingTime == .zero ? ImmediateQueue() : SlowQueue(runtime: self, time: blockingTime)
    }

    package var taskExecutor: any TaskExecutor { self }
    package var isCurrent: Bool { state.withLock { $0.thread == pthread_self() } }
    package var clock: Instant { state.withLock { $0.now } }
    package func execute(_ work: @escaping @Sendable () -> Void) { state.withLock { $0.jobs.append(.work(work)) } }
    package func makeRandomSource() -> RandomSource { .seeded(seed) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(.task(job)) }
    }

    package func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> UInt64 {
        let timer = Timer(id: 0, deadline: deadline, action: action)
        return state.withLock { state in
            state.lastTimer += 1
            state.timers.append(timer)
            state.timers[state.timers.count - 1].id = state.lastTimer
            return state.lastTimer
        }
    }

    package func cancel(timer: UInt64) {
        let gone = state.withLock { state in
            let index = state.timers.firstIndex { $0.id == timer }
            return index.map { state.timers.remove(at: $0) }
        }
        _ = consume gone
    }

    /// The number of timers that are set.
    package var timerCount: Int { state.withLock { $0.timers.count } }

    // MARK: For tests

    /// Runs all jobs that can run without a move of the time.
    package func settle() {
        state.withLock { $0.thread = pthread_self() }
        defer { state.withLock { $0.thread = nil } }
        while let job = state.withLock({ $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }) {
            switch job {
            case .task(let job): job.runSynchronously(on: asUnownedTaskExecutor())
            case .work(let work): work()
            }
        }
    }

    /// Moves the time by `duration` and runs every timer that is due on the way.
    package func advance(by duration: Duration) {
        settle()
        let end = clock.advanced(by: duration)
        while let timer = takeTimer(before: end) {
            state.withLock { state in
                state.now = max(state.now, timer.deadline)
                state.thread = pthread_self()
            }
            timer.action()
            settle()
        }
        state.withLock { $0.now = end }
    }

    private func takeTimer(before end: Instant) -> Timer? {
        state.withLock { state in
            guard let next = state.timers.indices.min(by: { state.timers[$0].deadline < state.timers[$1].deadline }),
                state.timers[next].deadline <= end
            else { return nil }
            return state.timers.remove(at: next)
        }
    }

    /// Starts an operation whose result a test reads later.
    package func begin<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Pending<Value> {
        let pending = Pending<Value>()
        pending.task = Task(executorPreference: self) { pending.finish(await body()) }
        settle()
        return pending
    }

    /// Runs an operation that needs no time.
    @discardableResult
    package func run<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) throws -> Value {
        guard let value = begin(body).value else { throw Stuck() }
        return value
    }
}

/// An operation that was started.
package final class Pending<Value: Sendable>: Sendable {
    private let state = Locked<(value: Value?, task: Task<Void, Never>?)>((nil, nil))

    /// The result, once the operation has ended.
    package var value: Value? { state.withLock { $0.value } }

    fileprivate var task: Task<Void, Never>? {
        get { state.withLock { $0.task } }
        set { state.withLock { $0.task = newValue } }
    }

    fileprivate func finish(_ value: Value) {
        state.withLock { $0.value = value }
    }

    package func cancel() {
        task?.cancel()
    }
}
