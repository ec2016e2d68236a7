import Foundation
import SocketIO
import TransportAPI

/// The clocks of this program. Those of measurements are in nanoseconds.
package enum Clocks {
    /// Time since an arbitrary origin that is never set back. It is the clock of the event loops.
    @inline(__always)
    package static func monotonic() -> Int64 { MonotonicClock.now() }

    /// Processor time that the calling thread has used, in user and kernel mode.
    @inline(__always)
    package static func threadCPU() -> Int64 { read(CLOCK_THREAD_CPUTIME_ID) }

    /// Processor time that all threads of a process have used; `nil` if the system does not tell.
    package static func processCPU(_ process: pid_t) -> Int64? {
        #if os(Linux)
        var clock = clockid_t()
        guard clock_getcpuclockid(process, &clock) == 0 else { return nil }
        let time = read(clock)
        return time > 0 ? time : nil
        #else
        return nil
        #endif
    }

    /// The monotonic time as the instant that transports take.
    package static func now() -> Instant { Instant(nanoseconds: monotonic()) }

    /// The time of the calendar, in milliseconds since the Unix epoch.
    package static func milliseconds() -> Int64 { read(CLOCK_REALTIME) / 1_000_000 }

    @inline(__always)
    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
