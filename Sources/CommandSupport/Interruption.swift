import Foundation
import Synchronization

/// Ctrl-C: the first one ends the run early with a report of what was measured. The second one ends the process at once.
package enum Interruption {
    // A signal handler may access only a lock-free atomic. 0 means no signal.
    private static let received = Atomic<Int32>(0)

    /// Whether the program was interrupted. Runners check between slices, which are short.
    package static var isRequested: Bool { received.load(ordering: .relaxed) != 0 }

    /// The status of an interrupted program, as a shell reports it: 128 and the number of the signal, so 130 after
    /// Ctrl-C. `nil` if the program was not interrupted.
    package static var status: Int32? {
        let signal = received.load(ordering: .relaxed)
        return signal == 0 ? nil : 128 + signal
    }

    /// Why a row has no numbers, if the program was interrupted before its measurement.
    package static let sentence = "not measured: the run was interrupted"

    /// Interrupts the run as Ctrl-C does.
    package static func request() { received.store(SIGINT, ordering: .relaxed) }

    /// Handles SIGINT, SIGTERM and SIGHUP from now on. SIGHUP, which the end of a terminal sends, stays ignored under nohup.
    package static func listen() {
        // These calls initialise the atomics, so the handler never does.
        _ = isRequested
        RawTerminal.restore()
        for number in [SIGINT, SIGTERM] { signal(number, handler) }
        let former = signal(SIGHUP, handler)
        if unsafeBitCast(former, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(SIGHUP, SIG_IGN) }
        ignoreBrokenPipes()
    }

    /// Ignores SIGPIPE, so that a closed pipe shows as a failed write.
    package static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }

    /// Ends the process by SIGPIPE and without a message, as most programs end when their output is closed.
    package static func endByBrokenPipe() -> Never {
        RawTerminal.restore()
        signal(SIGPIPE, SIG_DFL)
        var pipes = sigset_t()
        sigemptyset(&pipes)
        sigaddset(&pipes, SIGPIPE)
        pthread_sigmask(SIG_UNBLOCK, &pipes, nil)
        raise(SIGPIPE)
        exit(128 + SIGPIPE)
    }

    private static let handler: @convention(c) (Int32) -> Void = { number in
        RawTerminal.restore()
        Interruption.received.store(number, ordering: .relaxed)
        signal(number, SIG_DFL)
    }
}
