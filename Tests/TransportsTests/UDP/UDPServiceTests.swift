import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tells who spoke, message by message.
private final class Order: ServerBehaviour {
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
    @Test("Who has sent little is served in the turn in which it comes, although much comes with it")
    func sameTurn() async throws {
        let loop = try EventLoop(name: "udp-service")
        let heard = Locked<[UInt8]>([])
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("udp://127.0.0.1:0"),
            on: loop,
            mode: .behave { Order(heard) }
        )
        let modest = try DatagramStranger(port: listener.endpoint.port)
        let flooding = try DatagramStranger(port: listener.endpoint.port)
        let (one, other) = (try modest.open(), try flooding.open())

        // While the loop stands still, both say all they have to say.
        let gate = DispatchSemaphore(value: 0)
        loop.execute {
            gate.wait()
            // At the end of the turn that finds the datagrams.
            _ = loop.schedule(at: loop.now) { heard.withLock { $0.append(0) } }
        }
        modest.send([0x49, 0x4d, 1, 5] + one + [0, 0, 0, 0, 1])
        for number in 0..<40 as Range<UInt8> { flooding.send([0x49, 0x4d, 1, 5] + other + [0, 0, 0, number, 2]) }
        gate.signal()
        while heard.withLock({ $0.count }) < 42 { await Task.yield() }
        let order = heard.withLock { $0 }
        #expect(order.first == 1 && order.count { $0 == 2 } == 40)
        await listener.close()
    }
}
