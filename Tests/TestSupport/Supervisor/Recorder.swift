import SocketIO
import TransportAPI

/// An observer that keeps all it is told.
package final class Recorder: SupervisorObserver {
    private struct State: Sendable {
        var notes: [SupervisorEvent] = []
        var waiters: [(@Sendable ([SupervisorEvent]) -> Bool, UnsafeContinuation<Void, Never>)] = []
    }

    private let state = Locked(State())

    package init() {}

    package var notes: [SupervisorEvent] { state.withLock { $0.notes } }

    /// The states among the notes.
    package var states: [SupervisorState] {
        notes.compactMap { if case .state(let state) = $0 { state } else { nil } }
    }

    package func note(_ note: SupervisorEvent, at _: Instant) {
        let ready = state.withLock { state in
            state.notes.append(note)
            let notes = state.notes
            let ready = state.waiters.filter { $0.0(notes) }
            if !ready.isEmpty { state.waiters.removeAll { $0.0(notes) } }
            return ready
        }
        for (_, continuation) in ready { continuation.resume() }
    }

    /// Waits until the notes so far fit.
    package func wait(_ fits: @escaping @Sendable ([SupervisorEvent]) -> Bool) async {
        await withUnsafeContinuation { continuation in
            let isReady = state.withLock { state in
                if fits(state.notes) { return true }
                state.waiters.append((fits, continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
    }

    /// Waits until there were so many open connections.
    package func waitUntilOpen(_ times: Int = 1) async {
        await wait { notes in
            notes.count { if case .state(let state) = $0 { state.isOpen } else { false } } >= times
        }
    }
}
