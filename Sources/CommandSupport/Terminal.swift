import Foundation

/// The properties of a terminal.
package enum Terminal {
    package static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Colour only on a terminal that supports it, and never with NO_COLOR (no-color.org: set and not empty).
    package static func allowsColour(_ descriptor: Int32) -> Bool {
        let variables = ProcessInfo.processInfo.environment
        return isTerminal(descriptor) && variables["NO_COLOR", default: ""].isEmpty && controlsCursor
    }

    /// Whether terminals of this program's environment understand sequences that move the cursor.
    package static var controlsCursor: Bool { ProcessInfo.processInfo.environment["TERM"] != "dumb" }

    /// The number of columns of a terminal; 80 if it does not say.
    package static func columns(_ descriptor: Int32) -> Int {
        var size = winsize()
        return ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
    }

    /// The size of the terminal in characters; 80 columns and 24 rows if it is unknown.
    package static func size(_ descriptor: Int32) -> (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1, size.ws_row > 1 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }
}

/// The name of this program, as it was started.
package let programName = CommandLine.arguments.first?.split(separator: "/").last.map { String($0) } ?? "imbench"

/// Writes a remark to standard error, unless `isQuiet`. A terminal has it in lines of its own width.
package func remark(_ sentence: String, isQuiet: Bool = false) {
    guard !isQuiet else { return }
    let text = programName + ": " + sentence
    let lines = Terminal.isTerminal(STDERR_FILENO) ? text.wrapped(to: Terminal.columns(STDERR_FILENO)) : [text]
    writeAll(STDERR_FILENO, lines.joined(separator: "\n") + "\n")
}
