import Synchronization

extension EventLoop {
    /// Takes note of what has happened. Waits for it, and is lent meanwhile, if there is nothing to do.
    func wait() {
        // What had to wait for the next turn is due already.
        guard isIdle, timers.next.map({ $0 > now }) ?? true else {
            poller.wait(until: .min, into: &events)
            now = MonotonicClock.now()
            return
        }
        let asked = pollingTime.load(ordering: .relaxed)
        guard asked != 0 else { return sleep() }
        let start = MonotonicClock.now()
        let time = asked == Self.adaptivePolling ? habit.pollingTime : asked
        if time == 0 || !poll(until: start + time, as: asked) { sleep() }
        if asked == Self.adaptivePolling { habit.waited(now - start) }
    }

    private func sleep() {
        isAsleep.store(true, ordering: .sequentiallyConsistent)
        // Whoever posts after this line sees the flag and wakes the poller; whoever posted before is seen here.
        waitLent(until: hasMail.load(ordering: .sequentiallyConsistent) ? .min : timers.next)
        isAsleep.store(false, ordering: .sequentiallyConsistent)
    }

    /// Polls until something has happened; `false` if nothing had by `end`, or if ``polling`` is another one by now. Who posts need
    /// not wake it.
    private func poll(until end: Int64, as asked: Int64) -> Bool {
        repeat {
            waitLent(until: .min)
            let isDue = timers.next.map { $0 <= now } ?? false
            if !events.isEmpty || !isIdle || isDue || hasMail.load(ordering: .relaxed) { return true }
        } while now < end && pollingTime.load(ordering: .relaxed) == asked
        return false
    }

    /// One wait during which the loop can be borrowed.
    private func waitLent(until deadline: Int64?) {
        poller.prepare(until: deadline)
        ownership.giveBack()
        poller.block()
        ownership.take()
        poller.collect(into: &events)
        now = MonotonicClock.now()
    }
}
