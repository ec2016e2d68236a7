import Dispatch
import SocketIO
import Synchronization
import Transports

/// What contenders share: one loop of this package for each side, and the cores that the two sides stay on.
final class Stage: Sendable {
    let clientLoop: EventLoop
    let serverLoop: EventLoop
    /// `nil` where there is only one core.
    let placement: ThreadPlacement?
    /// The cores of the two sides as C and others take them: -1 for any.
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

    /// Runs `body` on the calling thread while that stays on the core of the near side, or of the peer.
    func pinned<Value>(far: Bool = false, _ body: () throws -> Value) rethrows -> Value {
        let cores = CoreMask.ofThisThread()
        if let placement { CoreMask(only: far ? placement.far : placement.near).applyToThisThread() }
        defer { cores?.applyToThisThread() }
        return try body()
    }
}

/// Runs asynchronous work on `executor`, the global one if `nil`, while the calling thread waits for it.
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
    // Longer than any repetition: whoever is not done by then never will be.
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
