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
    // A lock-free atomic is all that a signal handler may touch. 0 is no signal.
    private static let received = Atomic<Int32>(0)

    /// Whether the user has asked to end. Runners ask between slices, which are short.
    static var isRequested: Bool { received.load(ordering: .relaxed) != 0 }

    /// The status of an interrupted program, as a shell reports it: 128 and the number of the signal, so 130 after
    /// Ctrl-C. `nil` if the program was not interrupted.
    static var status: Int32? {
        let signal = received.load(ordering: .relaxed)
        return signal == 0 ? nil : 128 + signal
    }

    /// Asks as the user would.
    static func request() { received.store(SIGINT, ordering: .relaxed) }

    /// Handles SIGINT and SIGTERM from now on.
    static func listen() {
        // Read once here, so that the handler never is the one to initialise it.
        _ = isRequested
        for number in [SIGINT, SIGTERM] { signal(number, handler) }
        ignoreBrokenPipes()
    }

    /// Ignores SIGPIPE, so that a closed pipe shows as a failed write.
    static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }

    private static let handler: @convention(c) (Int32) -> Void = { number in
        Interruption.received.store(number, ordering: .relaxed)
        signal(number, SIG_DFL)
    }
}
