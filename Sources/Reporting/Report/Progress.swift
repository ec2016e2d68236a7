import CommandSupport
import Foundation

/// Shows the progress of a run on standard error. On a terminal it is a bar with the time left, and above it the figures so
/// far. In a log, and on a terminal that cannot move its cursor, it is a line at the start and every ten seconds.
package struct Progress: Sendable {
    private enum Form { case hidden, drawn, logged }

    private let form: Form
    private let total: Int
    private var done = 0
    /// When the first step began, and when something was shown last, in nanoseconds.
    private var start: Int64?
    private var lastShown: Int64 = 0
    /// How many lines of the terminal are drawn.
    private var drawnLines = 0

    /// The times between two lines of a log, and between two drawings, in nanoseconds.
    private static let logInterval: Int64 = 10_000_000_000
    private static let drawInterval: Int64 = 100_000_000
    /// When the first line of a log comes, because the time left is known then.
    private static let firstLine: Int64 = 3_000_000_000

    /// - Parameters:
    ///   - total: the sum of the weights of all steps.
    ///   - isQuiet: whether nothing is shown.
    package init(total: Int, isQuiet: Bool) {
        self.total = max(1, total)
        form =
            isQuiet
            ? .hidden : Terminal.isTerminal(STDERR_FILENO) && Terminal.controlsCursor ? .drawn : .logged
    }

    /// Begins a step.
    ///
    /// - Parameters:
    ///   - weight: how long the step takes beside others.
    ///   - figures: the results so far, which only a terminal shows, if they fit.
    package mutating func step(_ label: String, weight: Int = 1, figures: @autoclosure () -> Table? = nil) {
        let now = Clocks.monotonic()
        defer { done += weight }
        let isFirst = start == nil
        if isFirst { (start, lastShown) = (now, now + Self.firstLine - Self.logInterval) }
        let left = Self.timeLeft(done, of: total, after: .nanoseconds(now - (start ?? now)))
        switch form {
        case .hidden: break
        case .drawn:
            guard isFirst || now - lastShown >= Self.drawInterval else { return }
            lastShown = now
            let bar = [Self.bar(done, of: total), left.map { $0 + " left" }, label].compactMap { $0 }
            draw(bar.joined(separator: "  "), above: figures())
        case .logged:
            if isFirst { remark("started with \(label)") }
            guard now - lastShown >= Self.logInterval else { return }
            lastShown = now
            remark("\(Self.percent(done, of: total)) done" + (left.map { ", about \($0) left" } ?? ""))
        }
    }

    /// Removes what is drawn.
    package mutating func finish() {
        if form == .drawn, drawnLines > 0 { writeAll(STDERR_FILENO, Self.redrawn([], over: drawnLines)) }
        drawnLines = 0
    }

    private mutating func draw(_ bar: String, above figures: Table?) {
        let size = Terminal.size(STDERR_FILENO)
        var lines = figures?.plain(.none, width: size.columns).split(separator: "\n").map(String.init) ?? []
        // Lines that leave the screen cannot be erased.
        if lines.count + 2 > size.rows { lines = [] }
        lines = (lines + [bar]).map { String($0.prefix(size.columns - 1)) }
        writeAll(STDERR_FILENO, Self.redrawn(lines, over: drawnLines))
        drawnLines = lines.count
    }

    /// The characters that replace the last `old` lines of the terminal. Each line is overwritten and its rest erased, because
    /// terminals such as tmux keep a screen that is erased as a whole in their history. The cursor ends in the last new line,
    /// or in the first old one if there is no new one (ECMA-48, sections 8.3.22 and 8.3.41).
    static func redrawn(_ lines: [String], over old: Int) -> String {
        func up(_ count: Int) -> String { count > 0 ? "\u{1b}[\(count)A" : "" }
        let rest = Array(repeating: "", count: max(0, old - lines.count))
        let text = (lines + rest).map { $0 + "\u{1b}[K" }.joined(separator: "\n")
        let back = lines.isEmpty ? max(0, old - 1) : rest.count
        let end = lines.last.map { "\r" + ($0.isEmpty ? "" : "\u{1b}[\($0.count)C") } ?? "\r"
        return up(old - 1) + "\r" + text + up(back) + (back > 0 ? end : "")
    }

    package static func bar(_ done: Int, of total: Int, width: Int = 24) -> String {
        let filled = total > 0 ? min(max(done, 0), total) * width / total : width
        return String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
            + " " + percent(done, of: total)
    }

    private static func percent(_ done: Int, of total: Int) -> String {
        "\(total > 0 ? min(max(done, 0), total) * 100 / total : 100) %"
    }

    /// The time that the rest takes if it goes on as before; `nil` in the first second, and in the first minute until a tenth
    /// is done, because the first steps are seldom like the others.
    static func timeLeft(_ done: Int, of total: Int, after elapsed: Duration) -> String? {
        guard done > 0, elapsed >= .seconds(1), done >= total / 10 || elapsed >= .seconds(60) else { return nil }
        let left: Duration = elapsed / done * max(0, total - done)
        let seconds = Int((left / Duration.seconds(1)).rounded(.up))
        return seconds < 60 ? "\(seconds) s" : "\(seconds / 60) min \(seconds % 60) s"
    }
}
