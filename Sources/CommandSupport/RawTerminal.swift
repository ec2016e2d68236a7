import Foundation
import Synchronization

/// The mode of the terminal in which the program reads each key and draws the line itself.
///
/// The terminal's own mode returns on every way out: at the end, before the program ends by a signal, and while it is
/// suspended (Ctrl-Z). Signals of keys stay on, so Ctrl-C is SIGINT.
package enum RawTerminal {
    private struct Modes {
        var descriptor: Int32
        var own: termios
        var raw: termios
    }

    // A signal handler may access only lock-free atomics, and memory that is never freed. The modes are not written after
    // they are stored.
    nonisolated(unsafe) private static let modes = Atomic<UnsafeMutablePointer<Modes>?>(nil)
    private static let isRaw = Atomic(false)
    private static let hasResumed = Atomic(false)

    /// Erases the row of the cursor.
    private static let erase: StaticString = "\r\u{1b}[K"

    /// The actions that follow the restoration, by the numbers of their signals. For signals of a user that is the default.
    /// For those of a crash it is the action from before, because Swift's own one prints a backtrace.
    nonisolated(unsafe) private static let following = Atomic<UnsafeMutablePointer<sigaction>?>(nil)
    private static let (ends, crashes) = ([SIGHUP, SIGQUIT], [SIGABRT, SIGILL, SIGTRAP, SIGSEGV, SIGBUS])

    /// Whether lines can be edited: both are terminals, and the cursor can be moved.
    package static func isPossible(_ input: Int32, _ output: Int32) -> Bool {
        Terminal.isTerminal(input) && Terminal.isTerminal(output) && Terminal.controlsCursor
    }

    /// Begins the mode. Returns `false` if the terminal refuses it. Call this once.
    package static func begin(_ descriptor: Int32) -> Bool {
        var own = termios()
        guard tcgetattr(descriptor, &own) == 0 else { return false }
        var raw = own
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO | IEXTEN)
        withUnsafeMutableBytes(of: &raw.c_cc) { keys in
            keys[Int(VMIN)] = 1
            keys[Int(VTIME)] = 0
        }
        let memory = UnsafeMutablePointer<Modes>.allocate(capacity: 1)
        memory.initialize(to: Modes(descriptor: descriptor, own: own, raw: raw))
        modes.store(memory, ordering: .releasing)
        // These reads initialise everything that a handler uses.
        _ = (isRaw.load(ordering: .relaxed), hasResumed.load(ordering: .relaxed), erase)
        let actions = UnsafeMutablePointer<sigaction>.allocate(capacity: 64)
        actions.initialize(repeating: sigaction(), count: 64)
        for number in crashes { sigaction(number, nil, actions + Int(number)) }
        following.store(actions, ordering: .releasing)
        for number in ends + crashes {
            var previous = sigaction()
            sigaction(number, nil, &previous)
            // An ignored signal, as under nohup, stays ignored.
            if unsafeBitCast(signal(number, end), to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) {
                sigaction(number, &previous, nil)
            }
        }
        signal(SIGTSTP, suspend)
        atexit { RawTerminal.restore() }
        enter()
        return isRaw.load(ordering: .relaxed)
    }

    /// Returns to the terminal's own mode, if the mode is in force. A signal handler may call this.
    package static func restore() {
        guard isRaw.exchange(false, ordering: .acquiringAndReleasing),
            let modes = modes.load(ordering: .acquiring)
        else { return }
        tcsetattr(modes.pointee.descriptor, TCSANOW, &modes.pointee.own)
        _ = write(modes.pointee.descriptor, erase.utf8Start, erase.utf8CodeUnitCount)
    }

    /// Whether the program was suspended and continues since the last call. Then the screen is to be drawn again.
    package static func takeResumption() -> Bool { hasResumed.exchange(false, ordering: .acquiringAndReleasing) }

    private static func enter() {
        guard let modes = modes.load(ordering: .acquiring) else { return }
        if tcsetattr(modes.pointee.descriptor, TCSANOW, &modes.pointee.raw) == 0 {
            isRaw.store(true, ordering: .releasing)
        }
    }

    private static let end: @convention(c) (Int32) -> Void = { number in
        RawTerminal.restore()
        if let actions = RawTerminal.following.load(ordering: .acquiring) {
            sigaction(number, actions + Int(number), nil)
        }
        raise(number)
    }

    /// Suspends the program with the terminal's own mode, and continues with the other one.
    private static let suspend: @convention(c) (Int32) -> Void = { number in
        let error = errno
        let wasRaw = RawTerminal.isRaw.load(ordering: .acquiring)
        RawTerminal.restore()
        signal(number, SIG_DFL)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        // The program stops here until SIGCONT.
        raise(number)
        signal(number, RawTerminal.suspend)
        if wasRaw {
            RawTerminal.enter()
            RawTerminal.hasResumed.store(true, ordering: .releasing)
        }
        errno = error
    }
}
