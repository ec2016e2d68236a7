import Protocols
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

extension LoopBound: Confinement {
    @usableFromInline
    package func execute(_ work: @escaping @Sendable () -> Void) {
        loop.execute(work)
    }

    @usableFromInline
    package func runInlineIfIdle<Result: Sendable>(_ body: (Value) -> Result) -> Result? {
        loop.runInlineIfIdle { body(value) }
    }
}
