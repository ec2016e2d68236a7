/// Told by an ``EventLoop`` that its descriptor is ready. Called on the loop only.
public protocol PollHandler: AnyObject {
    /// The descriptor is ready for `readiness`; an edge, see ``Readiness``.
    func ready(_ readiness: Readiness)
}

/// Told once at the end of the turn in which it asked for it: the place to hand the kernel in one call all that was
/// written during the turn.
public protocol TickEndHandler: AnyObject {
    /// The turn is over; nothing else is ready to run.
    func tickEnded()
}

/// Has something to do that others should not wait for; see ``EventLoop/runAtLowPriority(_:)``.
public protocol LowPriorityHandler: AnyObject {
    /// Nobody who comes first waits any more.
    func runLowPriorityWork()
}

/// Has more to do than fits into its share of a turn, and is called again in a later one; see
/// ``EventLoop/deferToNextTick(_:)``.
public protocol DeferredHandler: AnyObject {
    /// It may go on, for another share.
    func runDeferredWork()
}
