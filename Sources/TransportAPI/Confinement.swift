/// Something that only code in one place may touch (on a thread, on a runtime), in the hands of whoever may pass it around.
@usableFromInline
package protocol Confinement<Confined>: Sendable {
    associatedtype Confined
    /// What is confined. To be asked for in its place only.
    var value: Confined { get }
    /// Runs `work` in its place.
    func execute(_ work: @escaping @Sendable () -> Void)
}

/// Suspends the caller, who runs in the place of `confined`, until somebody resumes the continuation that `park` puts away.
///
/// The isolation is handed on by hand: an async closure in a `nonisolated(nonsending)` function does not inherit the
/// caller's, and would leave the place for the global executor if the caller is an actor that lives there.
///
/// - Parameter cancel: called in that place if the task is cancelled; always after `park`, which is part of the job that is
///   running now.
@inlinable
package func suspending<Value: Sendable, Place: Confinement>(
    on confined: Place,
    _ isolation: isolated (any Actor)?,
    park: (Place.Confined, UnsafeContinuation<Value, Never>) -> Void,
    onCancel cancel: @escaping @Sendable (Place.Confined) -> Void
) async -> Value {
    await withTaskCancellationHandler(
        operation: {
            _ = isolation
            return await withUnsafeContinuation(isolation: isolation) { park(confined.value, $0) }
        },
        onCancel: { confined.execute { cancel(confined.value) } },
        isolation: isolation
    )
}
