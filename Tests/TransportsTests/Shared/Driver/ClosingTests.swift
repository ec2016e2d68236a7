import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("A connection that its user closes", .timeLimit(.minutes(5)), .ownThread)
struct ClosingTests {
    /// More bytes than the buffers of both kernels take.
    private static let size = 16 << 20

    @Test("`close` returns when the peer has read all written bytes", arguments: ["framed", "u32"])
    func slowReader(framing: String) async throws {
        let server = try GatedReader()
        let url = "tcp://127.0.0.1:\(server.port)?framing=\(framing)&write-buffer=\(1 << 30)&close-timeout=20s"
        let connection = try await TransportRegistry.standard.connect(url)
        let message = Payload(longBytes(1 << 20))
        for _ in 0..<Self.size >> 20 { #expect(await connection.send(message) == .written) }
        async let undelivered = connection.close()
        server.open()
        #expect(await undelivered == 0)
        #expect(server.received >= Self.size)
    }

    @Test("`close` reports the number of bytes that a stalled peer did not take")
    func silentReader() async throws {
        let server = try GatedReader()
        defer { server.open() }
        let url = "tcp://127.0.0.1:\(server.port)?framing=u32&write-buffer=\(1 << 30)&close-timeout=50ms"
        let connection = try await TransportRegistry.standard.connect(url)
        let message = Payload(longBytes(1 << 20))
        for _ in 0..<Self.size >> 20 { #expect(await connection.send(message) == .written) }
        let undelivered = await connection.close()
        #expect(undelivered > 0 && undelivered < Self.size + 1000)
        #expect(await connection.closed().initiator == .user)
        #expect(await connection.close() == undelivered)
    }

    @Test("`close` rejects the messages that wait for room, and later ones")
    func waitingSends() async throws {
        let server = try GatedReader()
        defer { server.open() }
        let url = "tcp://127.0.0.1:\(server.port)?framing=u32&write-buffer=1000000&close-timeout=50ms"
        let connection = try await TransportRegistry.standard.connect(url)
        let message = Payload(longBytes(1 << 20))
        let outcomes = await withTaskGroup(of: SendOutcome.self) { group in
            for _ in 0..<Self.size >> 20 { group.addTask { await connection.send(message) } }
            group.addTask {
                await connection.close()
                return await connection.send(message)
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let rejected = outcomes.filter {
            if case .rejected(let error) = $0 { error.code == .closedByUser } else { false }
        }
        #expect(!rejected.isEmpty)
        #expect(outcomes.allSatisfy { $0 == .written || rejected.contains($0) })
    }

    @Test("`close` sends DISCONNECT to a broker before it returns, so that no will is published", arguments: 0..<20)
    func disconnect(run: Int) async throws {
        let broker = try GatedReader(answer: [0x20, 2, 0, 0])
        broker.open()
        let connection = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(broker.port)/?publish=room")
        #expect(await connection.send(Payload(text: "last words")) == .written)
        #expect(await connection.close() == 0)
        #expect(broker.last == [0xE0, 0])
    }

    @Test("A connection closes even if the task that waits for `close` is cancelled")
    func cancelled() async throws {
        let server = try GatedReader()
        let url = "tcp://127.0.0.1:\(server.port)?framing=u32&write-buffer=\(1 << 30)&close-timeout=30s"
        let connection = try await TransportRegistry.standard.connect(url)
        #expect(await connection.send(Payload(longBytes(Self.size))) == .written)
        let closing = Task { await connection.close() }
        closing.cancel()
        #expect(await closing.value > 0)
        server.open()
        #expect(await connection.close() == 0)
        #expect(server.received >= Self.size)
    }

    @Test("The close timeout starts again whenever the peer takes bytes, within a total")
    func progress() {
        var limits = ConnectionLimits()
        (limits.closeTimeout, limits.closeTotal) = (.nanoseconds(10), .nanoseconds(25))
        var close = CloseProgress(now: 100, left: 50)
        #expect(close.deadline(limits) == 110)
        let steps: [(left: Int, now: Int64, hasMoved: Bool, deadline: Int64)] = [
            (50, 105, false, 110), (40, 108, true, 118), (60, 110, false, 118), (1, 117, true, 125),
        ]
        for step in steps {
            let hasMoved = close.update(left: step.left, now: step.now)
            #expect(hasMoved == step.hasMoved && close.deadline(limits) == step.deadline)
        }
    }
}

/// Accepts connections, reads only once it is opened, and closes after the end of the input.
private final class GatedReader: Sendable {
    private struct State {
        var isOpen = false
        var received = 0
        var last: [UInt8] = []
    }

    private let listener: RawListener
    private let condition = NSCondition()
    private let state = Locked(State())

    var port: UInt16 { listener.port }
    /// The number of bytes that were read.
    var received: Int { state.withLock { $0.received } }
    /// The last two bytes that were read.
    var last: [UInt8] { state.withLock { $0.last } }

    /// - Parameter answer: The bytes that are sent when the first byte has come.
    init(answer: [UInt8] = []) throws {
        listener = try RawListener()
        listener.serve { [self] _, connection in
            listener.stop()
            if !answer.isEmpty {
                var byte: UInt8 = 0
                _ = recv(connection, &byte, 1, Int32(MSG_PEEK))
                _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
            }
            condition.withLock { while !state.withLock({ $0.isOpen }) { condition.wait() } }
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while case let count = recv(connection, &buffer, buffer.count, 0), count > 0 {
                state.withLock {
                    $0.received += count
                    $0.last = Array(($0.last + buffer[..<count].suffix(2)).suffix(2))
                }
            }
            close(connection)
        }
    }

    func open() {
        condition.withLock {
            state.withLock { $0.isOpen = true }
            condition.broadcast()
        }
    }
}
