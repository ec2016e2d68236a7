import CSocketIO

/// The monotonic clock, as nanoseconds.
package enum MonotonicClock {
    /// Nanoseconds since an arbitrary point; never goes back.
    package static func now() -> Int64 {
        csocketio_now()
    }
}
