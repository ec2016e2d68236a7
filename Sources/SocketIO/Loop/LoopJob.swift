/// A job to run on an event loop.
enum LoopJob {
    /// The job of a task that prefers the loop.
    case task(UnownedJob)
    /// The job of an actor whose executor is the loop.
    case actor(UnownedJob)
    /// A closure from ``EventLoop/execute(_:)``.
    case work(@Sendable () -> Void)

    func run(on loop: EventLoop) {
        // Each job runs under the executor that it was enqueued on. Otherwise a task's job that ran as an actor's job
        // would be enqueued again at its next suspension, to return to its own isolation.
        switch self {
        case .task(let job): job.runSynchronously(on: loop.asUnownedTaskExecutor())
        case .actor(let job): job.runSynchronously(on: loop.serialExecutor.asUnownedSerialExecutor())
        case .work(let work): work()
        }
    }
}

/// The serial executor of an ``EventLoop``, for actors:
/// `nonisolated var unownedExecutor: UnownedSerialExecutor { loop.serialExecutor.asUnownedSerialExecutor() }`.
package final class LoopSerialExecutor: SerialExecutor {
    private unowned let loop: EventLoop

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    /// Runs an actor's job on the loop.
    package func enqueue(_ job: consuming ExecutorJob) {
        loop.enqueue(.actor(UnownedJob(job)))
    }

    /// This executor, for an actor's `unownedExecutor`.
    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    /// Makes `assumeIsolated` succeed in callbacks of the loop, which run outside any job.
    package func checkIsolated() {
        loop.assertCurrent()
    }
}
