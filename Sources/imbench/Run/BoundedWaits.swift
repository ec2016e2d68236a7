import SocketIO
import TransportAPI

/// Runs asynchronous work as ``runBlocking(on:_:)`` does, and cancels its task when the program is interrupted.
func runInterruptibly<Value: Sendable>(
    on loop: EventLoop,
    _ body: @escaping @Sendable () async -> Value
) -> Value {
    runBlocking(on: loop) {
        let work = Task(executorPreference: loop) { await body() }
        let watch = Task(executorPreference: loop) {
            while !Interruption.isRequested, !Task.isCancelled { await loop.pause(.milliseconds(100)) }
            if Interruption.isRequested { work.cancel() }
        }
        defer { watch.cancel() }
        return await work.value
    }
}

/// Runs `work` on `loop` and gives what it gives. To be called on the loop.
///
/// - Parameter sentence: what is said of work that takes longer than `limit`. Its task is then cancelled.
/// - Throws: what `work` throws, or `.timedOut`.
func within<Value: Sendable>(
    _ limit: Duration,
    on loop: EventLoop,
    else sentence: String,
    _ work: @escaping @Sendable () async throws(TransportError) -> Value
) async throws(TransportError) -> Value {
    let task = Task(executorPreference: loop) { () async -> Result<Value, TransportError> in
        do throws(TransportError) { return .success(try await work()) } catch { return .failure(error) }
    }
    let isLate = Locked(false)
    let timer = Task(executorPreference: loop) {
        await loop.pause(limit)
        guard !Task.isCancelled else { return }
        isLate.withLock { $0 = true }
        task.cancel()
    }
    let result = await withTaskCancellationHandler {
        await task.value
    } onCancel: {
        task.cancel()
    }
    timer.cancel()
    if case .failure(let error) = result, error.code == .cancelled, isLate.withLock({ $0 }) {
        throw TransportError(.timedOut, .open, sentence)
    }
    return try result.get()
}

extension EventLoop {
    /// Waits for a time. Ends early if the task is cancelled, which takes up to 100 ms to show.
    func pause(_ duration: Duration) async {
        let end = MonotonicClock.now() + duration.wholeNanoseconds
        while case let now = MonotonicClock.now(), now < end, !Task.isCancelled {
            let next = min(end, now + 100_000_000)
            await withCheckedContinuation { continuation in
                execute { [self] in _ = schedule(at: next) { continuation.resume() } }
            }
        }
    }
}
