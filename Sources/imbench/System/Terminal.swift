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

    /// The size of the terminal in characters; 80 columns and 24 rows if it is unknown.
    static func size(_ descriptor: Int32) -> (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1, size.ws_row > 1 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }
}

/// Shows the progress of a run on standard error. On a terminal it is a bar with the time left, and above it the figures so
/// far. In a log it is a line every ten seconds.
struct Progress: Sendable {
    private enum Form { case hidden, drawn, logged }

    private let form: Form
    private let total: Int
    private var done = 0
    /// When the first step began, and when the last line of a log was written, in nanoseconds.
    private var start: Int64?
    private var lastLine: Int64 = 0
    /// How many lines of the terminal are drawn.
    private var drawnLines = 0

    /// The time between two lines of a log, in nanoseconds.
    private static let logInterval: Int64 = 10_000_000_000

    /// - Parameters:
    ///   - total: the number of steps.
    ///   - isQuiet: whether nothing is shown.
    init(total: Int, isQuiet: Bool) {
        self.total = max(1, total)
        form = isQuiet ? .hidden : Terminal.isTerminal(STDERR_FILENO) ? .drawn : .logged
    }

    /// Begins a step.
    ///
    /// - Parameter figures: the results so far, which only a terminal shows, if they fit.
    mutating func step(_ label: String, figures: @autoclosure () -> Table? = nil) {
        let now = Clocks.monotonic()
        defer { done += 1 }
        if start == nil { (start, lastLine) = (now, now) }
        let left = Self.timeLeft(done, of: total, after: .nanoseconds(now - (start ?? now)))
        switch form {
        case .hidden: break
        case .drawn:
            let bar = [Self.bar(done, of: total), left.map { $0 + " left" }, label].compactMap { $0 }
            draw(bar.joined(separator: "  "), above: figures())
        case .logged:
            guard now - lastLine >= Self.logInterval else { return }
            lastLine = now
            remark("\(done) of \(total) steps done" + (left.map { ", about \($0) left" } ?? ""))
        }
    }

    /// Removes what is drawn.
    mutating func finish() {
        if form == .drawn { writeAll(STDERR_FILENO, eraser) }
        drawnLines = 0
    }

    private mutating func draw(_ bar: String, above figures: Table?) {
        let size = Terminal.size(STDERR_FILENO)
        var lines = figures?.plain(.none, width: size.columns).split(separator: "\n").map(String.init) ?? []
        // Lines that leave the screen cannot be erased.
        if lines.count + 2 > size.rows { lines = [] }
        lines = (lines + [bar]).map { String($0.prefix(size.columns - 1)) }
        writeAll(STDERR_FILENO, eraser + lines.joined(separator: "\n"))
        drawnLines = lines.count
    }

    /// Moves the cursor to the first drawn line, and erases from there (ECMA-48, sections 8.3.22 and 8.3.39).
    private var eraser: String { (drawnLines > 1 ? "\u{1b}[\(drawnLines - 1)A" : "") + "\r\u{1b}[J" }

    static func bar(_ done: Int, of total: Int, width: Int = 24) -> String {
        let done = min(max(done, 0), total)
        let filled = total > 0 ? done * width / total : width
        return String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
            + " \(done)/\(total)"
    }

    /// The time that the remaining steps take if they are as long as the others; `nil` in the first second.
    static func timeLeft(_ done: Int, of total: Int, after elapsed: Duration) -> String? {
        guard done > 0, elapsed >= .seconds(1) else { return nil }
        let left: Duration = elapsed / done * max(0, total - done)
        let seconds = Int((left / Duration.seconds(1)).rounded(.up))
        return seconds < 60 ? "\(seconds) s" : "\(seconds / 60) min \(seconds % 60) s"
    }
}

/// Writes a remark to standard error, unless `isQuiet`.
func remark(_ sentence: String, isQuiet: Bool = false) {
    if !isQuiet { writeAll(STDERR_FILENO, "imbench: " + sentence + "\n") }
}
