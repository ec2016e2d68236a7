import SocketIO
import TransportAPI

/// Calls a function on a thread of its own, a fixed time after the first request since the last call. The thread waits
/// without using the processor, and ends with ``stop()``.
final class BackgroundSync: Sendable {
    /// Unchecked, because the mutex protects the variables, and both C objects stay at their addresses.
    private final class Shared: @unchecked Sendable {
        let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
        /// The time of the next call; `nil` without a request.
        var due: Int64?
        var isStopped = false

        init() {
            mutex.initialize(to: pthread_mutex_t())
            pthread_mutex_init(mutex, nil)
            condition.initialize(to: pthread_cond_t())
            #if canImport(Darwin)
            pthread_cond_init(condition, nil)
            #else
            var attributes = pthread_condattr_t()
            pthread_condattr_init(&attributes)
            // The clock of the calendar may be set while the thread waits.
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
            pthread_cond_init(condition, &attributes)
            pthread_condattr_destroy(&attributes)
            #endif
        }

        deinit {
            pthread_cond_destroy(condition)
            condition.deallocate()
            pthread_mutex_destroy(mutex)
            mutex.deallocate()
        }

        /// Waits for the next request and its time. Returns `false` once it is stopped.
        func waitUntilDue() -> Bool {
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            while !isStopped {
                guard let due else {
                    pthread_cond_wait(condition, mutex)
                    continue
                }
                let left = due - Self.now()
                if left <= 0 {
                    self.due = nil
                    return true
                }
                wait(left)
            }
            return false
        }

        private func wait(_ nanoseconds: Int64) {
            #if canImport(Darwin)
            var time = Self.timespec(nanoseconds)
            pthread_cond_timedwait_relative_np(condition, mutex, &time)
            #else
            var time = Self.timespec(Self.now() + nanoseconds)
            pthread_cond_timedwait(condition, mutex, &time)
            #endif
        }

        static func now() -> Int64 {
            var time = SocketIO.timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
        }

        private static func timespec(_ nanoseconds: Int64) -> timespec {
            SocketIO.timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        }
    }

    private let shared = Shared()
    private let interval: Int64

    /// Starts the thread. The interval is limited to 1 ms up to 1 h.
    init(every interval: Duration, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
        let interval = min(max(interval, .milliseconds(1)), .seconds(3600))
        self.interval = interval.components.seconds * 1_000_000_000 + interval.components.attoseconds / 1_000_000_000
        let shared = shared
        try startThread("im-store") { while shared.waitUntilDue() { body() } }
    }

    deinit { stop() }

    /// Requests a call. Does nothing if one is due already.
    func request() {
        pthread_mutex_lock(shared.mutex)
        defer { pthread_mutex_unlock(shared.mutex) }
        guard shared.due == nil else { return }
        shared.due = Shared.now() + interval
        pthread_cond_signal(shared.condition)
    }

    /// Ends the thread. A call that has begun may still run.
    func stop() {
        pthread_mutex_lock(shared.mutex)
        defer { pthread_mutex_unlock(shared.mutex) }
        shared.isStopped = true
        pthread_cond_signal(shared.condition)
    }
}
