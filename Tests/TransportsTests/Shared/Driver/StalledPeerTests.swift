import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("A peer that stops reading", .timeLimit(.minutes(5)), .ownThread)
struct StalledPeerTests {
    @Test(
        "A stalled peer does not block the timers and other connections of its loop",
        arguments: 1...2
    )
    func silentBroker(quality: Int) async throws {
        let loop = try EventLoop(name: "stalled-broker")
        let broker = try SilentBroker()
        let url = "mqtt://127.0.0.1:\(broker.port)/?publish=room&qos=\(quality)&write-buffer=1000000"
        let connection = try await TransportRegistry.standard.connect(url, on: loop)
        let other = try await MemoryEcho(on: loop)
        let outcomes = await withTaskGroup(of: SendOutcome.self) { group in
            for _ in 0..<80 {
                group.addTask { await connection.send(Payload(longBytes(8192))) }
            }
            // The socket is full, there is output below the limit of the write buffer, and a message waits behind the
            // window. The loop must still tick.
            for _ in 0..<100 { await #expect(throws: Never.self) { try await other.roundTrip() } }
            await fireTimer(on: loop)
            broker.stop()
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count == 80 && outcomes.allSatisfy { !$0.isSuccess })
        await other.stop()
    }

    private func fireTimer(on loop: EventLoop) async {
        await withCheckedContinuation { continuation in
            loop.execute { _ = loop.schedule(at: loop.now + 1_000_000) { continuation.resume() } }
        }
    }
}

/// Accepts each CONNECT and reads nothing after it.
private final class SilentBroker: Sendable {
    private let listener: RawListener
    private let connections = Locked<[Int32]>([])
    var port: UInt16 { listener.port }

    init() throws {
        listener = try RawListener()
        listener.serve { [connections] _, connection in
            var byte: UInt8 = 0
            _ = recv(connection, &byte, 1, 0)
            let accepted: [UInt8] = [0x20, 2, 0, 0]
            _ = send(connection, accepted, accepted.count, Int32(MSG_NOSIGNAL))
            connections.withLock { $0.append(connection) }
        }
    }

    func stop() {
        listener.stop()
        for connection in connections.withLock({ $0 }) { close(connection) }
    }
}

/// A connection in memory to a server that sends each message back, both on one loop.
private struct MemoryEcho {
    private let listener: any Listener
    private let connection: any Connection
    private let answering: Task<Void, Never>

    init(on loop: EventLoop) async throws {
        listener = try await TransportRegistry.standard.listen(
            "memory://stalled-\(UInt64.random(in: .min ... .max))",
            on: loop
        )
        connection = try await TransportRegistry.standard.connect(listener.endpoint.description, on: loop)
        let accepted = try await listener.accept()
        answering = Task {
            while let message = try? await accepted?.receive() { _ = await accepted?.send(message) }
        }
    }

    func roundTrip() async throws {
        #expect(await connection.send(Payload(text: "still here")).isSuccess)
        #expect(try await connection.receive()?.string == "still here")
    }

    func stop() async {
        await connection.close()
        await answering.value
        await listener.close()
    }
}
