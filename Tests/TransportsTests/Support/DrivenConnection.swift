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

    var isDatagram: Bool { false }
    var roundTripsToConnect: Int { 0 }
    var segmentCounts: SegmentCounts? { nil }

    func attach(_: any PollHandler) throws(SystemError) {}

    func note(_: Readiness) {}

    func read(into input: inout ByteBuffer, atMost _: Int) -> IOResult {
        guard !arriving.isEmpty else { return .wouldBlock }
        switch arriving.removeFirst() {
        case .bytes(let bytes):
            input.append(contentsOf: bytes)
            bytesReceived += UInt64(bytes.count)
            return .bytes(bytes.count)
        case .end: return .end
        case .failure(let number): return .failed(SystemError("recv", number))
        }
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { arriving.isEmpty }

    func flush(_ context: inout CoreContext) -> IOResult {
        guard !context.output.isEmpty else { return .bytes(0) }
        if let number = writeFailure { return .failed(SystemError("send", number)) }
        let count = min(room, context.output.count)
        // Large messages are not recorded.
        if count <= 1 << 16 { sent += context.output.bytes(at: 0, count: count) ?? [] }
        context.output.consume(count)
        bytesSent += UInt64(count)
        room -= count
        return context.output.isEmpty ? .bytes(0) : .wouldBlock
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

    init(_ core: any ProtocolCore, on loop: EventLoop) {
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
        if driver.isDeferred { driver.loop.runNow(driver, for: .deferred) }
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
