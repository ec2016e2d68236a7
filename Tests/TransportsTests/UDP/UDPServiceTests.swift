import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Records the first byte of each message in order of receipt.
private final class Order: MessageHandler {
    private let order: Locked<[UInt8]>

    init(_ order: Locked<[UInt8]>) {
        self.order = order
    }

    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from _: any MessagePeer) {
        order.withLock { $0.append(payload.bytes.first ?? 0) }
    }

    func ended(_: any MessagePeer) {}
}

@Suite("UDP: the order of service", .timeLimit(.minutes(5)), .ownThread)
struct UDPServiceTests {
    /// Returns the order in which a server processes the messages of two clients that both sent while its loop was
    /// blocked. 1 is the single message of the quiet client, 2 is a message of the flood, and 0 is the end of the tick
    /// that reads them.
    private func processed(isQuietFirst: Bool, flood: UInt8) async throws -> [UInt8] {
        let loop = try EventLoop(name: "udp-service")
        let order = Locked<[UInt8]>([])
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("udp://127.0.0.1:0"),
            on: loop,
            .handle { Order(order) }
        )
        let quiet = try RawDatagramClient(port: listener.endpoint.port)
        let flooding = try RawDatagramClient(port: listener.endpoint.port)
        let (one, other) = (try quiet.open(), try flooding.open())

        let gate = DispatchSemaphore(value: 0)
        loop.execute {
            gate.wait()
            // This timer runs at the end of the tick that reads the datagrams.
            _ = loop.schedule(at: loop.now) { order.withLock { $0.append(0) } }
        }
        let message = [0x49, 0x4d, 1, 5] + one + [0, 0, 0, 0, 1]
        if isQuietFirst { quiet.send(message) }
        for number in 0..<flood { flooding.send([0x49, 0x4d, 1, 5] + other + [0, 0, 0, number, 2]) }
        if !isQuietFirst { quiet.send(message) }
        gate.signal()
        try await Task.yield(while: order.withLock({ $0.count }) < Int(flood) + 2)
        await listener.close()
        return order.withLock { $0 }
    }

    @Test("A client that sends little is served in the tick of its arrival although much arrives with it")
    func sameTick() async throws {
        let order = try await processed(isQuietFirst: true, flood: 40)
        #expect(order.first == 1 && order.count { $0 == 2 } == 40)
    }

    @Test("A client that sends little is served before most of an earlier flood, and the flood loses nothing")
    func behindFlood() async throws {
        let order = try await processed(isQuietFirst: false, flood: 200)
        #expect(order.firstIndex(of: 1).map { $0 < 100 } == true && order.count { $0 == 2 } == 200)
    }
}
