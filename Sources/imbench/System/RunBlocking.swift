import SocketIO

/// A loop with a thread of its own.
func makeLoop(_ name: String) throws(SystemFailure) -> EventLoop {
    do throws(SystemError) {
        return try EventLoop(name: name)
    } catch {
        throw SystemFailure("\(error)")
    }
}

/// Runs asynchronous work on `loop` while the calling thread, which is no loop's, waits for it.
func runBlocking<Value: Sendable>(
    on loop: EventLoop,
    _ body: @escaping @Sendable () async -> Value
) -> Value {
    let box = ResultBox<Value>()
    Task(executorPreference: loop) { box.give(await body()) }
    return box.wait()
}

/// Hands one value from one thread to another that sleeps until it comes.
private final class ResultBox<Value: Sendable>: Sendable {
    private let value = Locked<Value?>(nil)
    private let done: Signal

    init() {
        done = Signal()
    }

    func give(_ value: Value) {
        self.value.withLock { $0 = value }
        done.raise()
    }

    func wait() -> Value {
        while true {
            done.wait()
            if let value = value.withLock({ $0 }) { return value }
        }
    }
}

/// A condition that is raised once, over the C library's mutex and condition variable.
private final class Signal: @unchecked Sendable {
    // Unchecked, because all access to `isRaised` is under `mutex`, which the compiler can't see.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var isRaised = false

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

    func raise() {
        pthread_mutex_lock(mutex)
        isRaised = true
        pthread_cond_signal(condition)
        pthread_mutex_unlock(mutex)
    }

    func wait() {
        pthread_mutex_lock(mutex)
        while !isRaised { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }
}
