import Primitives

/// What a supervisor's driver lives on: one thread at a time, a clock, timers and random numbers. An event loop is one; tests
/// make their own.
public protocol SupervisorRuntime: AnyObject, Sendable {
    /// Where the supervisor's tasks run.
    var taskExecutor: any TaskExecutor { get }
    /// Whether the caller runs there now.
    var isCurrent: Bool { get }
    /// The present time.
    var clock: Instant { get }
    /// Runs `work` there.
    func execute(_ work: @escaping @Sendable () -> Void)
    /// Runs `body` there at once, on the caller's thread, while nothing else runs there; `nil` if that is not to be had
    /// at once. What was posted before comes before. By default only who is there already can have it.
    func runInlineIfIdle<Value: Sendable>(_ body: () -> Value) -> Value?
    /// Calls user code there, in the order of these calls: now, or a little later if the caller runs inside of
    /// ``runInlineIfIdle(_:)`` on a thread of another. To be called there. By default calls it now.
    func callOut(_ work: @escaping @Sendable () -> Void)
    /// Calls `action` there at `deadline`. To be called there.
    func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> UInt64
    /// Cancels a timer that has not fired. To be called there.
    func cancel(timer: UInt64)
    /// A source of random numbers.
    func makeRandomSource() -> RandomSource
}

extension SupervisorRuntime {
    /// Calls `work` now.
    public func callOut(_ work: @escaping @Sendable () -> Void) {
        work()
    }

    /// Runs `body` if the caller is there; else `nil`.
    public func runInlineIfIdle<Value: Sendable>(_ body: () -> Value) -> Value? {
        isCurrent ? body() : nil
    }
}

/// A runtime as the context of objects.
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
