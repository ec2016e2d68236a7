/// Those who wait for an end. Lives on a runtime.
final class CloseWaiters {
    private var waiting: [UInt64: UnsafeContinuation<Void, Never>] = [:]
    private var lastID: UInt64 = 0

    func newID() -> UInt64 {
        lastID += 1
        return lastID
    }

    func wait(_ id: UInt64, _ continuation: UnsafeContinuation<Void, Never>) {
        waiting[id] = continuation
    }

    /// This one waits no longer.
    func cancel(_ id: UInt64) {
        waiting.removeValue(forKey: id)?.resume()
    }

    /// The end has come.
    func finish() {
        let all = waiting
        waiting = [:]
        for continuation in all.values { continuation.resume() }
    }
}
