import Primitives
import Synchronization

/// A thread that waits for descriptors and timers, and runs Swift tasks in between.
///
/// A loop is a task executor that callers can prefer (`Task(executorPreference: loop)`). Its `serialExecutor` can be
/// the executor of actors. Both run on the same thread, so awaiting a message does not change threads. While that
/// thread sleeps, a caller can run an operation inline on the loop. A loop lives as long as the process, so make a few,
/// not one for each connection.
public final class EventLoop: TaskExecutor, @unchecked Sendable {
    // Unchecked, because the compiler does not see threads. Only the owner, which holds the mutex of `ownership`,
    // touches the mutable state. The exceptions are `mailbox`, which has its own mutex, and the atomics. The loop's
    // thread is the owner except inside `Poller.block()`, which touches none of this state.

    // Exclusivity is unchecked because the owner never starts an access during another one, and every message accesses
    // this state several times. Other modules do not see this attribute, so they use calls for frequent accesses.

    let poller: any Poller
    /// Looks up names in place of the system's resolver.
    let names: (any NameService)?
    /// Makes a queue for work that may block, in place of a thread.
    package let queues: (@Sendable (_ name: String) -> any BlockingQueue)?
    let ownership = LoopLock()
    private let mailbox = Locked<[LoopJob]>([])
    let hasMail = Atomic<Bool>(false)
    let isAsleep = Atomic<Bool>(false)
    /// How long the loop polls before it sleeps, in nanoseconds, or `adaptivePolling`.
    let pollingTime = Atomic<Int64>(0)

    @exclusivity(unchecked) var habit = PollingHabit()
    @exclusivity(unchecked) private var jobs = Deque<LoopJob>()
    @exclusivity(unchecked) private var watched = WatchList()
    @exclusivity(unchecked) private(set) var timers = TimerQueue<() -> Void>()
    @exclusivity(unchecked) private var isFiring = false
    @exclusivity(unchecked) private var lastNumber: UInt64 = 0
    let scheduler = LoopScheduler()
    /// Whether the owner is a caller's thread that runs one operation inline.
    @exclusivity(unchecked) var isInline = false
    /// Calls of user code that are queued for the loop's own thread.
    @exclusivity(unchecked) private var callsOut = Deque<@Sendable () -> Void>()
    @exclusivity(unchecked) var events = Deque<PollEvent>()
    /// The queue for reading and writing files, once somebody needs it. Used on the loop only.
    package var files: (any BlockingQueue)?
    /// The addresses that clients on this loop try last.
    @exclusivity(unchecked) package var failedAddresses = FailedAddresses()
    /// How often the machine has come into another network, as far as supervisors have noticed.
    @exclusivity(unchecked) package var networkChanges = 0
    /// Whether the last poll has reported all events.
    @exclusivity(unchecked) private var hasAllEvents = true
    /// Memory for reading, shared by everything on the loop.
    @exclusivity(unchecked) var scratch = ScratchPool()
    @usableFromInline @exclusivity(unchecked) var tickBegan: Int64 = MonotonicClock.now()
    /// When the current tick or inline operation began, in nanoseconds of ``MonotonicClock``.
    package internal(set) var now: Int64 {
        @inlinable get { tickBegan }
        set { tickBegan = newValue }
    }

    /// The executor of this loop for actors.
    package private(set) lazy var serialExecutor = LoopSerialExecutor(self)

    /// Starts a loop with a thread of its own.
    ///
    /// - Parameter name: the name of the thread, which debuggers show. Linux keeps 15 bytes of it.
    /// - Throws: ``SystemError`` if the system has no descriptors or threads left.
    public convenience init(name: String = "im-loop") throws(SystemError) {
        try self.init(poller: .automatic, name: name)
    }

    /// Starts a loop that waits by a given system call.
    ///
    /// - Parameter names: looks up names in place of the system's resolver; `nil` for the system's.
    package init(
        poller kind: PollerKind,
        name: String = "im-loop",
        names: (any NameService)? = nil
    ) throws(SystemError) {
        poller = try kind.make()
        self.names = names
        queues = nil
        _ = serialExecutor
        try startThread(name) { [self] in
            ownership.take()
            while true { tick() }
        }
    }

