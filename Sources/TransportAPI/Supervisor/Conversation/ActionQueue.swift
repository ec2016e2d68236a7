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
