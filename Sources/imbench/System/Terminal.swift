import Foundation

/// The properties of a terminal.
enum Terminal {
    static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Colour only on a terminal that supports it, and never with NO_COLOR (no-color.org: set and not empty).
    static func allowsColour(_ descriptor: Int32) -> Bool {
        let variables = ProcessInfo.processInfo.environment
        return isTerminal(descriptor) && variables["NO_COLOR", default: ""].isEmpty && controlsCursor
    }

    /// Whether terminals of this program's environment understand sequences that move the cursor.
    static var controlsCursor: Bool { ProcessInfo.processInfo.environment["TERM"] != "dumb" }

    /// The number of columns of a terminal; 80 if it does not say.
    static func columns(_ descriptor: Int32) -> Int {
        var size = winsize()
        return ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
    }
}

/// Shows the progress of a run on standard error: a bar on a terminal, nothing in a log.
struct Progress: Sendable {
    private let isDrawn: Bool
    private let total: Int
    private var done = 0

    /// - Parameters:
    ///   - total: the number of steps.
    ///   - isQuiet: whether nothing is shown.
    init(total: Int, isQuiet: Bool) {
        self.total = max(1, total)
        isDrawn = !isQuiet && Terminal.isTerminal(STDERR_FILENO)
    }

    /// Begins a step.
    mutating func step(_ label: String) {
        defer { done += 1 }
        if isDrawn { writeAll(STDERR_FILENO, "\r\u{1b}[K" + Self.bar(done, of: total) + " " + label) }
    }

    /// Removes the bar.
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

/// Writes a remark to standard error, unless `isQuiet`.
func remark(_ sentence: String, isQuiet: Bool = false) {
    if !isQuiet { writeAll(STDERR_FILENO, "imbench: " + sentence + "\n") }
}
