import CSocketIO
import Foundation
import SocketIO

/// A child process that exchanges lines with this one over its standard input and output.
///
/// It leads its own process group, so that Ctrl-C on the terminal reaches only this process. The deinitializer kills it if it
/// still runs. If this process is killed, the child sees the end of its input.
///
/// It calls posix_spawn, because `Foundation.Process` resets neither the signal mask nor ignored signals.
package final class ChildProcess {
    /// How a process ended.
    package enum Ending: Equatable {
        case status(Int32)
        case signal(Int32)
    }

    /// How long it may run after the end of its input, in milliseconds, before it is killed.
    private static let endTimeout: Int32 = 10_000

    package let identifier: pid_t
    private var input: PipeEnd?
    private var lines: LineInput
    // Kept open for `lines`.
    private let output: PipeEnd
    private var ending: Ending?

    /// Starts a program, whose path comes first, with these arguments and the environment of this process.
    package init(_ words: [String]) throws(SystemFailure) {
        // A write to a process that has ended fails without a signal.
        Interruption.ignoreBrokenPipes()
        let (input, output) = (try PipeEnd.pair(), try PipeEnd.pair())
        identifier = try Self.spawn(words, input.reading, output.writing)
        self.input = input.writing
        self.output = output.reading
        lines = LineInput(output.reading.descriptor)
    }

    deinit {
        guard !hasEnded else { return }
        kill(identifier, SIGKILL)
        reap(0)
    }

    /// Writes one line. Returns `false` if the process no longer reads.
    package func write(_ line: String) -> Bool {
        input.map { writeAll($0.descriptor, line + "\n") } ?? false
    }

    /// Interrupts it as Ctrl-C does.
    package func interrupt() {
        if !hasEnded { kill(identifier, SIGINT) }
    }

    /// Whether it already handles SIGINT; `nil` where the system does not provide this.
    package var handlesInterrupt: Bool? {
        guard let status = readFile("/proc/\(identifier)/status", limit: 1 << 16) else { return nil }
        // The mask of caught signals in hexadecimal digits (proc(5)); SIGINT is bit 1 of the last digit.
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("SigCgt:") }),
            let digit = line.last?.hexDigitValue
        else { return nil }
        return digit & 1 << (SIGINT - 1) != 0
    }

    /// Its next line. Waits at most `timeout` milliseconds.
    package func next(timeout: Int32) -> LineInput.Event {
        let event = lines.next(timeout: timeout)
        // Another process that was started at the same time may keep the output open.
        guard event == .nothing, hasEnded else { return event }
        let last = lines.next(timeout: 0)
        return last == .nothing ? .end : last
    }

    /// Ends its input, waits until it ends, and returns how it ended.
    package func end() -> Ending {
        input = nil
        var left = Self.endTimeout
        while !hasEnded, left > 0 {
            poll(nil, 0, 10)
            left -= 10
        }
        if !hasEnded { kill(identifier, SIGKILL) }
        reap(0)
        return ending ?? .status(0)
    }

    private var hasEnded: Bool {
        reap(WNOHANG)
        return ending != nil
    }

    private func reap(_ options: Int32) {
        guard ending == nil else { return }
        var status: Int32 = 0
        var found = waitpid(identifier, &status, options)
        while found < 0, errno == EINTR { found = waitpid(identifier, &status, options) }
        // If SIGCHLD is ignored, there is no status.
        if found < 0 { ending = .status(0) }
        if found > 0 { ending = status & 0x7f == 0 ? .status(status >> 8 & 0xff) : .signal(status & 0x7f) }
    }

    private static func spawn(_ words: [String], _ input: PipeEnd, _ output: PipeEnd) throws(SystemFailure) -> pid_t {
        #if os(Linux)
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        let environment = csocketio_environment()
        #else
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        let environment = _NSGetEnviron().pointee
        #endif
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_adddup2(&actions, input.descriptor, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, output.descriptor, STDOUT_FILENO)
        // The child inherits neither blocked nor ignored signals.
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        posix_spawnattr_setflags(&attributes, Int16(flags))
        guard let path = words.first else { throw SystemFailure("no program to start") }
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var child = pid_t()
        let number = withExtendedLifetime((input, output)) {
            posix_spawn(&child, path, &actions, &attributes, &arguments, environment)
        }
        guard number == 0 else { throw SystemFailure("cannot start \(path)", errno: number) }
        return child
    }
}

/// One end of a pipe, which child processes do not inherit. The deinitializer closes it.
private final class PipeEnd {
    let descriptor: Int32

    private init(_ descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit {
        close(descriptor)
    }

    package static func pair() throws(SystemFailure) -> (reading: PipeEnd, writing: PipeEnd) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemFailure("cannot make a pipe", errno: errno) }
        return (PipeEnd(ends[0]), PipeEnd(ends[1]))
    }
}
