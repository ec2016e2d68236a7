import SocketIO
import TransportAPI

/// What happens at a client with the fallback and at its server, in order, and the tasks that wait for it.
final class FallbackLog: SupervisorObserver {
    /// One event.
    enum Event: Sendable, Hashable {
        /// The client begins this attempt.
        case connecting(Int)
        /// A WebSocket has reached the server.
        case webSocket
        /// The opening of a session over HTTP has reached the server.
        case http
        /// The client is connected.
        case open
        /// An attempt of the client has failed.
        case failed(String)
        /// The connection of the client has ended.
        case ended(String)
        /// The middlebox has become another one.
        case changed
    }

    private struct State: Sendable {
        var events: [Event] = []
        var waiters: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Locked(State())

    /// All events so far.
    var all: [Event] { state.withLock { $0.events } }

    func note(_ event: Event) {
        let waiters = state.withLock { state in
            state.events.append(event)
            return state.waiters
        }
        for waiter in waiters { waiter.yield() }
    }

    func note(_ note: SupervisorEvent, at _: Instant) {
        switch note {
        case .state(.connecting(let attempt, _)): self.note(.connecting(attempt))
        case .state(.open): self.note(.open)
        case .attemptFailed(_, let error): self.note(.failed(error.description))
        case .connectionEnded(_, let reason): self.note(.ended(reason.description))
        default: break
        }
    }

    /// Waits until the events are as expected, or the task is cancelled.
    func wait(until isExpected: @Sendable ([Event]) -> Bool) async {
        let (changes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiters.append(continuation) }
        continuation.yield()
        for await _ in changes where state.withLock({ isExpected($0.events) }) { return }
    }
}

extension [FallbackLog.Event] {
    /// Whether the client is connected over WebSocket, since the last change of the middlebox.
    var isBack: Bool {
        let later = self[(lastIndex(of: .changed) ?? startIndex)...]
        guard let way = later.lastIndex(where: { $0 == .webSocket || $0 == .http }), later[way] == .webSocket else {
            return false
        }
        return later[way...].contains(.open) && later.last == .open
    }
}
