/// Something to run on an event loop.
enum LoopJob {
    /// The job of a task that prefers the loop.
    case task(UnownedJob)
    /// The job of an actor whose executor is the loop.
    case actor(UnownedJob)
    /// A closure.
    case work(@Sendable () -> Void)

    func run(on loop: EventLoop) {
        // Each job runs under the face of the loop that it was given to: a task's job that ran as an actor's would be
        // sent through the queue once more, at its next suspension, to get its own isolation back.
        switch self {
        case .task(let job): job.runSynchronously(on: loop.asUnownedTaskExecutor())
        case .actor(let job): job.runSynchronously(on: loop.serialExecutor.asUnownedSerialExecutor())
        case .work(let work): work()
        }
    }
}

/// A ring of jobs that grows when it is full and never shrinks.
struct JobQueue {
    private var ring: [LoopJob?] = Array(repeating: nil, count: 64)
    private var head = 0
    private var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ job: LoopJob) {
        if count == ring.count {
            ring = Array(ring[head...] + ring[..<head]) + Array(repeating: nil, count: count)
            head = 0
        }
        ring[(head + count) & (ring.count - 1)] = job
        count += 1
    }

    mutating func popFirst() -> LoopJob? {
        guard count > 0 else { return nil }
        let job = ring[head]
        ring[head] = nil
        head = (head + 1) & (ring.count - 1)
        count -= 1
        return job
    }
}

/// The face of an ``EventLoop`` that actors take as their executor:
/// `nonisolated var unownedExecutor: UnownedSerialExecutor { loop.serialExecutor.asUnownedSerialExecutor() }`.
public final class LoopSerialExecutor: SerialExecutor {
    private unowned let loop: EventLoop

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    /// Runs an actor's job on the loop.
    public func enqueue(_ job: consuming ExecutorJob) {
        loop.enqueue(.actor(UnownedJob(job)))
    }

    /// This executor, for an actor's `unownedExecutor`.
    public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    /// Lets `assumeIsolated` succeed in callbacks of the loop, which run outside of any job.
    public func checkIsolated() {
        loop.assertCurrent()
    }
}
