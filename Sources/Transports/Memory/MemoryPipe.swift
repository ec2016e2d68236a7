import Protocols
import SocketIO

/// One direction of an in-memory connection: a bounded queue of bytes between two loops. Each side receives a signal
/// only after its last call has returned `.wouldBlock`, as with an edge-triggered socket.
final class MemoryPipe: Sendable {
    /// The maximum number of bytes that wait for the reader.
    static let capacity = 256 * 1024

    /// Notifies one side, on its own loop, that it can continue.
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

    /// Returns whether the pipe is empty and not ended. If so, the reader receives a signal when bytes arrive.
    func awaitsMore() -> Bool {
        state.withLock { state in
            guard state.bytes.isEmpty, !state.isEnded else { return false }
            state.readerWaits = true
            return true
        }
    }

    /// The number of bytes that wait for the reader.
    var count: Int { state.withLock { $0.bytes.count } }

    /// Ends the pipe for the writer, which writes nothing more.
    func end() {
        let wake = state.withLock { state in
            state.isEnded = true
            state.wakeWriter = nil
            return state.takeReader()
        }
        wake?()
    }

    /// Closes the pipe for the reader, and discards the bytes in it.
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
