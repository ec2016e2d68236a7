import CommandTestSupport
import Foundation
import Testing

@testable import CommandSupport
@testable import imbench

/// A program on a terminal of its own, and the screen that a user would see. It is used by one thread at a time.
final class PseudoTerminal {
    /// How long a test waits for the screen, in milliseconds.
    private static let timeLimit: Int32 = 30_000

    private let master: Int32
    /// The program's side, which stays open so that the modes can be read after the program has ended.
    private let terminal: Int32
    private let process: pid_t
    private(set) var screen: TerminalScreen
    private var status: Int32?

    /// Starts the built command.
    init(_ words: [String], columns: Int = 80, rows: Int = 24, variables: [String: String] = [:]) throws {
        let path = try #require(BuiltProgram.imbench.path)
        // Glibc declares posix_openpt for GNU programs only, so this uses the calls of pts(4): TIOCSPTLCK and TIOCGPTN.
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (isLocked, number) = (Int32(0), Int32(0))
        guard master >= 0, ioctl(master, 0x4004_5431, &isLocked) == 0, ioctl(master, 0x8004_5430, &number) == 0 else {
            throw SystemFailure("no pseudo-terminal", errno: errno)
        }
        let name = "/dev/pts/\(number)"
        let terminal = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)
        var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        guard terminal >= 0, ioctl(master, UInt(TIOCSWINSZ), &size) == 0 else {
            throw SystemFailure("no terminal", errno: errno)
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // In its own session, the first terminal that the program opens controls it, so that Ctrl-C is a signal.
        posix_spawn_file_actions_addopen(&actions, 0, name, O_RDWR, 0)
        posix_spawn_file_actions_adddup2(&actions, 0, 1)
        posix_spawn_file_actions_adddup2(&actions, 0, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(0x80 | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        let environment = ProcessInfo.processInfo.environment.merging([
            "TERM": "xterm", "NO_COLOR": "", "SWIFT_BACKTRACE": "enable=no",
        ]) { $1 }
        .merging(variables) { $1 }
        var arguments = ([path] + words).map { strdup($0) } + [nil]
        var settings = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for word in arguments + settings { free(word) } }
        var child = pid_t()
        let result = posix_spawn(&child, path, &actions, &attributes, &arguments, &settings)
        guard result == 0 else { throw SystemFailure("cannot start \(path)", errno: result) }
        (self.master, self.terminal, process) = (master, terminal, child)
        screen = TerminalScreen(columns: columns, rows: rows)
    }

    deinit {
        if status == nil {
            kill(process, SIGKILL)
            var status: Int32 = 0
            waitpid(process, &status, 0)
        }
        close(terminal)
        close(master)
    }

    /// Presses keys.
    func type(_ keys: String) { writeAll(master, keys) }

    func signal(_ number: Int32) { kill(process, number) }

    /// Changes the width, as a user who resizes the window.
    func resize(columns: Int) {
        var size = winsize(ws_row: UInt16(screen.rows.count), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
        screen.columns = columns
    }

    /// Reads output until the screen meets a condition. Returns `false` at the end of the output, or if none comes.
    func wait(until isMet: (TerminalScreen) -> Bool) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 4096)
        while !isMet(screen) {
            var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, Self.timeLimit) > 0 else { return false }
            let count = read(master, &chunk, chunk.count)
            guard count > 0 else { return false }
            screen.take(chunk.prefix(count))
        }
        return true
    }

    /// Waits for the end of the program, and reads the rest of its output. Returns its exit status, or 128 and the signal.
    func finish() -> Int32 {
        var chunk = [UInt8](repeating: 0, count: 4096)
        var (raw, left): (Int32, Int32) = (0, Self.timeLimit)
        while waitpid(process, &raw, WNOHANG) == 0 {
            var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            if poll(&request, 1, 10) > 0, case let count = read(master, &chunk, chunk.count), count > 0 {
                screen.take(chunk.prefix(count))
            }
            left -= 10
            if left <= 0 { kill(process, SIGKILL) }
        }
        var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
        while poll(&request, 1, 0) > 0, case let count = read(master, &chunk, chunk.count), count > 0 {
            screen.take(chunk.prefix(count))
        }
        let status = raw & 0x7f == 0 ? raw >> 8 & 0xff : 128 + raw & 0x7f
        self.status = status
        return status
    }

    /// Whether the terminal collects lines and shows what is typed, as it does for a shell.
    var isInItsOwnMode: Bool {
        var modes = termios()
        guard tcgetattr(terminal, &modes) == 0 else { return false }
        let flags = tcflag_t(ICANON | ECHO | IEXTEN | ISIG)
        return modes.c_lflag & flags == flags
    }
}

