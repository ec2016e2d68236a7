import CSocketIO

/// The monotonic clock in nanoseconds.
package enum MonotonicClock {
    /// Returns the nanoseconds since an arbitrary point in time. The value never decreases.
    package static func now() -> Int64 {
        csocketio_now()
    }
}
