import Primitives
import Synchronization

/// One thread that waits for descriptors and timers and runs Swift tasks in between.
///
/// It is a task executor that callers may prefer (`Task(executorPreference: loop)`), and its ``serialExecutor`` may be
/// the executor of actors; both run on the same thread, so that awaiting a message costs no change of threads. While
/// that thread sleeps, the loop is lent to who needs it (``runInlineIfIdle(_:)``). A loop lives as long as the process:
/// make a few, not one for each connection.
public final class EventLoop: TaskExecutor, @unchecked Sendable {
    // Unchecked, because the compiler can't see threads: all mutable state is touched by the owner alone, who holds the
    // mutex of `ownership`, but for `mailbox` (a mutex of its own) and the atomics. The loop's thread is the owner
    // whenever it is not inside `Poller.block()`, which touches nothing of what is here.

    // The owner never enters it anew in the middle of an access either, and every message passes here several times; hence the
    // unchecked exclusivity. Other modules do not see that it is, so what they use often they get by a call.

    let poller: any Poller
    /// Looks names up in place of the system's resolver.
    let names: (any NameService)?
    let ownership = LoopLock()
    private let mailbox = Locked<[LoopJob]>([])
    let hasMail = Atomic<Bool>(false)
    let isAsleep = Atomic<Bool>(false)
    /// For how long the loop polls before it sleeps, in nanoseconds, or `adaptivePolling`.
    let pollingTime = Atomic<Int64>(0)

    @exclusivity(unchecked) var habit = PollingHabit()
    @exclusivity(unchecked) private var jobs = Deque<LoopJob>()
    @exclusivity(unchecked) private var watched = WatchList()
    @exclusivity(unchecked) private(set) var timers = TimerQueue<() -> Void>()
    @exclusivity(unchecked) private var isFiring = false
    @exclusivity(unchecked) private var lastNumber: UInt64 = 0
    let scheduler = LoopScheduler()
    /// For simulations (``step()``): a tick ends only when no handler is left, and a full connection requests another
    /// flush. Both once were so, and kept a loop busy for ever.
    package var hasEndlessTicks = false
    /// Whether such a tick did not end.
    package var isInEndlessTick = false
    /// Whether the owner is a caller's thread that runs one operation inline.
    @exclusivity(unchecked) var isInline = false
    /// Calls of user code that wait for the loop's own thread.
    @exclusivity(unchecked) private var callsOut = Deque<@Sendable () -> Void>()
    @exclusivity(unchecked) var events = Deque<PollEvent>()
    /// Memory for reading, shared by all that live on the loop.
    @exclusivity(unchecked) var scratch = ScratchPool()
    @usableFromInline @exclusivity(unchecked) var tickBegan: Int64 = MonotonicClock.now()
    /// The time at which the present tick began, or the loop was borrowed, in nanoseconds of ``MonotonicClock``.
    public internal(set) var now: Int64 {
        @inlinable get { tickBegan }
        set { tickBegan = newValue }
    }

    /// The face of this loop that actors take as their executor.
    public private(set) lazy var serialExecutor = LoopSerialExecutor(self)

    /// Starts a loop.
    ///
    /// - Throws: if the system has no descriptors or threads left.
    public init(poller kind: PollerKind = .automatic, name: String = "im-loop") throws(SystemError) {
        poller = try kind.make()
        names = nil
        _ = serialExecutor
        try startThread(name) { [self] in
            ownership.take()
            while true { tick() }
        }
    }

    /// A loop without a thread: ``step()`` runs it.
    package init(stepping poller: any Poller, names: any NameService) {
        self.poller = poller
        self.names = names
        pollingTime.store(0, ordering: .relaxed)
        _ = serialExecutor
    }

    /// Whether the caller runs on this loop: on its thread, or inside of ``runInlineIfIdle(_:)``. A thread runs on one
    /// loop at a time: inside of another loop's ``runInlineIfIdle(_:)``, this is `false` for the loop that the caller
    /// came from.
    public var isCurrent: Bool { ownership.isCurrent }

    // MARK: Work from any thread

    /// Runs `work` on the loop: in this tick if the caller is on the loop, otherwise as soon as it wakes up.
    public func execute(_ work: @escaping @Sendable () -> Void) {
        enqueue(.work(work))
    }

    /// Runs a task's job whose preferred executor is this loop.
    public func enqueue(_ job: consuming ExecutorJob) {
        enqueue(.task(UnownedJob(job)))
    }

    func enqueue(_ job: LoopJob) {
        if isCurrent {
            // What another thread asked for before comes before.
            if hasMail.load(ordering: .relaxed) { collectMail() }
            jobs.append(job)
            return
        }
        mailbox.withLock { $0.append(job) }
        hasMail.store(true, ordering: .sequentiallyConsistent)
        if isAsleep.exchange(false, ordering: .sequentiallyConsistent) { poller.wake() }
    }

