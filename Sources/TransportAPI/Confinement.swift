/// Something that only code in one place may touch (on a thread, on a runtime), in the hands of whoever may pass it around.
@usableFromInline
package protocol Confinement<Confined>: Sendable {
    associatedtype Confined
    /// What is confined. To be asked for in its place only.
    var value: Confined { get }
    /// What is confined if the caller is in its place; else `nil`.
    var here: Confined? { get }
    /// Runs `work` in its place.
    func execute(_ work: @escaping @Sendable () -> Void)
    /// Runs `body` in its place here and now, without waiting for it; `nil` if it is not to be had.
    func runInlineIfIdle<Result: Sendable>(_ body: (Confined) -> Result) -> Result?
}

/// Suspends the caller, who runs in the place of `confined`, until somebody resumes the continuation of what `begin` begins.
///
/// Between the call and `begin` others may run there: at each suspension the system sends an actor that lives in the
/// place through its queue once more if its task prefers another executor, and takes who only came along with such an
/// actor to that executor. So what was seen before the call may not hold any more, and what was begun may have ended:
/// `begin` looks again.
///
/// The isolation is handed on by hand: an async closure in a `nonisolated(nonsending)` function does not inherit the
/// caller's, and would leave the place for the global executor if the caller is an actor that lives there.
///
/// - Parameters:
///   - id: the name under which the caller waits.
///   - begin: called in that place, once. Resumes the continuation, or puts it away under that name.
///   - cancel: called in that place, with that name, if the task is cancelled, at least once after `begin`; finds nobody if the wait
///     has ended. It captures nothing, so that waiting takes no memory for it: each message is waited for.
///   - elsewhere: called instead of `begin` if the caller is not in that place any more.
@inlinable
package func suspending<Value: Sendable, ID: Sendable, Place: Confinement>(
    on confined: Place,
    as id: ID,
    _ isolation: isolated (any Actor)?,
    begin: (Place.Confined, UnsafeContinuation<Value, Never>) -> Void,
    onCancel cancel: @escaping @Sendable (Place.Confined, ID) -> Void,
    elsewhere: () async -> Value
) async -> Value {
    guard let here = confined.here else { return await elsewhere() }
    return await withTaskCancellationHandler(
        operation: {
            _ = isolation
            return await withUnsafeContinuation(isolation: isolation) {
                begin(here, $0)
                // The cancellation may have come first.
                if Task.isCancelled { cancel(here, id) }
            }
        },
        onCancel: { confined.execute { cancel(confined.value, id) } },
        isolation: isolation
    )
}

/// Suspends the caller, who is elsewhere, until somebody resumes the continuation of what `begin` begins in the place of
/// `confined`: at once, on the caller's thread, if the place can be borrowed.
///
/// - Parameters:
///   - isShort: whether `begin` waits for nothing, so that the place may be borrowed for it.
///   - begin: called in that place, once. Resumes the continuation, or puts it away under the name that it gives.
///   - cancel: called in that place, with that name, if the task is cancelled; always after `begin`. Finds nobody if the wait has
///     ended.
@inlinable
package func suspendingElsewhere<Value: Sendable, ID: Sendable, Place: Confinement>(
    on confined: Place,
    _ isolation: isolated (any Actor)?,
    isShort: Bool = true,
    begin: @escaping @Sendable (Place.Confined, UnsafeContinuation<Value, Never>) -> ID,
    onCancel cancel: @escaping @Sendable (Place.Confined, ID) -> Void
) async -> Value {
    let operation = BegunElsewhere<ID>()
    return await withTaskCancellationHandler(
        operation: {
            _ = isolation
            return await withUnsafeContinuation(isolation: isolation) { continuation in
                let work: @Sendable (Place.Confined) -> Void = { held in
                    let id = begin(held, continuation)
                    operation.id = id
                    // The cancellation may have come first: it was posted, or the task was cancelled from the start.
                    if operation.isCancelled { cancel(held, id) }
                }
                if !isShort || confined.runInlineIfIdle(work) == nil { confined.execute { work(confined.value) } }
            }
        },
        onCancel: {
            confined.execute {
                operation.isCancelled = true
                if let id = operation.id { cancel(confined.value, id) }
            }
        },
        isolation: isolation
    )
}

/// Where an operation stands that was begun from elsewhere.
@usableFromInline
package final class BegunElsewhere<ID: Sendable>: @unchecked Sendable {
    // Unchecked, because its maker only hands it on: all else happens in the place where the operation does.

    /// The name under which it waits.
    @usableFromInline var id: ID?
    @usableFromInline var isCancelled = false

    @usableFromInline init() {}
}
