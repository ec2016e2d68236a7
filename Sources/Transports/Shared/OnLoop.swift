import SocketIO
import TransportAPI

/// Runs `operation` on `loop` and comes back to the caller with what it gives.
nonisolated(nonsending) func running<Value: Sendable>(
    on loop: EventLoop,
    _ operation: @Sendable @concurrent () async throws(TransportError) -> Value
) async throws(TransportError) -> Value {
    let result: Result<Value, TransportError> = await withTaskExecutorPreference(loop) {
        do throws(TransportError) { return .success(try await operation()) } catch { return .failure(error) }
    }
    return try result.get()
}

/// Suspends the caller, who runs on the loop of `confined`, until somebody resumes the continuation that `park` puts away.
///
/// The isolation is handed on by hand: an async closure in a `nonisolated(nonsending)` function does not inherit the
/// caller's, and would leave the loop for the global executor if the caller is an actor that lives on the loop.
///
/// - Parameter cancel: called on the loop if the task is cancelled; always after `park`, which is part of the job that is
///   running now.
func cancellable<Value: Sendable, Confined>(
    on confined: LoopConfined<Confined>,
    _ isolation: isolated (any Actor)?,
    park: (Confined, UnsafeContinuation<Value, Never>) -> Void,
    onCancel cancel: @escaping @Sendable (Confined) -> Void
) async -> Value {
    await withTaskCancellationHandler(
        operation: {
            _ = isolation
            return await withUnsafeContinuation(isolation: isolation) { park(confined.value, $0) }
        },
        onCancel: { confined.loop.execute { cancel(confined.value) } },
        isolation: isolation
    )
}
