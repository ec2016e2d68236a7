/// A place where one thread runs at a time: an event loop, or the runtime of a supervisor.
@usableFromInline
package protocol ExecutionContext: Sendable {
    /// Whether the caller runs in this context.
    var isCurrent: Bool { get }
    /// Runs `work` in this context: soon, and after all work that was posted before.
    func execute(_ work: @escaping @Sendable () -> Void)
    /// Runs `body` in this context now, on the caller's thread, if the context is idle. Returns `nil` otherwise.
    func runInlineIfIdle<Result: Sendable>(_ body: () -> Result) -> Result?
}

/// An object that only one context may touch, in a value that any thread may pass on.
///
/// `Value` is a class and not any type, because Swift 6.3 miscompiles a getter of an unconstrained generic struct that
/// makes a call and then returns a stored reference. Its optimizer assumes that no other code can reach the object, so
/// that a property that is read twice is loaded once, whatever a call or an `await` between the two has changed.
@frozen
@usableFromInline
package struct Bound<Value: AnyObject, Context: ExecutionContext>: @unchecked Sendable {
    // Unchecked, because `value` and `here` check the context.

    /// The context.
    @usableFromInline package let context: Context
    @usableFromInline let object: Value

    /// Binds `value` to `context`. From now on the object must be reached through this value only.
    @inlinable
    package init(_ value: Value, in context: Context) {
        object = value
        self.context = context
    }

    /// The object. Traps unless it is called in the context, because that is a mistake in this program that would race.
    @inlinable
    package var value: Value {
        precondition(context.isCurrent, "called from outside the context of the object")
        return object
    }

    /// The object if the caller runs in the context; else `nil`.
    @inlinable
    package var here: Value? { context.isCurrent ? object : nil }

    /// Runs `work` in the context: soon, and after all work that was posted before.
    @inlinable
    package func execute(_ work: @escaping @Sendable () -> Void) {
        context.execute(work)
    }

    /// Calls `body` with the object now, if the caller runs in the context or the context is idle. Returns `nil`
    /// otherwise.
    @inlinable
    package func runInlineIfIdle<Result: Sendable>(_ body: (Value) -> Result) -> Result? {
        context.runInlineIfIdle { body(object) }
    }

    /// Calls `body` with the object and `input`, and returns the result: at once if that is possible
    /// (``runInlineIfIdle(_:)``), otherwise in the context's next tick.
    ///
    /// `body` takes `input` as an argument and captures nothing, so that a call takes no memory unless it is posted.
    @inlinable
    package nonisolated(nonsending) func run<Input: Sendable, Result: Sendable>(
        with input: Input,
        _ body: @escaping @Sendable (Value, Input) -> Result
    ) async -> Result {
        if let here { return body(here, input) }
        if let result = runInlineIfIdle({ body($0, input) }) { return result }
        return await withUnsafeContinuation(isolation: #isolation) { continuation in
            execute { continuation.resume(returning: body(value, input)) }
        }
    }

    /// Suspends the caller until the continuation that `begin` gets is resumed.
    ///
    /// State can change before `begin` is called, so `begin` checks again whether it has to wait. Like the body of
    /// ``run(with:_:)``, both closures capture nothing. The isolation is a parameter, because an async
    /// closure in a `nonisolated(nonsending)` function does not inherit that of the caller.
    ///
    /// - Parameters:
    ///   - input: what the closures work on, including the identifier under which the caller waits (``WaitID``).
    ///   - begin: called in the context, once. Resumes the continuation, or stores it under the identifier.
    ///   - cancel: called in the context, once or twice, if the task is cancelled; at least once after `begin`. It finds
    ///     no caller if the wait has ended.
    @inlinable
    package func suspend<Input: Sendable, Result: Sendable>(
        with input: Input,
        _ isolation: isolated (any Actor)?,
        begin: @escaping @Sendable (Value, Input, UnsafeContinuation<Result, Never>) -> Void,
        onCancel cancel: @escaping @Sendable (Value, Input) -> Void
    ) async -> Result {
        await withTaskCancellationHandler(
            operation: {
                _ = isolation
                return await withUnsafeContinuation(isolation: isolation) { continuation in
                    if let here {
                        begin(here, input, continuation)
                    } else if runInlineIfIdle({ begin($0, input, continuation) }) == nil {
                        execute { begin(value, input, continuation) }
                    }
                    // The handler may have posted its cancellation before `begin` was called or posted.
                    if Task.isCancelled { execute { cancel(value, input) } }
                }
            },
            onCancel: { execute { cancel(value, input) } },
            isolation: isolation
        )
    }
}

/// An object that holds a value, where an object is needed.
package final class Box<Value> {
    package let value: Value

    package init(_ value: Value) {
        self.value = value
    }
}
