import CSocketIO
import Synchronization

/// Which thread runs a loop now: its own thread, or, while that sleeps, a caller's thread that runs one operation
/// inline. Only the owner touches the state on the loop.
///
/// - The owner holds a mutex. A caller's thread only tries it, so two loops can't deadlock.
/// - A thread is current on one loop at a time, which is the one whose ownership it took last. A loop's thread that
///   runs an operation inline on another loop is not current on its own loop until it has given the other one back.
struct LoopLock: ~Copyable, @unchecked Sendable {
    // Unchecked, because the pointer refers to a mutex, which threads may share. It is the C library's mutex because
    // the thread sanitizer recognizes it.

    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    /// Whether a thread holds the mutex. This is only a hint, because the mutex decides.
    private let isTaken = Atomic<Bool>(false)
    /// The loop's thread is awake and waits for a caller's thread to finish. Without this flag, a caller that repeats
    /// its attempts could take the mutex each time before the loop's thread has woken up.
    private let isWanted = Atomic<Bool>(false)

    init() {
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// The loop that a thread is current on, identified by the address of its mutex.
    typealias Current = UnsafeMutableRawPointer

    /// Whether the calling thread is the owner and has not become the owner of another loop since.
    var isCurrent: Bool { csocketio_current_loop() == Current(mutex) }

    /// Makes the calling thread the owner. Waits for the current owner, if there is one. For the loop's thread.
    func take() {
        isWanted.store(true, ordering: .relaxed)
        pthread_mutex_lock(mutex)
        isWanted.store(false, ordering: .relaxed)
        isTaken.store(true, ordering: .relaxed)
        csocketio_set_current_loop(Current(mutex))
    }

    /// How often a caller's thread checks whether the owner is done. This takes a few microseconds.
    private static let looks = 200

    /// Makes the calling thread the owner if no thread is, or if the owner is done within a few microseconds, and if
    /// the loop's thread does not wait for its tick. Never blocks.
    ///
    /// A caller that the loop resumed often calls this before the loop's thread has gone back to sleep. Posting the
    /// operation instead would take far longer than the rest of the loop's tick.
    ///
    /// - Returns: The value to pass to ``giveBack(_:)``, or `nil` if another thread is the owner.
    func tryTake() -> Former? {
        var looks = Self.looks
        while isTaken.load(ordering: .relaxed) {
            guard looks > 0 else { return nil }
            looks -= 1
            csocketio_pause()
        }
        guard !isWanted.load(ordering: .relaxed), pthread_mutex_trylock(mutex) == 0 else { return nil }
        isTaken.store(true, ordering: .relaxed)
        let former = Former(loop: csocketio_current_loop())
        csocketio_set_current_loop(Current(mutex))
        return former
    }

    /// The loop that a thread was current on before it took another one.
    struct Former {
        fileprivate let loop: Current?
    }

    /// Ends the ownership of the calling thread.
    func giveBack(_ former: Former = Former(loop: nil)) {
        csocketio_set_current_loop(former.loop)
        isTaken.store(false, ordering: .relaxed)
        pthread_mutex_unlock(mutex)
    }
}
