import Foundation

/// The lines that a user or another program enters.
package protocol LineSource: ~Copyable {
    /// The next line without its end. It waits at most `timeout` milliseconds. A signal also ends the wait.
    mutating func next(timeout: Int32) -> LineInput.Event
    /// No more lines are read.
    mutating func close()
}

/// Reads lines from a descriptor: a terminal, a pipe, or a file.
package struct LineInput: ~Copyable, LineSource {
    /// The longest line in bytes. Longer lines are reported and dropped.
    package static let longestLine = 16 << 10

    package enum Event: Equatable {
        case line(String)
        /// A line that was too long.
        case tooLong
        /// No line has arrived in time.
        case nothing
        case end
    }

    private let descriptor: Int32
    private var unread: [UInt8] = []
    private var isSkipping = false
    private var hasEnded = false

    package init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// The next line without its end. It waits at most `timeout` milliseconds. A signal also ends the wait.
    package mutating func next(timeout: Int32) -> Event {
        let end = timeout < 0 ? Int64.max : Clocks.monotonic() + Int64(timeout) * 1_000_000
        while true {
            if let event = takeLine() { return event }
            if hasEnded { return .end }
            var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, timeout) > 0 else { return .nothing }
            var chunk = [UInt8](repeating: 0, count: 4096)
            let count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR || errno == EAGAIN { return .nothing }
            if count > 0 { unread += chunk.prefix(count) } else { hasEnded = true }
            // Input without an end of line does not extend the wait.
            if Clocks.monotonic() >= end { return takeLine() ?? (hasEnded ? .end : .nothing) }
        }
    }

    /// Has no effect, because the descriptor belongs to the caller.
    package func close() {}

    private mutating func takeLine() -> Event? {
        if let end = unread.firstIndex(of: 0x0a) {
            let line = unread[..<end]
            defer {
                unread.removeFirst(end + 1)
                isSkipping = false
            }
            return isSkipping || line.count > Self.longestLine ? .tooLong : .line(Self.text(line))
        }
        if unread.count > Self.longestLine {
            unread = []
            isSkipping = true
        }
        guard hasEnded, !unread.isEmpty || isSkipping else { return nil }
        defer { (unread, isSkipping) = ([], false) }
        return isSkipping ? .tooLong : .line(Self.text(unread[...]))
    }

    private static func text(_ line: ArraySlice<UInt8>) -> String {
        String(decoding: line.last == 0x0d ? line.dropLast() : line, as: UTF8.self)
    }
}
