import SocketIO
import TestSupport
import TransportAPI

@testable import Protocols
@testable import Transports

/// A byte stream that a test controls. It lives on the loop of its driver.
final class ScriptedChannel: ByteChannel {
    enum Arrival {
        case bytes([UInt8])
        case end
        /// An errno.
        case failure(Int32)
    }

    /// The results of the next reads. After the last one, a read would block.
    var arriving: [Arrival] = []
    /// The number of bytes that the channel still takes.
    var room = Int.max
    /// The errno of the next write.
    var writeFailure: Int32?
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    /// All bytes that the channel has taken.
    private(set) var sent: [UInt8] = []

    func attach(_: any PollHandler) throws(SystemError) {}

    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !arriving.isEmpty else { return .wouldBlock }
        switch arriving.removeFirst() {
        case .bytes(let bytes):
            let count = min(bytes.count, buffer.count)
            buffer.copyBytes(from: bytes[..<count])
            if count < bytes.count { arriving.insert(.bytes(Array(bytes[count...])), at: 0) }
            bytesReceived += UInt64(count)
            return .bytes(count)
        case .end: return .end
        case .failure(let number): return .failed(SystemError("recv", number))
        }
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { arriving.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let number = writeFailure { return .failed(SystemError("send", number)) }
        let count = min(room, bytes.count)
        guard count > 0 else { return .wouldBlock }
        // Large messages are not recorded.
        if count <= 1 << 16 { sent += bytes[..<count] }
        bytesSent += UInt64(count)
        room -= count
        return .bytes(count)
    }

    func shutdownWriting() -> Bool { true }

    func close(abort _: Bool) {}
}

/// A driver over such a channel. The test acts as its loop. The object can be its own owner, as an acceptor is on a
/// server.
final class DrivenConnection: DriverOwner {
    let channel = ScriptedChannel()
    let driver: ConnectionDriver
    /// The sum of the memory changes that the owner was notified of.
    private(set) var reportedMemory = 0

    init(_ core: any PackageCore, on loop: EventLoop) {
        driver = ConnectionDriver(core, over: channel, on: loop)
        driver.start()
        driver.flushIfRequested()
    }

    /// Runs `body` on a loop, where drivers live.
    static func onLoop<Value: Sendable>(
        _ body: @escaping @Sendable (EventLoop) throws -> Value
    ) async throws -> Value {
        let loop = EventLoop.shared
        return try await withCheckedThrowingContinuation { continuation in
            loop.execute { continuation.resume(with: Result { try body(loop) }) }
        }
    }

    /// Delivers the arrivals and ends the tick.
    func arrive(_ arrivals: ScriptedChannel.Arrival...) {
        channel.arriving += arrivals
        driver.ready(.read)
        // A driver with more input than one read takes is deferred.
        repeat {
            if driver.isDeferred { driver.loop.runNow(driver, for: .deferred) }
        } while driver.isDeferred && !channel.arriving.isEmpty
        driver.flushIfRequested()
    }

    /// Takes `count` bytes of the buffered output.
    func take(_ count: Int) {
        channel.room = count
        driver.ready(.write)
        driver.flushIfRequested()
    }

    /// Writes bytes without encoding them.
    func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { driver.sendEncoded($0) }
        driver.flushIfRequested()
    }

    func memoryChanged(by bytes: Int) { reportedMemory += bytes }
    func closed(_: ConnectionDriver) {}
}
