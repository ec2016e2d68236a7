import Dispatch
import SocketIO
import TransportAPI

/// A loop with its own thread.
package func makeLoop(_ name: String) throws(SystemFailure) -> EventLoop {
    do throws(SystemError) {
        return try EventLoop(name: name)
    } catch {
        throw SystemFailure("\(error)")
    }
}

/// Runs asynchronous work on `loop`. The calling thread, which must not be a loop's, waits for it.
package func runBlocking<Value: Sendable>(
    on loop: EventLoop,
    _ body: @escaping @Sendable () async -> Value
) -> Value {
    let result = Locked<Value?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    Task(executorPreference: loop) {
        let value = await body()
        result.withLock { $0 = value }
        isDone.signal()
    }
    while true {
        isDone.wait()
        if let value = result.withLock({ $0 }) { return value }
    }
}

/// Runs asynchronous work that can fail, as ``runBlocking(on:_:)`` does.
package func tryBlocking<Value: Sendable>(
    on loop: EventLoop,
    _ body: @escaping @Sendable () async throws(TransportError) -> Value
) throws(TransportError) -> Value {
    let result: Result<Value, TransportError> = runBlocking(on: loop) {
        do throws(TransportError) { return .success(try await body()) } catch { return .failure(error) }
    }
    return try result.get()
}

extension SystemFailure {
    /// Calls `body`, whose errors are failures of the command.
    package static func translate<Value>(_ body: () throws(TransportError) -> Value) throws(SystemFailure) -> Value {
        do throws(TransportError) { return try body() } catch { throw SystemFailure(error.sentence) }
    }
}

extension TransportError {
    /// The reason, without the phase if it begins with it.
    package var sentence: String {
        let prefix = phase.rawValue + ": "
        return reason.hasPrefix(prefix) ? String(reason.dropFirst(prefix.count)) : reason
    }
}

/// The error as a sentence for people.
package func sentence(of error: any Error) -> String { (error as? TransportError)?.sentence ?? "\(error)" }

/// Runs asynchronous work as ``runBlocking(on:_:)`` does, and cancels its task when the program is interrupted.
package func runInterruptibly<Value: Sendable>(
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

/// Runs `work` on `loop` and returns its result. Call it on the loop.
///
/// - Parameter sentence: the error of work that takes longer than `limit`. Its task is then cancelled.
/// - Throws: the error of `work`, or `.timedOut`.
package func within<Value: Sendable>(
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

/// Waits on `loop` until `time`, in nanoseconds of the monotonic clock. Call it on the loop.
package func pause(on loop: EventLoop, until time: Int64) async {
    await withUnsafeContinuation { continuation in
        loop.execute { _ = loop.schedule(at: time) { continuation.resume() } }
    }
}

extension EventLoop {
    /// Waits for a time. It ends early, after at most 100 ms, if the task is cancelled.
    package func pause(_ duration: Duration) async {
        let end = MonotonicClock.now() + duration.wholeNanoseconds
        while case let now = MonotonicClock.now(), now < end, !Task.isCancelled {
            let next = min(end, now + 100_000_000)
            await withCheckedContinuation { continuation in
                execute { [self] in _ = schedule(at: next) { continuation.resume() } }
            }
        }
    }

    /// Runs `body` on the loop and returns its result.
    package func perform<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: body()) }
        }
    }
}
