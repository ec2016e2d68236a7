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
