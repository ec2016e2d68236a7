import Primitives

/// A thread for work that may block, such as writes to a disk. It runs one piece at a time, in order, and ends after the
/// last piece once nothing refers to this object.
package final class BlockingThread: BlockingQueue {
    /// What the thread and its owner share.
    private final class Shared: @unchecked Sendable {
        // Unchecked, because `work` and `isOver` are only accessed under the lock.

        private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
        private var work = Deque<@Sendable () -> Void>()
        private var isOver = false

        init() {
            mutex.initialize(to: pthread_mutex_t())
            condition.initialize(to: pthread_cond_t())
            pthread_mutex_init(mutex, nil)
            pthread_cond_init(condition, nil)
        }

        deinit {
            pthread_cond_destroy(condition)
            pthread_mutex_destroy(mutex)
            condition.deallocate()
            mutex.deallocate()
        }

        func add(_ piece: (@Sendable () -> Void)?) {
            pthread_mutex_lock(mutex)
            if let piece { work.append(piece) } else { isOver = true }
            pthread_cond_signal(condition)
            pthread_mutex_unlock(mutex)
        }

        /// Waits for the next piece; `nil` after the last one.
        func next() -> (@Sendable () -> Void)? {
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            while work.isEmpty, !isOver { pthread_cond_wait(condition, mutex) }
            return work.popFirst()
        }
    }

    private let shared = Shared()

    /// Starts the thread.
    ///
    /// - Throws: The error of the system if it has no thread left.
    package init(_ name: String) throws(SystemError) {
        try startThread(name) { [shared] in
            while let piece = shared.next() { piece() }
        }
    }

    deinit { shared.add(nil) }

    /// Adds a piece of work at the end.
    package func run(_ work: @escaping @Sendable () -> Void) { shared.add(work) }
}
