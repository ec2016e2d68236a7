import SocketIO
import TransportAPI

/// The texts that the server of a test has received, and the tasks that wait for a number of them.
final class ReceivedTexts: Sendable {
    private struct State: Sendable {
        var texts: [String] = []
        var waiters: [(Int, UnsafeContinuation<Void, Never>)] = []
    }

    private let state = Locked(State())

    /// All texts so far.
    var all: [String] { state.withLock { $0.texts } }

    func note(_ payload: Payload) {
        let ready = state.withLock { state in
            state.texts.append(payload.string)
            let count = state.texts.count
            defer { state.waiters.removeAll { $0.0 <= count } }
            return state.waiters.filter { $0.0 <= count }
        }
        for (_, continuation) in ready { continuation.resume() }
    }

    /// Waits until `count` messages have arrived in total.
    func wait(for count: Int) async {
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                if state.texts.count >= count { return true }
                state.waiters.append((count, continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
    }
}
