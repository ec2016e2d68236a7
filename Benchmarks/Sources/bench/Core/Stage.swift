import Dispatch
import Measuring
import Reporting
import SocketIO
import Synchronization
import Transports

/// The resources that contenders share: one loop of this package for each side, and the cores of the two sides.
final class Stage: Sendable {
    let clientLoop: EventLoop
    let serverLoop: EventLoop
    /// The cores of the two sides; `nil` if there is only one core.
    let placement: ThreadPlacement?
    /// The cores of the two sides as numbers for C and for other programs; -1 means any.
    var nearCore: Int32 { Int32(placement?.near ?? -1) }
    var farCore: Int32 { Int32(placement?.far ?? -1) }

    init() throws {
        clientLoop = try EventLoop(name: "bench-client")
        serverLoop = try EventLoop(name: "bench-server")
        placement = .apart()
        guard let placement else { return }
        clientLoop.execute { CoreMask(only: placement.near).applyToThisThread() }
        serverLoop.execute { CoreMask(only: placement.far).applyToThisThread() }
    }

    /// Runs `body` on the calling thread, which is pinned meanwhile to the core of the near side, or of the peer.
    func pinned<Value>(far: Bool = false, _ body: () throws -> Value) rethrows -> Value {
        let cores = CoreMask.ofThisThread()
        if let placement { CoreMask(only: far ? placement.far : placement.near).applyToThisThread() }
        defer { cores?.applyToThisThread() }
        return try body()
    }
}

/// Runs asynchronous work on `executor` and blocks the calling thread until it ends; `nil` means the global executor.
func blocking<Value: Sendable>(
    on executor: (any TaskExecutor)? = nil,
    _ body: @escaping @Sendable () async throws -> Value
) throws -> Value {
    let answer = Answer<Value>()
    let task = Task(executorPreference: executor) {
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        answer.result.withLock { $0 = result }
        answer.done.signal()
    }
    // Longer than any repetition, so work that has not ended by then hangs.
    guard answer.done.wait(timeout: .now() + .seconds(60)) == .success, let result = answer.result.withLock({ $0 })
    else {
        task.cancel()
        throw WrongResult(description: "no end after a minute")
    }
    return try result.get()
}

private final class Answer<Value: Sendable>: Sendable {
    let result = Mutex<Result<Value, any Error>?>(nil)
    let done = DispatchSemaphore(value: 0)
}
