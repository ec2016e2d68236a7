import Primitives

/// The operations that a descriptor is ready for.
package struct Readiness: OptionSet, Sendable {
    /// The bits of the set.
    package let rawValue: UInt8

    /// Creates a set from its bits.
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Reading returns bytes, a connection, an error, or the end.
    package static let read = Readiness(rawValue: 1)
    /// Writing takes bytes or returns an error.
    package static let write = Readiness(rawValue: 2)
    /// The peer has closed its half, or the connection broke. Read until the end, even after a short read.
    package static let hangUp = Readiness(rawValue: 4)
}

/// One readiness event from a poller.
package struct PollEvent {
    var token: UInt64
    var readiness: Readiness

    /// Creates an event for the descriptor that was added with `token`.
    package init(token: UInt64, readiness: Readiness) {
        self.token = token
        self.readiness = readiness
    }
}

/// Waits for many descriptors at once. A descriptor is added once, for reading and writing, and stays until it is
/// removed.
///
/// Readiness is reported on its edge. After an event, the owner works until the system returns "would block", and then
/// calls ``rearm(_:_:)``. Until then, the poller does not have to report again. epoll reports edges itself, and needs
/// `rearm` only for readiness outside a descriptor's interest. poll(2) takes its interest from it.
///
/// A wait has three parts, so that callers can run inline on a loop that waits. The loop's thread calls the parts in
/// order. While it is in ``block()``, a thread that runs inline on the loop may call the other members.
package protocol Poller: AnyObject {
    /// Watches `descriptor` for `interest`. Its events carry `token`. Readiness outside the interest is watched for
    /// once, whenever it is re-armed.
    func add(_ descriptor: Int32, token: UInt64, interest: Readiness) throws(SystemError)
    /// Stops watching `descriptor`. Call this before you close it.
    func remove(_ descriptor: Int32, token: UInt64)
    /// Requests the next edge, after the owner got "would block".
    func rearm(_ descriptor: Int32, token: UInt64, _ readiness: Readiness)
    /// Prepares one ``block()``, which ends at `deadline`, in nanoseconds of ``MonotonicClock``. `nil` means that only
    /// an event ends it, `.min` that it ends at once.
    func prepare(until deadline: Int64?)
    /// Waits until there is an event or the deadline of ``prepare(until:)``. May end early. While it waits, it touches
    /// nothing that the other members touch, so another thread may call those. Their changes apply to this wait.
    func block()
    /// Appends the events up to the end of ``block()``. They can include a descriptor that was removed meanwhile, under
    /// its old token.
    ///
    /// - Returns: Whether all events were reported. They were not if there was no room for more, or if a signal has
    ///   interrupted the wait, as after SIGSTOP and SIGCONT (signal(7)).
    func collect(into events: inout Deque<PollEvent>) -> Bool
    /// Makes the current ``block()`` end at `deadline` if that is before its own deadline.
    func lowerDeadline(to deadline: Int64)
    /// Ends a ``block()`` early. This is the only member that any thread may call at any time.
    func wake()
}

extension Poller {
    /// Waits until there is an event or `deadline`, and appends the events. May return early.
    ///
    /// - Returns: Whether all events were reported, as ``collect(into:)`` does.
    @discardableResult
    func wait(until deadline: Int64?, into events: inout Deque<PollEvent>) -> Bool {
        prepare(until: deadline)
        block()
        return collect(into: &events)
    }
}

/// The poller that an ``EventLoop`` uses.
package enum PollerKind: String, Sendable, CaseIterable {
    /// The best poller of the system.
    case automatic
    /// poll(2), which exists on every system.
    case portable

    func make() throws(SystemError) -> any Poller {
        #if os(Linux)
        if self == .automatic { return try EpollPoller() }
        #endif
        return try PortablePoller()
    }
}
