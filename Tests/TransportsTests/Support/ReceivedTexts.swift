import SocketIO
import TransportAPI

/// The texts that the server of a test has received, and the tasks that wait for a number of them.
final class ReceivedTexts: Sendable {
    private struct State: Sendable {
        var texts: [String] = []
        var waiters: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Locked(State())

    /// All texts so far.
    var all: [String] { state.withLock { $0.texts } }

    func note(_ payload: Payload) {
        let waiters = state.withLock { state in
            state.texts.append(payload.string)
            return state.waiters
        }
        for waiter in waiters { waiter.yield() }
    }

    /// Waits until `count` messages have arrived in total, or the task is cancelled.
    func wait(for count: Int) async {
        await wait { state.withLock { $0.texts.count } >= count }
    }

    /// Waits until a message that fits has arrived, or the task is cancelled.
    func wait(forText fits: (String) -> Bool) async {
        await wait { all.contains(where: fits) }
    }

    private func wait(until isReached: () -> Bool) async {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Void.self)
        state.withLock { $0.waiters.append(continuation) }
        continuation.yield()
        for await _ in arrivals where isReached() { return }
    }
}
