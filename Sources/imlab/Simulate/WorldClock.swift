import Primitives

/// The time of a world, and the events that are planned in it.
struct WorldClock {
    /// The next thing that happens.
    enum Step {
        case event(SimulatedEvent)
        /// A timer of a machine. `isStuck` after more than 50 timers in a row without any progress of time.
        case timer(isStuck: Bool)
        /// There were more steps than any world needs.
        case endless
        case nothing
    }

    private(set) var now: Int64 = 0
    /// How many events and timers there were.
    private(set) var events = 0
    private var queue = TimerQueue<SimulatedEvent>()
    /// Consecutive timers at the same time.
    private var idleTicks = 0

    /// The time of the next event.
    var next: Int64? { queue.next }

    mutating func add(_ event: SimulatedEvent, at time: Int64) { queue.add(event, at: time) }

    /// Advances to the next event, or to the next timer of a machine.
    mutating func step(to timer: Int64?) -> Step {
        events += 1
        guard events < 40_000 else { return .endless }
        if let next = queue.next, timer.map({ next <= $0 }) ?? true, let event = queue.popFirst() {
            if next > now { idleTicks = 0 }
            now = max(now, next)
            return .event(event)
        }
        guard let timer else { return .nothing }
        if timer > now { idleTicks = 0 } else { idleTicks += 1 }
        now = max(now, timer)
        return .timer(isStuck: idleTicks > 50)
    }
}

/// The events of a world, and the first rule that was broken.
struct WorldRecord {
    var log: EventLog
    private(set) var violation: Violation?

    init(isVerbose: Bool) { log = EventLog(isVerbose: isVerbose) }

    mutating func fail(_ found: Violation, at now: Int64) {
        guard violation == nil else { return }
        violation = found
        log.write(now, "VIOLATION of \(found.rule): \(found.text)")
    }
}
