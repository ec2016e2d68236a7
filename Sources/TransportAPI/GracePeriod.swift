/// Decides whether a silent peer gets more time because this side has not run: its process was stopped, or the machine
/// was suspended. The peer's answer may still be in flight then.
///
/// More time is given once. Only after bytes have been received, it is given again. So a process that is always late
/// still detects that a peer is dead.
package struct GracePeriod: Sendable, Hashable {
    /// The lateness that shows that this side has not run.
    package static let lateness: Duration = .milliseconds(100)

    private var givenAt: Instant?

    /// Creates a period that was not given yet.
    package init() {}

    /// Returns whether a deadline is checked so late that this side has not run.
    package static func isLate(_ deadline: Instant, at now: Instant) -> Bool {
        deadline.advanced(by: lateness) <= now
    }

    /// Returns whether the peer gets more time, and records that.
    ///
    /// - Parameters:
    ///   - deadline: When the check that takes place now was due.
    ///   - lastReceived: When bytes were last received.
    package mutating func give(_ deadline: Instant, lastReceived: Instant, at now: Instant) -> Bool {
        guard Self.isLate(deadline, at: now), givenAt.map({ $0 <= lastReceived }) ?? true else { return false }
        givenAt = now
        return true
    }
}