/// The rows of a terminal, as far as this program draws them. A sequence that it should not use stays visible.
struct TerminalScreen {
    var columns: Int
    private(set) var rows: [[Character]]
    /// The position of the cursor.
    private(set) var cursor = (row: 0, column: 0)
    /// Everything that was received.
    private(set) var raw: [UInt8] = []
    private var unread: [UInt8] = []

    init(columns: Int, rows: Int) {
        self.columns = columns
        self.rows = Array(repeating: [], count: rows)
    }

    /// The texts of the rows. A wide character is followed by an empty place.
    var texts: [String] { rows.map { String($0.filter { $0 != "\0" }).withoutTrailingSpaces } }

    /// The text of the cursor's row.
    var current: String { texts[cursor.row] }

    func contains(_ text: String) -> Bool { texts.contains { $0.contains(text) } }

    mutating func take(_ bytes: some Sequence<UInt8>) {
        raw += bytes
        unread += bytes
        // A character, or a sequence, can be cut off at the end of the bytes that were read.
        let cut = Self.incompleteTail(unread)
        let text = String(decoding: unread.dropLast(cut), as: UTF8.self)
        var rest = text[...]
        while let character = rest.first {
            if character == "\u{1b}" {
                guard let sequence = rest.prefixMatch(of: /\u{1b}\[([0-9;]*)([A-Za-z])/) else {
                    guard rest.wholeMatch(of: /\u{1b}(\[[0-9;]*)?/) == nil else { break }
                    put("?")
                    rest.removeFirst()
                    continue
                }
                perform(String(sequence.1), String(sequence.2))
                rest = rest[sequence.range.upperBound...]
                continue
            }
            rest.removeFirst()
            switch character {
            case "\r": cursor.column = 0
            case "\n": lineFeed()
            case "\r\n": (cursor.column, _) = (0, lineFeed())
            case "\u{7}": break
            default: put(character)
            }
        }
        unread = Array(rest.utf8) + unread.suffix(cut)
    }

    /// The number of bytes at the end that are the beginning of a character.
    private static func incompleteTail(_ bytes: [UInt8]) -> Int {
        for (index, byte) in bytes.suffix(3).reversed().enumerated() where byte >= 0xc0 {
            return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > index + 1 ? index + 1 : 0
        }
        return 0
    }

    private mutating func lineFeed() {
        if cursor.row < rows.count - 1 { return cursor.row += 1 }
        rows.removeFirst()
        rows.append([])
    }

    private mutating func put(_ character: Character) {
        if cursor.column + character.columns > columns {
            cursor.column = 0
            lineFeed()
        }
        set(character)
        if character.columns == 2 { set("\0") }
    }

    private mutating func set(_ character: Character) {
        while rows[cursor.row].count <= cursor.column { rows[cursor.row].append(" ") }
        rows[cursor.row][cursor.column] = character
        cursor.column += 1
    }

    private mutating func perform(_ parameters: String, _ final: String) {
        switch final {
        case "K": rows[cursor.row] = Array(rows[cursor.row].prefix(cursor.column))
        case "C": cursor.column = min(columns - 1, cursor.column + max(1, Int(parameters) ?? 1))
        case "H": cursor = (0, 0)
        case "J": rows = Array(repeating: [], count: rows.count)
        case "m": break
        default: for character in "^[[" + parameters + final { put(character) }
        }
    }
}
