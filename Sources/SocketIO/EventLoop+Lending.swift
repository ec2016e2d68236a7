import Synchronization

extension EventLoop {
    /// Runs `body` on the loop here and now, without its thread, if that sleeps; `nil` at once if the loop runs or has work, which
    /// comes first. On the loop, calls `body`.
    ///
    /// While it runs, the caller is on the loop, for ``isCurrent`` and for all that lives there. Then what was written during it goes
    /// to the kernel, as at the end of a turn. Jobs that it leads to are left to the loop's thread, since this one may be in the
    /// middle of another task's job.
    ///
    /// `body` must be short and must not wait: the loop's thread waits for it.
    public func borrow<Value: Sendable>(_ body: () -> Value) -> Value? {
        if isCurrent { return body() }
        // What this thread has posted comes before what it does now.
        guard !hasMail.load(ordering: .relaxed), ownership.tryTake() else { return nil }
        guard isIdle, !hasMail.load(ordering: .relaxed) else {
            ownership.giveBack()
            return nil
        }
        now = MonotonicClock.now()
        // What the line took was in another's turn.
        laterTook = 0
        let value = body()
        endTurn()
        // The thread decided how long to sleep before all this.
        if isIdle, let deadline = timers.next { poller.hasten(to: deadline) }
        let mustWake = !isIdle && isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        ownership.giveBack()
        if mustWake { poller.wake() }
        return value
    }
}
