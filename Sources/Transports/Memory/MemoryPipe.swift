import Protocols
import SocketIO

/// One direction of an in-memory connection: a bounded run of bytes between two loops. Each side is told of an edge only
/// after it has met "would block", as with a socket.
final class MemoryPipe: Sendable {
    /// How many bytes may wait for the reader.
    static let capacity = 256 * 1024

    /// Tells one side that it can go on, on that side's loop.
    typealias Signal = @Sendable () -> Void

    private struct State: ~Copyable {
        var bytes = ByteBuffer()
        var isEnded = false
        var isClosed = false
        var readerWaits = false
        var writerWaits = false
        var wakeReader: Signal?
        var wakeWriter: Signal?

        mutating func takeReader() -> Signal? {
            guard readerWaits else { return nil }
            readerWaits = false
            return wakeReader
        }

        mutating func takeWriter() -> Signal? {
            guard writerWaits else { return nil }
            writerWaits = false
            return wakeWriter
        }
    }

    private let state = Locked(State())

    func setReader(_ wake: @escaping Signal) {
        state.withLock { $0.wakeReader = wake }
    }

    func setWriter(_ wake: @escaping Signal) {
        state.withLock { $0.wakeWriter = wake }
    }

    func write(_ source: UnsafeRawBufferPointer) -> IOResult {
        var wake: Signal?
        let result: IOResult = state.withLock { state in
            guard !state.isClosed, !state.isEnded else { return .failed(SystemError("write", EPIPE)) }
            let room = min(Self.capacity - state.bytes.count, source.count)
            guard room > 0 else {
                state.writerWaits = true
                return .wouldBlock
            }
            state.bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: source[..<room]))
            wake = state.takeReader()
            return .bytes(room)
        }
        wake?()
        return result
    }

    func read(into target: UnsafeMutableRawBufferPointer) -> IOResult {
        var wake: Signal?
        let result: IOResult = state.withLock { state in
            let count = min(state.bytes.count, target.count)
            guard count > 0 else {
                if state.isEnded { return .end }
                state.readerWaits = true
                return .wouldBlock
            }
            state.bytes.withUnsafeReadableBytes {
                target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count]))
            }
            state.bytes.consume(count)
            wake = state.takeWriter()
            return .bytes(count)
        }
        wake?()
        return result
    }

    /// Whether nothing is left and more may come, of which the reader hears from now on.
    func awaitsMore() -> Bool {
        state.withLock { state in
            guard state.bytes.isEmpty, !state.isEnded else { return false }
            state.readerWaits = true
            return true
        }
    }

    /// How many bytes wait for the reader.
    var count: Int { state.withLock { $0.bytes.count } }

    /// The writer has nothing more to say.
    func end() {
        let wake = state.withLock { state in
            state.isEnded = true
            state.wakeWriter = nil
            return state.takeReader()
        }
        wake?()
    }

    /// The reader is gone.
    func close() {
        let wake = state.withLock { state in
            state.isClosed = true
            state.bytes = ByteBuffer()
            state.wakeReader = nil
            return state.takeWriter()
        }
        wake?()
    }
}
