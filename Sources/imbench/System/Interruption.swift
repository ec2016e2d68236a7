import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Ctrl-C: the first one asks the run to end early and report what it has, the second one ends the process at once.
enum Interruption {
    // A lock-free atomic is all that a signal handler may touch.
    private static let flag = Atomic<Bool>(false)

    /// Whether the user has asked to end. Runners ask between slices, which are short.
    static var isRequested: Bool { flag.load(ordering: .relaxed) }

    /// Asks as the user would.
    static func request() { flag.store(true, ordering: .relaxed) }

    /// Listens for SIGINT and SIGTERM from now on. SIGPIPE is ignored, so that a closed pipe shows as a failed write.
    static func listen() {
        // Read once here, so that the handler never is the one to initialise it.
        _ = isRequested
        for number in [SIGINT, SIGTERM] { signal(number, handler) }
        signal(SIGPIPE, SIG_IGN)
    }

    private static let handler: @convention(c) (Int32) -> Void = { number in
        Interruption.flag.store(true, ordering: .relaxed)
        signal(number, SIG_DFL)
    }
}
