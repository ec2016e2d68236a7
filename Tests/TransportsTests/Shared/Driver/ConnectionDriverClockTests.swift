import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Tests the times that a core uses to decide whether the peer is silent.
@Suite("The times that a driver reports to its core", .timeLimit(.minutes(5)), .ownThread)
struct ConnectionDriverClockTests {
    @Test("`unreadUntil` follows the clock while the inbox is full and stops when it has room again")
    func unread() async throws {
        let loop = try EventLoop(name: "clocks")
        await withTaskExecutorPreference(loop) { await fillInbox(on: loop) }
    }

    private func fillInbox(on loop: EventLoop) async {
        let (probe, channel) = (Probe(), SlowChannel(loop))
        var limits = ConnectionLimits()
        limits.inboxMessages = 1
        let driver = ConnectionDriver(ProbeCore(probe: probe), over: channel, on: loop, limits: limits)
        channel.incoming = [1, 2]
        driver.start()
        driver.ready(.read)
        await probe.look(driver)
        #expect(probe.looks.last?.unreadUntil == probe.looks.last?.now)
        for _ in 0..<2 { _ = driver.takeMessage() }
        let resumed = driver.context.unreadUntil
        #expect(resumed.nanoseconds == loop.now)
        await probe.look(driver)
        #expect(probe.looks.count == 2 && probe.looks.last?.unreadUntil == resumed)
        driver.close(abort: true)
    }

    @Test("`outputMoved` changes only when output starts to wait or when the peer takes some of it")
    func output() async throws {
        let loop = try EventLoop(name: "clocks")
        await withTaskExecutorPreference(loop) { await writeSlowly(on: loop) }
    }

    private func writeSlowly(on loop: EventLoop) async {
        let (probe, channel) = (Probe(), SlowChannel(loop))
        let driver = ConnectionDriver(ProbeCore(probe: probe), over: channel, on: loop)
        driver.start()
        _ = driver.sendNow(Payload([1, 2, 3]))
        await channel.flushed(by: driver)
        // Output that never waited does not count.
        #expect(channel.taken == 3 && driver.context.outputMoved == .zero)
        channel.room = 10
        _ = driver.sendNow(Payload([UInt8](repeating: 0, count: 100)))
        await channel.flushed(by: driver)
        let began = driver.context.outputMoved
        #expect(began.nanoseconds == channel.flushedAt)
        await channel.flushed(by: driver)
        #expect(channel.taken == 13 && driver.context.outputMoved == began)
        channel.room = 10
        await channel.flushed(by: driver)
        #expect(channel.taken == 23 && driver.context.outputMoved.nanoseconds == channel.flushedAt)
        channel.room = 1000
        await channel.flushed(by: driver)
        let ended = driver.context.outputMoved
        #expect(channel.taken == 103 && ended.nanoseconds == channel.flushedAt)
        _ = driver.sendNow(Payload([1, 2, 3]))
        await channel.flushed(by: driver)
        #expect(channel.taken == 106 && driver.context.outputMoved == ended)
        driver.close(abort: true)
    }
}

/// The values that a core has received. Unchecked, because only the loop touches it.
private final class Probe: @unchecked Sendable {
    var due: Instant?
    var looks: [(now: Instant, unreadUntil: Instant)] = []

    /// Makes the driver call its core's deadline, which has passed already.
    func look(_ driver: ConnectionDriver) async {
        let before = looks.count
        due = Instant(nanoseconds: driver.loop.now)
        driver.armTimer()
        while looks.count == before, !Task.isCancelled { await Task.yield() }
    }
}

/// Opens at once. Each byte is a message.
private struct ProbeCore: PackageCore {
    let probe: Probe
    var isOpen = false

    init(probe: Probe) {
        self.probe = probe
    }

    var capabilities: Capabilities { Capabilities(hasNativePing: false, maximumMessageSize: 1000) }
    var deadline: Instant? { probe.due }

    mutating func start(_: inout CoreContext) {}

    mutating func next(_ input: inout ByteBuffer, _: inout CoreContext) throws(TransportError) -> CoreEvent? {
        guard isOpen else {
            isOpen = true
            return .opened
        }
        guard let byte = input.byte(at: 0) else { return nil }
        input.consume(1)
        return .message(Payload([byte]))
    }

    mutating func inputEnded(_: inout CoreContext) throws(TransportError) -> CoreEvent { .closed(.user) }

    mutating func send(
        _ payload: Payload,
        id _: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        context.output.append(contentsOf: payload.bytes)
        return .written
    }

    mutating func ping(_: inout CoreContext) throws(TransportError) -> UInt64 { 0 }
    mutating func close(_: CloseReason, _: inout CoreContext) {}

    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        probe.due = nil
        probe.looks.append((context.now, context.unreadUntil))
    }
}

/// A byte stream in memory, whose peer takes as many bytes as there is room for.
private final class SlowChannel: ByteChannel {
    private let loop: EventLoop
    var incoming: [UInt8] = []
    var room = 1000
    private(set) var taken = 0
    private(set) var flushes = 0
    private(set) var flushedAt: Int64 = 0

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    /// Waits until the driver has flushed as much as it can.
    func flushed(by driver: ConnectionDriver) async {
        let before = flushes
        driver.ready(.write)
        while flushes == before, !Task.isCancelled { await Task.yield() }
    }

    let bytesSent: UInt64 = 0
    let bytesReceived: UInt64 = 0

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let piece = incoming.prefix(buffer.count)
        guard !piece.isEmpty else { return .wouldBlock }
        buffer.copyBytes(from: piece)
        incoming.removeFirst(piece.count)
        return .bytes(piece.count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { incoming.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        let count = min(room, bytes.count)
        room -= count
        taken += count
        // A flush ends with the write of the last byte, or with one that has no room.
        guard count == 0 || count == bytes.count else { return .bytes(count) }
        flushes += 1
        flushedAt = loop.now
        return count > 0 ? .bytes(count) : .wouldBlock
    }

    func shutdownWriting() -> Bool { true }
    func close(abort _: Bool) {}
}