    /// Creates a loop without a thread. ``step()`` runs it.
    ///
    /// - Parameter queues: makes a queue for work that may block, in place of a thread.
    package init(
        stepping poller: any Poller,
        names: any NameService,
        queues: (@Sendable (_ name: String) -> any BlockingQueue)? = nil
    ) {
        self.poller = poller
        self.names = names
        self.queues = queues
        pollingTime.store(0, ordering: .relaxed)
        _ = serialExecutor
    }

    /// Whether the caller runs on this loop: on its thread, or inside ``runInlineIfIdle(_:)``.
    ///
    /// A thread runs on one loop at a time. Inside another loop's ``runInlineIfIdle(_:)``, this is `false` for the loop
    /// that the caller came from.
    @usableFromInline package var isCurrent: Bool { ownership.isCurrent }

    // MARK: Work from any thread

    /// Runs `work` on the loop soon, perhaps within the current tick. What must let sockets be read before it is a deferred
    /// handler (``add(_:to:)``) or a timer.
    @usableFromInline package func execute(_ work: @escaping @Sendable () -> Void) {
        enqueue(.work(work))
    }

    /// Runs the job of a task whose preferred executor is this loop.
    ///
    /// - Parameter job: the job.
    public func enqueue(_ job: consuming ExecutorJob) {
        enqueue(.task(UnownedJob(job)))
    }

    func enqueue(_ job: LoopJob) {
        if isCurrent {
            // Jobs that other threads posted earlier run first.
            if hasMail.load(ordering: .relaxed) { collectMail() }
            jobs.append(job)
            return
        }
        mailbox.withLock { $0.append(job) }
        hasMail.store(true, ordering: .sequentiallyConsistent)
        if isAsleep.exchange(false, ordering: .sequentiallyConsistent) { poller.wake() }
    }

    // MARK: Work on the loop

