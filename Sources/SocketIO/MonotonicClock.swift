import CSocketIO

/// The clock of all timers and time limits, in nanoseconds: `CLOCK_BOOTTIME` on Linux, which also runs while the machine is
/// suspended. For the peer and for each NAT on the path that time passes, too. By `CLOCK_MONOTONIC`, a laptop would use a
/// connection that has been dead for hours until the rest of the keepalive interval is over.
package enum MonotonicClock {
    /// Returns the nanoseconds since an arbitrary point in time. The value never decreases.
    package static func now() -> Int64 {
        csocketio_now()
    }
}
