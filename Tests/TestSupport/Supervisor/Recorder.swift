import SocketIO
import TransportAPI

/// An observer that keeps all its events.
package final class Recorder: SupervisorObserver {
    private struct State: Sendable {
        var events: [SupervisorEvent] = []
        var waiters: [(@Sendable ([SupervisorEvent]) -> Bool, UnsafeContinuation<Void, Never>)] = []
    }

    private let state = Locked(State())

    package init() {}

    package var events: [SupervisorEvent] { state.withLock { $0.events } }

    /// The states among the events.
    package var states: [SupervisorState] {
        events.compactMap { if case .state(let state) = $0 { state } else { nil } }
    }

    package func note(_ event: SupervisorEvent, at _: Instant) {
        let ready = state.withLock { state in
            state.events.append(event)
            let events = state.events
            let ready = state.waiters.filter { $0.0(events) }
            if !ready.isEmpty { state.waiters.removeAll { $0.0(events) } }
            return ready
        }
        for (_, continuation) in ready { continuation.resume() }
    }

    /// Waits until `fits` returns true for the events so far.
    package func wait(_ fits: @escaping @Sendable ([SupervisorEvent]) -> Bool) async {
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                if fits(state.events) { return true }
                state.waiters.append((fits, continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
    }

    /// Waits until `times` connections have opened.
    package func waitUntilOpen(_ times: Int = 1) async {
        await wait { events in
            events.count { if case .state(let state) = $0 { state.isOpen } else { false } } >= times
        }
    }
}
