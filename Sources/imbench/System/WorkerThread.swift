#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A thread of the system's own, outside of Swift's pools, for loops that block or spin. It must be joined.
struct WorkerThread: Sendable {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    #if canImport(Darwin)
    // A pointer that is only handed back to the system.
    private nonisolated(unsafe) let thread: pthread_t
    #else
    private let thread: pthread_t
    #endif

    /// Starts a thread that runs `body`, on one core only if `core` is given and the system lets it; throws errno's sentence
    /// if the system has no thread to give.
    init(on core: Int? = nil, _ body: @escaping @Sendable () -> Void) throws(SystemFailure) {
        let argument = Unmanaged.passRetained(
            Body {
                if let core { CoreMask(only: core).applyToThisThread() }
                body()
            }
        )
        #if canImport(Darwin)
        var started: pthread_t?
        let status = pthread_create(&started, nil, { Self.run($0) }, argument.toOpaque())
        #else
        var identifier = pthread_t()
        let status = pthread_create(&identifier, nil, { $0.flatMap { Self.run($0) } }, argument.toOpaque())
        let started: pthread_t? = identifier
        #endif
        guard status == 0, let started else {
            argument.release()
            throw SystemFailure("cannot start a thread", errno: status)
        }
        thread = started
    }

    /// Waits for the thread's end.
    func join() {
        pthread_join(thread, nil)
    }

    private static func run(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
        return nil
    }
}
