import SocketIO
import TransportAPI

/// Runs `operation` on `loop` and returns its result to the caller, on the caller's executor.
package nonisolated(nonsending) func running<Value: Sendable>(
    on loop: EventLoop,
    _ operation: @Sendable @concurrent () async throws(TransportError) -> Value
) async throws(TransportError) -> Value {
    let result: Result<Value, TransportError> = await withTaskExecutorPreference(loop) {
        do throws(TransportError) { return .success(try await operation()) } catch { return .failure(error) }
    }
    return try result.get()
}
