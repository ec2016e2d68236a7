import Synchronization

extension EventLoop {
    /// Lets the loop poll for so long before it sleeps, each time, instead of sleeping at once: what comes meanwhile finds it
    /// awake, and neither waits for the system to wake a thread nor for a core to leave its sleep. That costs a core: up to all of
    /// its time, while nothing happens for `time`. Zero, which is the default, never polls. May be called from any thread.
    ///
    /// - Parameter time: from when the loop has nothing to do; negative counts as zero, more than an hour as an hour.
    public func pollBusily(for time: Duration) {
        let bounded = min(max(time, .zero), .seconds(3600))
        let (seconds, attoseconds) = bounded.components
        busyTime.store(seconds * 1_000_000_000 + attoseconds / 1_000_000_000, ordering: .relaxed)
    }

    /// Takes note of what has happened. Waits for it, and is lent meanwhile, if there is nothing to do.
    func wait() {
        // What had to wait for the next turn is due already.
        guard isIdle, timers.next.map({ $0 > now }) ?? true else {
            poller.wait(until: .min, into: &events)
            now = MonotonicClock.now()
            return
        }
        let busyTime = busyTime.load(ordering: .relaxed)
        if busyTime > 0, pollBusily(until: MonotonicClock.now() + busyTime) { return }
        isAsleep.store(true, ordering: .sequentiallyConsistent)
        // Whoever posts after this line sees the flag and wakes the poller; whoever posted before is seen here.
        waitLent(until: hasMail.load(ordering: .sequentiallyConsistent) ? .min : timers.next)
        isAsleep.store(false, ordering: .sequentiallyConsistent)
    }

    /// Polls until something has happened; `false` if nothing had by `end`. Who posts need not wake it.
    private func pollBusily(until end: Int64) -> Bool {
        repeat {
            waitLent(until: .min)
            let isDue = timers.next.map { $0 <= now } ?? false
            if !events.isEmpty || !isIdle || isDue || hasMail.load(ordering: .relaxed) { return true }
        } while now < end
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
