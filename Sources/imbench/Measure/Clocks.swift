import TransportAPI

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The clocks that measurements read. All are in nanoseconds.
enum Clocks {
    /// Time since an arbitrary origin that is never set back (CLOCK_MONOTONIC).
    @inline(__always)
    static func monotonic() -> Int64 { read(CLOCK_MONOTONIC) }

    /// Processor time that the calling thread has used, in user and kernel mode.
    @inline(__always)
    static func threadCPU() -> Int64 { read(CLOCK_THREAD_CPUTIME_ID) }

    /// Processor time that all threads of this process have used.
    static func processCPU() -> Int64 { read(CLOCK_PROCESS_CPUTIME_ID) }

    /// The monotonic time as the instant that transports take.
    static func now() -> Instant { Instant(nanoseconds: monotonic()) }

    @inline(__always)
    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    static func secondsSince1970() -> Int64 { Int64(time(nil)) }
}

/// A date as ISO 8601 writes it, in UTC: `2025-01-31T23:59:59Z`.
func iso8601(secondsSince1970 seconds: Int64) -> String {
    var moment = time_t(seconds)
    var parts = tm()
    guard gmtime_r(&moment, &parts) != nil else { return "" }
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
        + "T\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))Z"
}
