import Primitives

/// When a loop runs a handler.
package enum LoopQueue: UInt8, Sendable {
    /// At the end of the tick. Handlers pass the output that was written during the tick to the kernel in one call
    /// here.
    case tickEnd = 1
    /// After the end of the tick, for work that no other connection waits for, such as a message for many connections.
    case lowPriority = 2
    /// In the next tick, after everything that is ready then. For the rest of work that has exceeded its time budget.
    case deferred = 4
    /// After everything else, one handler in each tick. For the steps of TLS handshakes, which take long.
    case handshake = 8
}

/// Work that a loop runs later; see ``EventLoop/add(_:to:)``.
package protocol ScheduledHandler: AnyObject {
    /// The queues that the handler is in. The loop maintains this value; a handler only stores it.
    var schedule: ScheduleEntry { get set }
    /// Runs the work that the handler was added to `queue` for. To run again, the handler adds itself again.
    func run(_ queue: LoopQueue)
}

/// The queues of a loop that a handler is in, and those for which it is still to be called.
package struct ScheduleEntry: Sendable {
    private var queued: UInt8 = 0
    private var wanted: UInt8 = 0

    /// An entry in no queue.
    package init() {}

    /// Whether the handler is to be called for `queue`.
    package func contains(_ queue: LoopQueue) -> Bool { wanted & queue.rawValue != 0 }

    /// Removes the handler from `queue`. It keeps its place in case it is added again soon.
    package mutating func remove(_ queue: LoopQueue) { wanted &= ~queue.rawValue }

    /// Marks the handler as wanted in `queue`. Returns whether it had no place in the queue before.
    fileprivate mutating func insert(_ queue: LoopQueue) -> Bool {
        wanted |= queue.rawValue
        defer { queued |= queue.rawValue }
        return queued & queue.rawValue == 0
    }

    /// Removes the handler's place in `queue`. Returns whether the handler is to be called.
    fileprivate mutating func take(_ queue: LoopQueue) -> Bool {
        defer {
            wanted &= ~queue.rawValue
            queued &= ~queue.rawValue
        }
        return contains(queue)
    }
}

/// Divides the time of a loop between its handlers. One loop serves many connections, and none may block the others for
/// long.
///
/// - A handler is called once for each queue that it was added to, however often it was added.
/// - Each queue is run in one pass over the handlers that are in it when the pass begins. A handler that adds itself
///   again while it runs is called in the next tick, because descriptors, timers and jobs are processed in between.
/// - Each pass has a time budget. Handlers that exceed it are called in the next tick, in their order.
/// - Deferred handlers share one budget (``deferredEnd``). It is smaller while low-priority handlers are queued,
///   because queued messages are sent before more is read from busy connections.
/// - One step of a handshake runs in each tick, after everything else. So a thousand clients that connect at once do not
///   delay open connections by more than one step.
/// - Low-priority handlers get as much time as the rest of the tick has taken, and at least one budget.
final class LoopScheduler {
    /// The time budget of one handler, and of all deferred handlers of a tick together, in nanoseconds.
    static let timeBudget: Int64 = 50_000
    /// The budget of the deferred handlers while low-priority handlers wait, in nanoseconds.
    static let budgetBesideLowPriority: Int64 = 12_500
    /// How long the handlers at the end of a tick may take together, in nanoseconds.
    static let tickEndBudget: Int64 = 2_000_000
    /// How many handlers are called at the end of a tick before the clock is read.
    static let handlersBetweenClockReads = 32

    // Unchecked exclusivity, because no handler runs during an access.
    @exclusivity(unchecked) private var tickEnd = Deque<any ScheduledHandler>()
    @exclusivity(unchecked) private var lowPriority = Deque<any ScheduledHandler>()
    @exclusivity(unchecked) private var deferred = Deque<any ScheduledHandler>()
    @exclusivity(unchecked) private var handshakes = Deque<any ScheduledHandler>()
    /// When the budget of the running deferred handlers ends, in nanoseconds. 0 while none runs.
    @exclusivity(unchecked) private(set) var deferredEnd: Int64 = 0
    /// How long the deferred handlers of this tick took, in nanoseconds.
    @exclusivity(unchecked) private var deferredTime: Int64 = 0
    /// How many handlers are queued, in all queues. It is asked for in each tick, and cheaper than their counts.
    @exclusivity(unchecked) private var count = 0
    private let clock: () -> Int64