    /// Watches `descriptor` until ``unwatch(_:_:)``, and keeps `handler` alive until then.
    package func watch(
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

    /// Stops watching a descriptor and drops its pending events. Call this before you close the descriptor.
    package func unwatch(_ descriptor: Int32, _ token: UInt64) {
        assertCurrent()
        poller.remove(descriptor, token: token)
        watched.remove(token)
    }

    /// Requests the next edge after a system call returned "would block".
    package func rearm(_ descriptor: Int32, _ token: UInt64, _ readiness: Readiness) {
        poller.rearm(descriptor, token: token, readiness)
    }

    /// Calls `action` on the loop at `deadline`, in nanoseconds of ``MonotonicClock``. A timer that is set while timers
    /// fire runs in a later tick, whatever its deadline, so that descriptors and jobs are processed in between.
    package func schedule(at deadline: Int64, _ action: @escaping () -> Void) -> UInt64 {
        assertCurrent()
        return timers.add(action, at: isFiring ? max(deadline, now + 1) : deadline)
    }

    /// Cancels a timer. Has no effect on a timer that has fired.
    package func cancel(timer: UInt64) {
        assertCurrent()
        timers.cancel(timer)
    }

    /// Returns a number that is unique on the loop. The order of collections that use it as a key does not depend on
    /// addresses, so a simulation runs the same way each time.
    package func newNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Calls user code, such as an observer, on the loop's own thread, in the order of these calls. The code runs now
    /// if the caller is on that thread. It runs in the next tick if the caller runs inline on another thread
    /// (``runInlineIfIdle(_:)``). Call this on the loop.
    package func callOut(_ work: @escaping @Sendable () -> Void) {
        assertCurrent()
        guard isInline || !callsOut.isEmpty else { return work() }
        callsOut.append(work)
        if callsOut.count == 1 { execute { [self] in runCallsOut() } }
    }

    private func runCallsOut() {
        while let work = callsOut.popFirst() { work() }
    }

    /// Traps unless called on the loop, because such a call is a programming error that would race.
    package func assertCurrent() {
        precondition(isCurrent, "called from outside the event loop")
    }

    // MARK: The tick

    func tick() {
        runJobs()
        scheduler.endTick(since: now)
        scheduler.runDeferred { now = $0 }
        scheduler.runHandshake()
        wait()
        collectBeforeTimers()
        if hasMail.load(ordering: .relaxed) { collectMail() }
        while let event = events.popFirst() { watched.handler(event.token)?.ready(event.readiness) }
        fireTimers()
    }

    /// Runs the queued jobs, and the jobs that they add, up to a limit. Tasks on the loop that resume each other would
    /// otherwise keep it from its sockets, and datagrams are dropped when the buffer of a socket is full.
    func runJobs() {
        var budget = 256
        while budget > 0, let job = jobs.popFirst() {
            job.run(on: self)
            budget -= 1
        }
    }

    /// Whether no job and no handler is queued.
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

    /// Runs the timers that are due, within one time budget. Otherwise a thousand handshakes that time out at the same
    /// moment would block all other connections.
    private func fireTimers() {
        guard let next = timers.next, next <= now else { return }
        // `now` does not change meanwhile, so timers that these actions set are not due yet.
        isFiring = true
        var end: Int64 = 0
        while let action = timers.popDue(now) {
            action()
            guard let next = timers.next, next <= now else { break }
            // A timer that fires alone, the usual case, does not read the clock.
            let time = MonotonicClock.now()
            if end == 0 { end = time + LoopScheduler.timeBudget }
            guard time < end else { break }
        }
        isFiring = false
    }
}

extension EventLoop {
    /// Collects events. If there is nothing to do, waits for them; meanwhile callers can run inline on the loop.
    func wait() {
        // Work that was left for the next tick is due now.
        guard isIdle, timers.next.map({ $0 > now }) ?? true else {
            hasAllEvents = poller.wait(until: .min, into: &events)
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
        // A thread that posts after this line sees the flag and wakes the poller. Work that was posted before is seen
        // here.
        waitOnce(until: hasMail.load(ordering: .sequentiallyConsistent) ? .min : timers.next)
        isAsleep.store(false, ordering: .sequentiallyConsistent)
    }

    /// Polls until there is an event or work. Returns `false` if there is none by `end`, or if ``polling`` has changed.
    /// A thread that posts does not need to wake the poller.
    private func poll(until end: Int64, as asked: Int64) -> Bool {
        repeat {
            waitOnce(until: .min)
            let isDue = timers.next.map { $0 <= now } ?? false
            if !events.isEmpty || !isIdle || isDue || hasMail.load(ordering: .relaxed) { return true }
        } while now < end && pollingTime.load(ordering: .relaxed) == asked
        return false
    }

    /// Waits once. Meanwhile callers can run inline on the loop.
    private func waitOnce(until deadline: Int64?) {
        poller.prepare(until: deadline)
        ownership.giveBack()
        poller.block()
        ownership.take()
        hasAllEvents = poller.collect(into: &events)
        now = MonotonicClock.now()
    }

    /// How late a timer must be for another poll before it fires, in nanoseconds.
    private static let lateness: Int64 = 1_000_000

    /// Collects the events that the last poll has not reported, if a timer is due. Most timers end what has not happened
    /// in time. If the process was stopped, it has often happened, and only this loop does not know it yet: the stop
    /// interrupts the poll, or comes between the poll and the reading of the clock.
    private func collectBeforeTimers() {
        guard let next = timers.next, next <= now, !hasAllEvents || now - next >= Self.lateness else { return }
        // Each descriptor is reported once before any is reported again. A call that a signal interrupts reports none.
        let limit = watched.count
        var polls = limit + 2
        repeat {
            hasAllEvents = poller.wait(until: .min, into: &events)
            polls -= 1
        } while !hasAllEvents && polls > 0 && events.count <= limit
    }
}

extension EventLoop {
    /// The loop that transports use by default. It starts at its first use.
    public static let shared: EventLoop = {
        do {
            return try EventLoop(name: "im-shared")
        } catch {
            // Without one descriptor and one thread at first use, no transport can work.
            fatalError("the shared event loop cannot start: \(error)")
        }
    }()
}

extension EventLoop: CustomReflectable {
    /// A mirror without children, because a dump on another thread would read the loop's state while it changes.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
