import CommandSupport
import Foundation
import SocketIO

/// The terminal of a chat. The last row has the line that the user types. A line of the chat appears above it and leaves it as
/// it is.
///
/// Rows are drawn from the loop and from the thread that reads keys, so a lock protects the row. No text of other members
/// reaches the terminal unless ``ChatLine`` has made it printable.
final class ChatScreen: ChatDisplay, LineSource {
    private struct State {
        var editor = LineEditor()
        /// Finished lines that ``next(timeout:)`` has not returned. Reading stops while there are any.
        var events: [LineEditor.Event] = []
        var columns: Int
        /// Whether the row is drawn.
        var isOpen = true
    }

    private let state: Locked<State>
    private let style: Style

    private static let erase = "\r\u{1b}[K"
    private static let clear = "\u{1b}[H\u{1b}[2J"

    /// Takes the terminal. Returns `nil` if lines cannot be edited there.
    init?(style: Style) {
        guard RawTerminal.isPossible(STDIN_FILENO, STDOUT_FILENO), RawTerminal.begin(STDIN_FILENO) else { return nil }
        self.style = style
        state = Locked(State(columns: Terminal.columns(STDOUT_FILENO)))
        redraw()
    }

    func show(_ line: ChatLine) {
        let text = line.styled(style, now: Clocks.milliseconds()) + "\n"
        state.withLock { state in
            write(state.isOpen ? Self.erase + text + Self.row(state) : text)
        }
    }

    func next(timeout: Int32) -> LineInput.Event {
        if let event = takeEvent() { return event }
        var request = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        let count = poll(&request, 1, timeout)
        let columns = Terminal.columns(STDOUT_FILENO)
        let isResized = state.withLock { state in
            defer { state.columns = columns }
            return state.columns != columns
        }
        if RawTerminal.takeResumption() || isResized { redraw() }
        guard count > 0 else { return .nothing }
        var chunk = [UInt8](repeating: 0, count: 4096)
        let length = chunk.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
        if length < 0, errno == EINTR || errno == EAGAIN { return .nothing }
        guard length > 0 else { return .end }
        state.withLock { state in
            state.events += state.editor.take(chunk.prefix(length))
            write(Self.row(state))
        }
        return takeEvent() ?? .nothing
    }

    deinit {
        close()
    }

    /// Erases the row and returns the terminal to its own mode. Lines can still be shown.
    func close() {
        state.withLock { state in
            guard state.isOpen else { return }
            state.isOpen = false
            write(Self.erase)
        }
        RawTerminal.restore()
    }

    private func takeEvent() -> LineInput.Event? {
        state.withLock { state in
            while !state.events.isEmpty {
                switch state.events.removeFirst() {
                case .line(let line): return .line(line)
                case .end: return .end
                case .full: write("\u{7}")
                case .clear: write(Self.clear + Self.row(state))
                }
            }
            return nil
        }
    }

    private func redraw() {
        state.withLock { write(Self.row($0)) }
    }

    /// Draws the row over itself, and puts the cursor to its column.
    private static func row(_ state: State) -> String {
        let (row, cursor) = state.editor.drawn(columns: state.columns)
        return "\r" + row + "\u{1b}[K\r\u{1b}[\(cursor)C"
    }

    private func write(_ text: String) {
        if !writeAll(STDOUT_FILENO, text), errno == EPIPE { Interruption.endByBrokenPipe() }
    }
}