    init(clock: @escaping () -> Int64 = MonotonicClock.now) {
        self.clock = clock
    }

    /// Whether no handler is queued.
    var isEmpty: Bool { count == 0 }

    /// How many low-priority handlers are queued.
    var lowPriorityCount: Int { lowPriority.count }

    /// When a handler that begins now should stop. A deferred handler stops at the end of the shared budget, any other
    /// handler after one budget.
    var budgetEnd: Int64 { deferredEnd != 0 ? deferredEnd : clock() + Self.timeBudget }

    func add(_ handler: any ScheduledHandler, to queue: LoopQueue) {
        guard handler.schedule.insert(queue) else { return }
        count += 1
        switch queue {
        case .tickEnd: tickEnd.append(handler)
        case .lowPriority: lowPriority.append(handler)
        case .deferred: deferred.append(handler)
        case .handshake: handshakes.append(handler)
        }
    }

    /// Runs the queued handlers for the end of the tick, and then low-priority handlers.
    ///
    /// - Parameter start: When the tick began.
    func endTick(since start: Int64) {
        var left = tickEnd.count
        // Usually there are few handlers, and the clock is not read.
        let end = left > Self.handlersBetweenClockReads ? clock() + Self.tickEndBudget : .max
        while left > 0, let handler = tickEnd.popFirst() {
            call(handler, .tickEnd)
            left -= 1
            if end != .max, left % Self.handlersBetweenClockReads == 0, clock() >= end { break }
        }
        guard !lowPriority.isEmpty else { return }
        left = lowPriority.count
        let begin = clock()
        let due = begin + max(Self.timeBudget, deferredTime + begin - start)
        repeat {
            if let handler = lowPriority.popFirst() { call(handler, .lowPriority) }
            left -= 1
        } while left > 0 && clock() < due
    }

    /// Runs the deferred handlers. Output of this tick has been passed to the kernel before.
    ///
    /// - Parameter timeChanged: Called with the time before each handler.
    func runDeferred(_ timeChanged: (Int64) -> Void) {
        deferredTime = 0
        guard !deferred.isEmpty else { return }
        let start = clock()
        var now = start
        deferredEnd = start + (lowPriority.isEmpty ? Self.timeBudget : Self.budgetBesideLowPriority)
        var left = deferred.count
        timeChanged(now)
        while left > 0, now < deferredEnd, let handler = deferred.popFirst() {
            call(handler, .deferred)
            left -= 1
            now = clock()
            timeChanged(now)
        }
        deferredEnd = 0
        deferredTime = now - start
    }

    /// Runs one of the queued steps of handshakes.
    func runHandshake() {
        if let handler = handshakes.popFirst() { call(handler, .handshake) }
    }

    /// Prepares for one operation and one end of a tick on a caller's thread. The time of deferred handlers belongs to
    /// an earlier tick.
    func beginInline() {
        deferredTime = 0
    }

    /// Calls a handler that was removed from `queue`.
    private func call(_ handler: any ScheduledHandler, _ queue: LoopQueue) {
        count -= 1
        if handler.schedule.take(queue) { handler.run(queue) }
    }
}

extension EventLoop {
    /// Calls `handler` once, when the loop runs `queue`. Call this on the loop.
    package func add(_ handler: any ScheduledHandler, to queue: LoopQueue) {
        scheduler.add(handler, to: queue)
    }

    /// Calls `handler` now if it is in `queue`, and not again until it is added again. For tests that do not wait for a
    /// tick.
    package func runNow(_ handler: any ScheduledHandler, for queue: LoopQueue) {
        guard handler.schedule.contains(queue) else { return }
        handler.schedule.remove(queue)
        handler.run(queue)
    }

    /// How many low-priority handlers are queued.
    package var lowPriorityCount: Int { scheduler.lowPriorityCount }

    /// The time budget of one handler, in nanoseconds.
    package static var timeBudget: Int64 { LoopScheduler.timeBudget }

    /// When the deferred handlers that run now should stop, in nanoseconds of ``MonotonicClock``. 0 while none runs.
    package var deferredEnd: Int64 { scheduler.deferredEnd }

    /// When a handler that begins now should stop, in nanoseconds of ``MonotonicClock``.
    package var budgetEnd: Int64 { scheduler.budgetEnd }
}
