import Protocols
import SocketIO
import Transports

/// Says on standard error which clients a server has ended or turned away, and why: at most so many lines a second, since a
/// flood of clients must not become a flood of lines.
final class EndingLog: Sendable {
    private static let linesPerSecond = 10

    private struct State {
        var second: Int64 = 0
        var said = 0
        var unsaid = 0
    }

    private let state = Locked(State())

    /// Takes a note.
    func take(_ note: ServerEvent) {
        if let line = line(for: note, at: Clocks.monotonic()) { remark(line, isQuiet: false) }
    }

    /// What is said of a note that comes at this time, in nanoseconds; goodbyes are not worth a line.
    func line(for note: ServerEvent, at now: Int64) -> String? {
        guard note.reason.error != nil else { return nil }
        return state.withLock { state in
            let second = now / 1_000_000_000
            if second != state.second { (state.second, state.said) = (second, 0) }
            guard state.said < Self.linesPerSecond else {
                state.unsaid += 1
                return nil
            }
            defer { (state.said, state.unsaid) = (state.said + 1, 0) }
            return (state.unsaid > 0 ? "(\(state.unsaid) more before) " : "") + "\(note)"
        }
    }
}
