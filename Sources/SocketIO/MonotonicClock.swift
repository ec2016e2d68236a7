import CSocketIO

/// The monotonic clock, as nanoseconds.
public enum MonotonicClock {
    /// Nanoseconds since an arbitrary point; never goes back.
    public static func now() -> Int64 {
        csocketio_now()
    }
}
