/// The actions of a machine, performed in order. What an action leads to is performed after all actions before it.
final class ActionQueue {
    /// A machine appends here and calls no other code meanwhile, so that exclusivity is not checked.
    @exclusivity(unchecked) var actions: [SupervisorAction] = []
    private var performed = 0
    private var isPerforming = false

    /// Performs all actions, and those that they lead to.
    ///
    /// - Returns: `false` if it is called from within `perform`, which leaves the work to the outer call.
    func performAll(_ perform: (SupervisorAction) -> Void) -> Bool {
        guard !isPerforming else { return false }
        isPerforming = true
        // Swapped and not copied, which costs less than a retain and a release of what an action holds.
        var action = SupervisorAction.abandon(connection: 0)
        while performed < actions.count {
            swap(&action, &actions[performed])
            performed += 1
            perform(action)
        }
        // There are few actions as a rule, and popping them costs fewer instructions than `removeAll`.
        while actions.popLast() != nil {}
        performed = 0
        isPerforming = false
        return true
    }
}

/// The one timer of a machine.
final class DeadlineTimer {
    private let runtime: any SupervisorRuntime
    private var armed: (timer: UInt64, deadline: Instant)?

    init(on runtime: any SupervisorRuntime) {
        self.runtime = runtime
    }

    /// Sees to it that `action` is called at `deadline` or before. One that comes too early costs a look at the time;
    /// the messages that move the deadline are many more.
    func arm(_ deadline: Instant?, _ action: @escaping () -> Void) {
        if let armed {
            if let deadline, armed.deadline <= deadline { return }
            runtime.cancel(timer: armed.timer)
            self.armed = nil
        }
        guard let deadline else { return }
        let timer = runtime.schedule(at: deadline) { [self] in
            armed = nil
            action()
        }
        armed = (timer, deadline)
    }
}
