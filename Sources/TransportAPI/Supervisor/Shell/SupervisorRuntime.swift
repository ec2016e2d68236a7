/// What a supervisor's shell lives on: one thread at a time, a clock, timers and random numbers. An event loop is one; tests
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

/// An object that only one runtime may touch, in a value that any thread may pass on.
///
/// `Value` is a class and not any type, because Swift 6.3 miscompiles the getters of this struct otherwise: a property of the
/// object that is read twice is loaded once, whatever a call or an `await` between the two has changed.
package struct RuntimeBound<Value: AnyObject>: Confinement, @unchecked Sendable {
    // Unchecked, because the check below is what makes it safe.

    package let runtime: any SupervisorRuntime
    private let confined: Value

    /// Confines `value`, which from now on nobody touches but through here.
    package init(_ value: Value, to runtime: any SupervisorRuntime) {
        confined = value
        self.runtime = runtime
    }

    /// The value. Stops the program if the caller is elsewhere: a mistake in this program that would race.
    package var value: Value {
        precondition(runtime.isCurrent, "called from outside the supervisor's runtime")
        return confined
    }

    /// The value if the caller is on the runtime; else `nil`.
    package var here: Value? { runtime.isCurrent ? confined : nil }

    package func execute(_ work: @escaping @Sendable () -> Void) {
        runtime.execute(work)
    }

    package func runInlineIfIdle<Result: Sendable>(_ body: (Value) -> Result) -> Result? {
        runtime.runInlineIfIdle { body(confined) }
    }
}
