import Primitives
import Synchronization

/// An object that only one event loop may touch.
package typealias LoopBound<Value: AnyObject> = Bound<Value, EventLoop>

extension EventLoop: ExecutionContext {}

extension Bound where Context == EventLoop {
    /// The loop.
    @inlinable package var loop: EventLoop { context }

    /// Binds `value` to `loop`.
    @inlinable
    package init(_ value: Value, to loop: EventLoop) {
        self.init(value, in: loop)
    }
}

extension EventLoop {
    /// Runs `body` inline on the loop, on the caller's thread, if the loop's own thread sleeps. Returns `nil` at once
    /// if the loop runs or has work, because that work comes first. On the loop, calls `body`.
    ///
    /// While `body` runs, the caller is on this loop and on no other (``isCurrent``). Afterwards the written output is
    /// passed to the kernel, as at the end of a tick. These invariants hold:
    ///
    /// - A caller's thread never waits for the loop. It tries to become the owner for a few microseconds at most. It
    ///   runs `body` and one end of a tick, which is one pass over the handlers that `body` has registered.
    /// - Jobs that `body` enqueues run on the loop's thread, because the caller can be in the middle of another task's
    ///   job.
    /// - User code (observers, stores) runs on the loop's thread (``callOut(_:)``).
    ///
    /// `body` must be short and must not wait, because the loop's thread waits for it.
    @usableFromInline package func runInlineIfIdle<Value: Sendable>(_ body: () -> Value) -> Value? {
        if isCurrent { return body() }
        // Work that this thread posted earlier runs before this operation.
        guard !hasMail.load(ordering: .relaxed), let former = ownership.tryTake() else { return nil }
        guard isIdle, !hasMail.load(ordering: .relaxed) else {
            ownership.giveBack(former)
            return nil
        }
        isInline = true
        now = MonotonicClock.now()
        scheduler.beginInline()
        let value = body()
        scheduler.endTick(since: now)
        // The loop's thread chose its sleep time before this operation, which can have set an earlier timer.
        if isIdle, let deadline = timers.next { poller.lowerDeadline(to: deadline) }
        let mustWake = !isIdle && isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        isInline = false
        ownership.giveBack(former)
        if mustWake { poller.wake() }
        return value
    }
}
