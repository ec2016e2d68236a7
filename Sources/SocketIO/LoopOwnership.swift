import CSocketIO
import Synchronization

/// Who runs a loop now: its own thread, or while that sleeps whoever has borrowed the loop. Everything that lives on the loop
/// is touched by its owner alone.
struct LoopOwnership: ~Copyable, @unchecked Sendable {
    // Unchecked, because the pointer is to a mutex, which threads share by its nature. It is the C library's, because the
    // thread sanitizer sees that lock.

    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    /// The thread that has the mutex; 0 if none has. Only an owner writes it, so that a thread which finds its own name here
    /// has put it there itself, and any other finds another one, whatever happens meanwhile.
    private let thread = Atomic<UInt>(0)
    /// The loop's thread is up and waits for a borrower. Without this, one that borrows again and again might take the mutex
    /// each time before the loop's thread has woken up.
    private let isWanted = Atomic<Bool>(false)

    init() {
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Whether the calling thread is the owner.
    var isCurrent: Bool { thread.load(ordering: .relaxed) == currentThread() }

    /// Makes the calling thread the owner, after a borrower if there is one. For the loop's thread.
    func take() {
        isWanted.store(true, ordering: .relaxed)
        pthread_mutex_lock(mutex)
        isWanted.store(false, ordering: .relaxed)
        thread.store(currentThread(), ordering: .relaxed)
    }

    /// How often a borrower looks whether the owner is done: for a few microseconds.
    private static let looks = 200

    /// Makes the calling thread the owner if nobody is, or is any more in a moment, and the loop's thread does not wait for it.
    /// Never blocks.
    ///
    /// Who was resumed by the loop often asks before that has gone back to sleep; to be handed over to it, and to be resumed once
    /// more, takes far longer than the rest of its turn.
    func tryTake() -> Bool {
        var looks = Self.looks
        while thread.load(ordering: .relaxed) != 0 {
            guard looks > 0 else { return false }
            looks -= 1
            csocketio_pause()
        }
        guard !isWanted.load(ordering: .relaxed), pthread_mutex_trylock(mutex) == 0 else { return false }
        thread.store(currentThread(), ordering: .relaxed)
        return true
    }

    /// The calling thread is the owner no longer.
    func giveBack() {
        thread.store(0, ordering: .relaxed)
        pthread_mutex_unlock(mutex)
    }
}