    // MARK: Work on the loop

    /// Watches `descriptor` until ``unwatch(_:_:)``; keeps `handler` alive for as long.
    public func watch(
        _ descriptor: Int32,
        for interest: Readiness = [.read, .write],
        _ handler: any PollHandler
    ) throws(SystemError) -> UInt64 {
        assertCurrent()
        let token = watched.add(handler)
        do {
            try poller.add(descriptor, token: token, interest: interest)
        } catch {
            watched.remove(token)
            throw error
        }
        return token
    }

    /// Forgets a descriptor; to be called before it is closed. Reports that are under way are dropped.
    public func unwatch(_ descriptor: Int32, _ token: UInt64) {
        assertCurrent()
        poller.remove(descriptor, token: token)
        watched.remove(token)
    }

    /// Asks for the next edge after a system call said "would block".
    public func rearm(_ descriptor: Int32, _ token: UInt64, _ readiness: Readiness) {
        poller.rearm(descriptor, token: token, readiness)
    }

    /// Calls `action` on the loop at `deadline`, in nanoseconds of ``MonotonicClock``. What a timer sets while it fires comes
    /// in a later tick, whatever its deadline: descriptors and jobs must get theirs.
    public func schedule(at deadline: Int64, _ action: @escaping () -> Void) -> UInt64 {
        assertCurrent()
        return timers.add(action, at: isFiring ? max(deadline, now + 1) : deadline)
    }

    /// Cancels a timer; one that has fired is left alone.
    public func cancel(timer: UInt64) {
        assertCurrent()
        timers.cancel(timer)
    }

    /// A number that nothing else on the loop has. What is kept by it has an order that does not depend on addresses, so that a
    /// simulation runs alike each time.
    package func newNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Calls user code, such as an observer, on the loop's own thread, in the order of these calls: now if the caller
    /// is on that thread, in the next tick if it runs inline on another one (``runInlineIfIdle(_:)``). To be called on
    /// the loop.
    public func callOut(_ work: @escaping @Sendable () -> Void) {
        assertCurrent()
        guard isInline || !callsOut.isEmpty else { return work() }
        callsOut.append(work)
        if callsOut.count == 1 { execute { [self] in runCallsOut() } }
    }

    private func runCallsOut() {
        while let work = callsOut.popFirst() { work() }
    }

    /// Traps if the caller is not on the loop, because that is a mistake in this program that would race.
    public func assertCurrent() {
        precondition(isCurrent, "called from outside the event loop")
    }

    // MARK: The tick

    func tick() {
        runJobs()
        scheduler.endTick(since: now)
        scheduler.runDeferred { now = $0 }
        wait()
        if hasMail.load(ordering: .relaxed) { collectMail() }
        while let event = events.popFirst() { watched.handler(event.token)?.ready(event.readiness) }
        fireTimers()
    }

    /// Runs what waits, and what that adds, up to a bound: descriptors must get their turn.
    func runJobs() {
        var budget = 4096
        while budget > 0, let job = jobs.popFirst() {
            job.run(on: self)
            budget -= 1
        }
    }

    /// Whether no job and no handler waits.
    var isIdle: Bool { jobs.isEmpty && scheduler.isEmpty }

    private func collectMail() {
        hasMail.store(false, ordering: .sequentiallyConsistent)
        let mail = mailbox.withLock { mail in
            let taken = mail
            mail.removeAll(keepingCapacity: false)
            return taken
        }
        for job in mail { jobs.append(job) }
    }

    /// Runs what is due, for a share: a thousand handshakes that are late at the same moment must not hold up everybody else.
    private func fireTimers() {
        guard let next = timers.next, next <= now else { return }
        // The time stands still meanwhile, so that what these set is not due yet.
        isFiring = true
        var end: Int64 = 0
        while let action = timers.popDue(now) {
            action()
            guard let next = timers.next, next <= now else { break }
            // Most have the tick for themselves, and don't look at the clock.
            let time = MonotonicClock.now()
            if end == 0 { end = time + LoopScheduler.timeBudget }
            guard time < end else { break }
        }
        isFiring = false
    }
}

extension EventLoop {
    /// Takes note of what has happened. Waits for it, and is lent meanwhile, if there is nothing to do.
    func wait() {
        // What had to wait for the next tick is due already.
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

    /// Polls until something has happened; `false` if nothing had by `end`, or if ``polling`` is another one by now.
    /// Who posts need not wake it.
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

extension EventLoop {
    /// The loop that transports use when none is named.
    public static let shared: EventLoop = {
        do {
            return try EventLoop(name: "im-shared")
        } catch {
            // Without one descriptor and one thread at the first use, no transport can do anything.
            fatalError("the shared event loop can't start: \(error)")
        }
    }()
}
