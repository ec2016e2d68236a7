#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// What may be written to a descriptor besides plain text.
enum Terminal {
    static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Colour only on a terminal that knows it, and never with NO_COLOR (no-color.org: set and not empty).
    static func allowsColour(_ descriptor: Int32) -> Bool {
        isTerminal(descriptor) && variable("NO_COLOR").isEmpty && variable("TERM") != "dumb"
    }

    private static func variable(_ name: String) -> String {
        getenv(name).map { String(cString: $0) } ?? ""
    }
}

/// Says on standard error how far a run is: a bar on a terminal, nothing in a log.
struct Progress: Sendable {
    private let isDrawn: Bool
    private let total: Int
    private var done = 0

    /// - Parameters:
    ///   - total: how many steps there will be.
    ///   - isQuiet: whether nothing at all is to be said.
    init(total: Int, isQuiet: Bool) {
        self.total = max(1, total)
        isDrawn = !isQuiet && Terminal.isTerminal(STDERR_FILENO)
    }

    /// One step begins; `label` says which.
    mutating func step(_ label: String) {
        defer { done += 1 }
        if isDrawn { writeAll(STDERR_FILENO, "\r\u{1b}[K" + Self.bar(done, of: total) + " " + label) }
    }

    /// Takes the bar away.
    func finish() {
        if isDrawn { writeAll(STDERR_FILENO, "\r\u{1b}[K") }
    }

    static func bar(_ done: Int, of total: Int, width: Int = 24) -> String {
        let done = min(max(done, 0), total)
        let filled = total > 0 ? done * width / total : width
        return String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
            + " \(done)/\(total)"
    }
}

/// Writes a remark to standard error, unless nothing is to be said.
func remark(_ sentence: String, isQuiet: Bool) {
    if !isQuiet { writeAll(STDERR_FILENO, "imbench: " + sentence + "\n") }
}
