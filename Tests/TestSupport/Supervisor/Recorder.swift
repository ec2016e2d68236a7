import SocketIO
import TransportAPI

/// An observer that keeps all its events.
package final class Recorder: SupervisorObserver {
    private struct Waiter: Sendable {
        let fits: @Sendable ([SupervisorEvent]) -> Bool
        let continuation: UnsafeContinuation<Void, Never>
    }

    private struct State: Sendable {
        var events: [SupervisorEvent] = []
        var waiters: [Int: Waiter] = [:]
        var lastWaiter = 0
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
            let ready = state.waiters.filter { $0.value.fits(events) }
            for number in ready.keys { state.waiters[number] = nil }
            return ready.values
        }
        for waiter in ready { waiter.continuation.resume() }
    }

    /// Waits until `fits` returns true for the events so far, or the task is cancelled. The time limit of a test cancels it.
    package func wait(_ fits: @escaping @Sendable ([SupervisorEvent]) -> Bool) async {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let isReady = state.withLock { state in
                    if Task.isCancelled || fits(state.events) { return true }
                    state.waiters[number] = Waiter(fits: fits, continuation: continuation)
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.continuation.resume()
        }
    }

    /// Waits until `times` connections have opened.
    package func waitUntilOpen(_ times: Int = 1) async {
        await wait { events in
            events.count { if case .state(let state) = $0 { state.isOpen } else { false } } >= times
        }
    }
}
