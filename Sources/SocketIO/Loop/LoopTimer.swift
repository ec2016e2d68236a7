import Primitives

/// A timer of an event loop that any thread can set and cancel.
package final class LoopTimer: Sendable {
    private final class State {
        var id: UInt64?
        var isCancelled = false
    }

    private let state: LoopBound<State>

    /// Calls `action` on `loop` at `deadline`, in nanoseconds of ``MonotonicClock``, unless it is cancelled before.
    package init(on loop: EventLoop, at deadline: Int64, _ action: @escaping @Sendable () -> Void) {
        state = LoopBound(State(), to: loop)
        loop.execute { [state] in
            let held = state.value
            guard !held.isCancelled else { return }
            held.id = loop.schedule(at: deadline, action)
        }
    }

    /// Cancels the timer, if it has not fired.
    package func cancel() {
        state.loop.execute { [state] in
            let held = state.value
            held.isCancelled = true
            if let id = held.id { state.loop.cancel(timer: id) }
        }
    }
}
