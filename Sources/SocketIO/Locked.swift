/// A value that is protected by a lock of the C library. The standard library's `Mutex` is not used, because the thread
/// sanitizer does not see its lock on Linux and reports races that do not exist.
package final class Locked<Value: ~Copyable>: @unchecked Sendable {
    // Unchecked, because the compiler does not know that `withLock` is the only access to the value. Exclusivity is
    // unchecked, because the lock ensures it.

    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    @usableFromInline @exclusivity(unchecked) var value: Value

    /// Protects `value`, to which the caller keeps no other reference.
    package init(_ value: consuming sending Value) {
        self.value = value
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` with the value while no other thread has access. `body` must neither wait nor take the lock again.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}

extension Locked: CustomReflectable where Value: ~Copyable {
    /// Nothing, because a dump would read the value without the lock.
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
