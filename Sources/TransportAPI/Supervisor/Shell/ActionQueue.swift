/// What a machine has asked for, done in order: what an action leads to comes after all that was asked for before.
final class ActionQueue {
    /// A machine appends here, and calls nobody meanwhile, so that exclusivity is not checked.
    @exclusivity(unchecked) var actions: [SupervisorAction] = []
    private var performed = 0
    private(set) var isPerforming = false

    /// Performs all actions and those that they lead to. Called again from within, it leaves the work to the call that is under
    /// way.
    func performAll(_ perform: (SupervisorAction) -> Void) {
        guard !isPerforming else { return }
        isPerforming = true
        while performed < actions.count {
            let action = actions[performed]
            performed += 1
            perform(action)
        }
        actions.removeAll(keepingCapacity: true)
        performed = 0
        isPerforming = false
    }

    /// Does something that needs no place in the queue, because nothing is under way, and then what it leads to.
    func performAll(behind work: () -> Void, _ perform: (SupervisorAction) -> Void) {
        isPerforming = true
        work()
        isPerforming = false
        if !actions.isEmpty { performAll(perform) }
    }
}

/// The one timer of a machine.
final class DeadlineTimer {
    private let runtime: any SupervisorRuntime
    private var armed: (timer: UInt64, deadline: Instant)?

    init(on runtime: any SupervisorRuntime) {
        self.runtime = runtime
    }

    /// Sees to it that `action` is called at `deadline` or before. One that comes too early costs a look at the time; the messages
    /// that move the deadline are many more.
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
