/// The actions of a state machine, performed in order. An action that another action causes is performed after all
/// actions before it.
final class ActionQueue {
    /// The machine appends here and calls no other code meanwhile, so exclusivity is not checked.
    @exclusivity(unchecked) var actions: [SupervisorAction] = []
    private var performed = 0
    private var isPerforming = false

    /// Performs all actions, and those that they cause.
    ///
    /// - Returns: `false` if it is called from within `perform`. The outer call does the work then.
    func performAll(_ perform: (SupervisorAction) -> Void) -> Bool {
        guard !isPerforming else { return false }
        isPerforming = true
        // Swapped and not copied, because that costs less than a retain and a release of the action's payload.
        var action = SupervisorAction.abandon(connection: 0)
        while performed < actions.count {
            swap(&action, &actions[performed])
            performed += 1
            perform(action)
        }
        // Usually there are few actions, and popping them costs fewer instructions than `removeAll`.
        while actions.popLast() != nil {}
        performed = 0
        isPerforming = false
        return true
    }
}

/// The single timer of a state machine.
final class DeadlineTimer {
    private let runtime: any SupervisorRuntime
    private var armed: (timer: UInt64, deadline: Instant)?

    init(on runtime: any SupervisorRuntime) {
        self.runtime = runtime
    }

    /// Calls `action` at `deadline` or before. A call that comes too early only costs a reading of the clock. Messages,
    /// which move the deadline, are much more frequent.
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
