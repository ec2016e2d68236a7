/// A value behind a lock of the C library. (The standard library's `Mutex` would serve as well, but the thread sanitizer
/// does not see it lock on Linux and reports races where there are none.)
package final class Locked<Value: ~Copyable>: @unchecked Sendable {
    // Unchecked, because the compiler can't see that `withLock` is the only way to the value; and so is its exclusivity, which
    // the lock sees to.

    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    @usableFromInline @exclusivity(unchecked) var value: Value

    /// Puts `value`, which nobody else may hold, behind a lock.
    package init(_ value: consuming sending Value) {
        self.value = value
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Gives `body` the value, and nobody else until it returns. It must neither wait nor take the lock again.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
