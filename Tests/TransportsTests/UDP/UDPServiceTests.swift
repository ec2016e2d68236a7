import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tells who spoke, message by message.
private final class Order: MessageHandler {
    private let heard: Locked<[UInt8]>

    init(_ heard: Locked<[UInt8]>) {
        self.heard = heard
    }

    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from _: any MessagePeer) {
        heard.withLock { $0.append(payload.bytes.first ?? 0) }
    }

    func ended(_: any MessagePeer) {}
}

@Suite("UDP, the order of service", .timeLimit(.minutes(5)), .ownThread)
struct UDPServiceTests {
    /// Whom a server hears, in this order, when both speak while its loop stands still: 1 has one word to say, 2 floods
    /// it; 0 is the end of the turn that finds them.
    private func spoken(isModestFirst: Bool, flood: UInt8) async throws -> [UInt8] {
        let loop = try EventLoop(name: "udp-service")
        let heard = Locked<[UInt8]>([])
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("udp://127.0.0.1:0"),
            on: loop,
            .handle { Order(heard) }
        )
        let modest = try DatagramStranger(port: listener.endpoint.port)
        let flooding = try DatagramStranger(port: listener.endpoint.port)
        let (one, other) = (try modest.open(), try flooding.open())

        let gate = DispatchSemaphore(value: 0)
        loop.execute {
            gate.wait()
            // At the end of the turn that finds the datagrams.
            _ = loop.schedule(at: loop.now) { heard.withLock { $0.append(0) } }
        }
        let word = [0x49, 0x4d, 1, 5] + one + [0, 0, 0, 0, 1]
        if isModestFirst { modest.send(word) }
        for number in 0..<flood { flooding.send([0x49, 0x4d, 1, 5] + other + [0, 0, 0, number, 2]) }
        if !isModestFirst { modest.send(word) }
        gate.signal()
        while heard.withLock({ $0.count }) < Int(flood) + 2 { await Task.yield() }
        await listener.close()
        return heard.withLock { $0 }
    }

    @Test("Who has sent little is served in the turn in which it comes, although much comes with it")
    func sameTurn() async throws {
        let order = try await spoken(isModestFirst: true, flood: 40)
        #expect(order.first == 1 && order.count { $0 == 2 } == 40)
    }

    @Test("Who has sent little is served before most of a flood that came earlier, of which nothing is lost")
    func behindFlood() async throws {
        let order = try await spoken(isModestFirst: false, flood: 200)
        #expect(order.firstIndex(of: 1).map { $0 < 100 } == true && order.count { $0 == 2 } == 200)
    }
}
