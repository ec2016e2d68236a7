import Primitives

/// What a descriptor is ready for.
public struct Readiness: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt8

    /// A set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Reading will give bytes, a connection, an error, or the end.
    public static let read = Readiness(rawValue: 1)
    /// Writing will take bytes or give an error.
    public static let write = Readiness(rawValue: 2)
    /// The peer has closed its half, or the connection broke: read on until the end even after a short read.
    public static let hangUp = Readiness(rawValue: 4)
}

/// One report of a poller.
package struct PollEvent {
    var token: UInt64
    var readiness: Readiness

    /// A report for the descriptor that was added with `token`.
    package init(token: UInt64, readiness: Readiness) {
        self.token = token
        self.readiness = readiness
    }
}

/// Waits for many descriptors at once. A descriptor is added once, for reading and writing, and stays until it is removed.
///
/// Readiness is reported on its edge: having been told that a descriptor is ready, the owner works until the system says
/// "would block", and then calls ``rearm(_:_:)``; until it does, the poller owes it no further report. (epoll works so by
/// itself and ignores `rearm`; poll(2) gets its interest from it.)
///
/// A wait is in three parts, because a loop that waits is lent to others: its own thread calls them, one after the other, and
/// while it is in ``block()`` whoever has borrowed the loop calls the rest.
package protocol Poller: AnyObject {
    /// Watches `descriptor` for `interest`; its events carry `token`. What is not in the interest is watched for once,
    /// whenever it is re-armed.
    func add(_ descriptor: Int32, token: UInt64, interest: Readiness) throws(SystemError)
    /// Forgets `descriptor`. To be called before it is closed.
    func remove(_ descriptor: Int32, token: UInt64)
    /// The owner has met "would block" and wants to hear of the next edge.
    func rearm(_ descriptor: Int32, token: UInt64, _ readiness: Readiness)
    /// Makes ready for one ``block()``, which is to end when `deadline` has come, in nanoseconds of ``MonotonicClock``
    /// (`nil`: when something happens; `.min`: at once).
    func prepare(until deadline: Int64?)
    /// Waits until something happens, or the time has come that ``prepare(until:)`` was given. May end early. Touches
    /// nothing that the other members touch while it waits, so that another thread may call those; what they change
    /// counts for this wait.
    func block()
    /// Appends what has happened by the end of ``block()``. What was removed meanwhile may be among it, under its old token.
    func collect(into events: inout Deque<PollEvent>)
    /// Somebody who blocks now is to wake at `deadline` if that comes before the time that he was given.
    func lowerDeadline(to deadline: Int64)
    /// Ends a ``block()`` early. May be called from any thread at any time; the only member that may.
    func wake()
}

extension Poller {
    /// Waits until something happens or `deadline` has come, and appends what happened. May return early.
    func wait(until deadline: Int64?, into events: inout Deque<PollEvent>) {
        prepare(until: deadline)
        block()
        collect(into: &events)
    }
}

/// Which poller an ``EventLoop`` uses.
public enum PollerKind: String, Sendable, CaseIterable {
    /// The best that the system has.
    case automatic
    /// poll(2), which every system has.
    case portable

    func make() throws(SystemError) -> any Poller {
        #if os(Linux)
        if self == .automatic { return try EpollPoller() }
        #endif
        return try PortablePoller()
    }
}
