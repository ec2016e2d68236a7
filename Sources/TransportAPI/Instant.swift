/// A point on the monotonic clock, in nanoseconds since an arbitrary origin.
///
/// Protocol cores and the supervisor take the time as an argument and never read a clock, so that a test can run them
/// for a million simulated hours. Drivers take the time from `CLOCK_BOOTTIME` on Linux, which also runs while the machine
/// is suspended.
public struct Instant: InstantProtocol, Sendable, Hashable {
    /// Nanoseconds since the clock's origin.
    public var nanoseconds: Int64

    /// Creates an instant that is `nanoseconds` after the clock's origin.
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// The origin of the clock, where simulations usually start.
    public static let zero = Instant(nanoseconds: 0)

    /// Returns this instant moved by `duration`. Saturates at the ends of the clock instead of overflowing.
    public func advanced(by duration: Duration) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
        guard overflow else { return Instant(nanoseconds: sum) }
        return Instant(nanoseconds: duration < .zero ? .min : .max)
    }

    /// Returns the time from this instant to `other`; negative if `other` is earlier.
    public func duration(to other: Instant) -> Duration {
        let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(nanoseconds)
        guard overflow else { return .nanoseconds(difference) }
        return .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
    }

    /// Orders instants by time.
    public static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

/// Returns the earlier of two optional instants, or `nil` if both are `nil`.
package func earlier(_ one: Instant?, _ other: Instant?) -> Instant? {
    guard let one, let other else { return one ?? other }
    return min(one, other)
}

extension Duration {
    /// The duration in nanoseconds, rounded toward zero; saturated at about ±292 years.
    public var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        guard overflow || carry else { return sum }
        return seconds < 0 ? .min : .max
    }
}
