import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// A channel whose datagrams a test carries.
private final class Wire: ByteChannel {
    private(set) var sent: [[UInt8]] = []
    private var arrived: [[UInt8]] = []

    var isDatagram: Bool { true }
    var bytesSent: UInt64 { 0 }
    var bytesReceived: UInt64 { 0 }

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !arrived.isEmpty else { return .wouldBlock }
        let datagram = arrived.removeFirst()
        buffer.copyBytes(from: datagram)
        return .bytes(datagram.count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { arrived.isEmpty }

    func write(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        sent.append(Array(datagram))
        return .bytes(datagram.count)
    }

    func shutdownWriting() -> Bool { false }
    func close(abort _: Bool) {}

    func add(_ datagram: [UInt8]) { arrived.append(datagram) }

    func takeSent() -> [[UInt8]] {
        defer { sent = [] }
        return sent
    }
}

@Suite("Reliable UDP: closing while receiving", .timeLimit(.minutes(5)), .ownThread)
struct ClosingReceiverTests {
    /// The results of a run.
    private struct Outcome: Sendable {
        var isWellFormed = true
        var received = 0
        var arrived: [[UInt8]] = []
        var closes = 0
    }

    /// Carries datagrams both ways until both sides are silent.
    private static func carry(
        _ datagrams: [[UInt8]],
        _ driver: ConnectionDriver,
        _ wire: Wire,
        _ server: inout SimulatedServer,
        _ outcome: inout Outcome
    ) {
        var toClient = datagrams
        while true {
            for datagram in toClient {
                wire.add(datagram)
                driver.ready(.read)
            }
            toClient = []
            driver.flushIfRequested()
            let sent = wire.takeSent()
            if sent.isEmpty { return }
            for datagram in sent {
                var buffer = ByteBuffer()
                buffer.append(contentsOf: datagram)
                if Datagram.kind(of: buffer) == nil { outcome.isWellFormed = false }
                toClient += server.receive(datagram)
            }
        }
    }

    /// Sends and receives over one driver, all in one tick of its loop.
    private static func run(on loop: EventLoop) throws -> Outcome {
        var outcome = Outcome()
        var server = try SimulatedServer(.ordered)
        let core = try UDPCore(client: UDPConfiguration(reliability: .ordered, maximumReliableSize: 20_000))
        let wire = Wire()
        let driver = ConnectionDriver(core, over: wire, on: loop)
        driver.start()
        carry([], driver, wire, &server, &outcome)
        let first = server.sessions.keys.first
        let identifier = try #require(first)
        // The messages fill more than a quarter of the window, so that the client has to report when they are taken.
        var messages: [[UInt8]] = []
        for byte in 0..<5 as Range<UInt8> {
            messages += server.run(identifier) { core, context in
                _ = try? core.send(Payload([UInt8](repeating: byte, count: 20_000)), id: 0, &context)
            }
        }
        carry(messages, driver, wire, &server, &outcome)
        for byte in 0..<4 as Range<UInt8> { _ = driver.sendNow(Payload([byte])) }
        driver.beginClose(.user)
        for _ in 0..<5 { if case .success(.some(_))? = driver.takeMessage() { outcome.received += 1 } }
        carry([], driver, wire, &server, &outcome)
        outcome.arrived = server.messages
        outcome.closes = server.closeReasons.count
        return outcome
    }

    @Test(
        "Messages sent before a close arrive, and the close arrives behind them, although messages are taken meanwhile"
    )
    func closing() async throws {
        let loop = EventLoop.shared
        let outcome: Outcome = try await withCheckedThrowingContinuation { continuation in
            loop.execute { continuation.resume(with: Result { try Self.run(on: loop) }) }
        }
        #expect(outcome.received == 5 && outcome.isWellFormed)
        #expect(outcome.arrived == [[0], [1], [2], [3]] && outcome.closes == 1)
    }
}
