import Primitives

/// The execution environment of a supervisor's driver: one thread at a time, a clock, timers and random numbers. An
/// event loop is one; tests make their own.
package protocol SupervisorRuntime: AnyObject, Sendable {
    /// The executor of the supervisor's tasks.
    var taskExecutor: any TaskExecutor { get }
    /// Whether the caller runs on the runtime now.
    var isCurrent: Bool { get }
    /// The current time.
    var clock: Instant { get }
    /// Runs `work` on the runtime.
    func execute(_ work: @escaping @Sendable () -> Void)
    /// Runs `body` inline on the runtime, on the caller's thread, while nothing else runs there. Returns `nil` if that
    /// is not possible at once. Work that was posted before runs first. By default only a caller on the runtime can run
    /// inline.
    func runInlineIfIdle<Value: Sendable>(_ body: () -> Value) -> Value?
    /// Calls user code on the runtime, in the order of these calls. The code runs now, or a little later if the caller
    /// runs inside ``runInlineIfIdle(_:)`` on another thread. Call this on the runtime. By default calls it now.
    func callOut(_ work: @escaping @Sendable () -> Void)
    /// Calls `action` on the runtime at `deadline`. Call this on the runtime.
    func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> UInt64
    /// Cancels a timer that has not fired. Call this on the runtime.
    func cancel(timer: UInt64)
    /// Makes a source of random numbers.
    func makeRandomSource() -> RandomSource
    /// Makes a queue for work that may block, such as writes to a disk. By default its work runs at once.
    ///
    /// - Throws: The error of the system if it has no thread left.
    func makeBlockingQueue(_ name: String) throws(TransportError) -> any BlockingQueue
    /// Returns the queue for reading and writing files that all on the runtime share. Call this on the runtime. By default makes
    /// one.
    ///
    /// - Throws: The error of the system if it has no thread left.
    func fileQueue() throws(TransportError) -> any BlockingQueue
    /// The machine is in another network, so that failures in the former one mean nothing any more. Call this on the
    /// runtime. By default does nothing.
    func networkChanged()
}

extension SupervisorRuntime {
    /// Does nothing.
    package func networkChanged() {}

    /// Makes a queue whose work runs at once.
    package func makeBlockingQueue(_: String) throws(TransportError) -> any BlockingQueue { ImmediateQueue() }

    /// Makes a queue.
    package func fileQueue() throws(TransportError) -> any BlockingQueue { try makeBlockingQueue("files") }

    /// Calls `work` now.
    package func callOut(_ work: @escaping @Sendable () -> Void) {
        work()
    }

    /// Runs `body` if the caller is on the runtime; otherwise returns `nil`.
    package func runInlineIfIdle<Value: Sendable>(_ body: () -> Value) -> Value? {
        isCurrent ? body() : nil
    }
}

/// A queue whose work runs at once, for runtimes in virtual time.
package struct ImmediateQueue: BlockingQueue {
    package init() {}

    /// Runs `work` now.
    package func run(_ work: @escaping @Sendable () -> Void) { work() }
}

/// Makes a runtime the context of objects.
package struct RuntimeContext: ExecutionContext {
    package let runtime: any SupervisorRuntime

    package init(_ runtime: any SupervisorRuntime) {
        self.runtime = runtime
    }

    package var isCurrent: Bool { runtime.isCurrent }

    package func execute(_ work: @escaping @Sendable () -> Void) {
        runtime.execute(work)
    }

    package func runInlineIfIdle<Result: Sendable>(_ body: () -> Result) -> Result? {
        runtime.runInlineIfIdle(body)
    }
}

/// An object that only one runtime may touch.
package typealias RuntimeBound<Value: AnyObject> = Bound<Value, RuntimeContext>

extension Bound where Context == RuntimeContext {
    /// The runtime.
    package var runtime: any SupervisorRuntime { context.runtime }

    /// Binds `value` to `runtime`.
    package init(_ value: Value, to runtime: any SupervisorRuntime) {
        self.init(value, in: RuntimeContext(runtime))
    }
}
