import Protocols
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// TLS handshakes in memory, of which one direction stops.
@Suite("TLS handshakes that stop", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct StoppedHandshakeTests {
    @Test(
        "A side whose handshake stops at any byte waits, and ends when its time is over",
        arguments: [TLSSettings.Side.client, .server]
    )
    func stops(sender: TLSSettings.Side) async throws {
        let loop = try EventLoop(name: "stopped-handshakes")
        try await withTaskExecutorPreference(loop) { try await stop(sender, on: loop) }
    }

    private func stop(_ sender: TLSSettings.Side, on loop: EventLoop) async throws {
        let engines = try RawEngines()
        let whole = try Handshake(engines, on: loop)
        whole.run(sender, stoppingAt: .max)
        #expect(whole.waiting.isEmpty)
        whole.close()
        #expect(whole.passed > 200)
        // A signature can be some bytes shorter than in the first handshake.
        for offset in stride(from: 0, to: whole.passed - 16, by: 23) {
            let handshake = try Handshake(engines, on: loop)
            handshake.run(sender, stoppingAt: offset)
            let waiting = handshake.waiting
            #expect(!waiting.isEmpty, "stopped at byte \(offset)")
            // No timer has fired yet, because all of this is one job of the loop.
            #expect(handshake.client.driver.reason == nil && handshake.server.driver.reason == nil)
            for driver in waiting {
                while driver.phase != .closed, !Task.isCancelled { await Task.yield() }
                let error = driver.reason?.error
                #expect(error?.code == .timedOut && error?.phase == .secure, "stopped at byte \(offset)")
            }
            handshake.close()
        }
    }
}

/// A client and a server whose bytes a test moves. The time of both handshakes is over when the loop runs its timers.
private final class Handshake: DriverOwner {
    let client: Side
    let server: Side
    /// How many bytes the limited side has sent before the handshake of its peer was complete.
    private(set) var passed = 0

    init(_ engines: RawEngines, on loop: EventLoop) throws {
        client = Side(try FramedTCPCore(), try engines.engine(.client), .client, on: loop)
        server = Side(try FramedTCPCore(), try engines.engine(.server), .server, on: loop)
        // The limit of a client is that of its attempt. A server has one for the handshake, which an owner turns on.
        client.driver.deadlines.phase = loop.now
        server.driver.owner = self
        for side in [client, server] {
            side.driver.start()
            side.advance()
        }
    }

    /// The drivers whose handshakes are not complete.
    var waiting: [ConnectionDriver] { [client.driver, server.driver].filter { $0.channel.encryption == nil } }

    /// Moves bytes until none is left. Of those of `sender`, the first `limit` arrive.
    func run(_ sender: TLSSettings.Side, stoppingAt limit: Int) {
        var arrived = 0
        var hasMoved = true
        while hasMoved {
            hasMoved = false
            for (from, to) in [(client, server), (server, client)] {
                var bytes = from.stream.take()
                if !bytes.isEmpty { hasMoved = true }
                if from.side == sender {
                    if to.driver.channel.encryption == nil { passed += bytes.count }
                    bytes = Array(bytes.prefix(limit - arrived))
                    arrived += bytes.count
                }
                to.receive(bytes)
            }
        }
    }

    func close() {
        for side in [client, server] { side.driver.close(abort: true) }
    }

    func closed(_: ConnectionDriver) {}

    /// One side and the stream below it.
    final class Side {
        let side: TLSSettings.Side
        let stream = MemoryStream()
        let driver: ConnectionDriver

        init(_ core: any PackageCore, _ engine: any TLSEngine, _ side: TLSSettings.Side, on loop: EventLoop) {
            self.side = side
            var limits = ConnectionLimits()
            limits.secureTimeout = .zero
            driver = ConnectionDriver(
                core,
                over: TLSStream(over: stream, engine, side, on: loop),
                on: loop,
                limits: limits
            )
        }

        /// Takes the steps of the handshake that are due.
        func advance() {
            for _ in 0..<100 where driver.schedule.contains(.handshake) { driver.loop.runNow(driver, for: .handshake) }
        }

        func receive(_ bytes: [UInt8]) {
            guard !bytes.isEmpty else { return }
            stream.arrive(bytes)
            driver.ready(.read)
            advance()
        }
    }
}

/// A byte stream whose other end is a test.
private final class MemoryStream: ByteChannel {
    private var arrived: ArraySlice<UInt8> = []
    private var written: [UInt8] = []
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !arrived.isEmpty else { return .wouldBlock }
        let count = min(arrived.count, buffer.count)
        buffer.copyBytes(from: arrived.prefix(count))
        arrived = arrived.dropFirst(count)
        bytesReceived += UInt64(count)
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { arrived.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        written += bytes
        bytesSent += UInt64(bytes.count)
        return .bytes(bytes.count)
    }

    func shutdownWriting() -> Bool { true }
    func close(abort _: Bool) {}

    // MARK: The other end

    func arrive(_ bytes: [UInt8]) { arrived += bytes }

    /// Takes all written bytes.
    func take() -> [UInt8] {
        defer { written = [] }
        return written
    }
}
