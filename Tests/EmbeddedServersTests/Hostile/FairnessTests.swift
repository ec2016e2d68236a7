import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Records the first byte of each message in order of receipt.
private final class Order: MessageHandler {
    private let received: Locked<[UInt8]>
    private let clients: Locked<Int>

    init(_ received: Locked<[UInt8]>, clients: Locked<Int> = Locked(0)) {
        (self.received, self.clients) = (received, clients)
    }

    func opened(_: any MessagePeer) {
        clients.withLock { $0 += 1 }
    }

    func received(_ payload: Payload, from _: any MessagePeer) {
        received.withLock { $0.append(payload.bytes.first ?? 0) }
    }

    func ended(_: any MessagePeer) {}
}

@Suite("Fairness among the clients of one loop", .timeLimit(.minutes(5)), .ownThread)
struct FairnessTests {
    @Test("A client that floods the server leaves time for others in between")
    func floodOfMessages() async throws {
        let loop = try EventLoop(name: "fairness")
        let received = Locked<[UInt8]>([])
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("tcp://127.0.0.1:0"),
            on: loop,
            .handle { Order(received) }
        )
        let flooding = try HostileClient(port: try #require(listener.endpoint.port))
        let quiet = try HostileClient(port: try #require(listener.endpoint.port))
        let single: [UInt8] = [0, 0, 0, 1, 2]
        #expect(quiet.sendWhatFits(single, atMost: single.count) == single.count)
        try await Task.yield(while: received.withLock({ $0 }) != [2])

        // Both clients send all their messages while the loop is blocked.
        let gate = await halt(loop)
        let message: [UInt8] = [0, 0, 0, 1, 1]
        let count =
            flooding.sendWhatFits(Array(repeatElement(message, count: 1000).joined()), atMost: 500_000) / message.count
        #expect(count > 10_000)
        #expect(quiet.sendWhatFits(single, atMost: single.count) == single.count)
        try await Task.yield(while: !quiet.isDelivered)
        gate.signal()
        try await Task.yield(while: received.withLock({ $0.count }) < count + 2)
        let place = received.withLock { $0.lastIndex(of: 2) }
        #expect(try #require(place) < count / 2)
        await listener.close()
    }

    @Test(
        "A known client is served before most of the flood of many new clients, with or without a handshake",
        arguments: ["tcp", "ws"]
    )
    func manyNewClients(transport: String) async throws {
        let loop = try EventLoop(name: "newClients")
        let (received, clients) = (Locked<[UInt8]>([]), Locked(0))
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("\(transport)://127.0.0.1:0"),
            on: loop,
            .handle { Order(received, clients: clients) }
        )
        let port = try #require(listener.endpoint.port)
        func message(_ byte: UInt8) -> [UInt8] { transport == "ws" ? frame(0x82, [byte]) : [0, 0, 0, 1, byte] }
        func client() async throws -> HostileClient {
            let client = try HostileClient(port: port)
            if transport == "ws" { await client.upgrade() }
            return client
        }
        let quiet = try await client()
        let single = message(2)
        #expect(quiet.sendWhatFits(single, atMost: single.count) == single.count)
        try await Task.yield(while: received.withLock({ $0 }) != [2])

        var newClients: [HostileClient] = []
        for _ in 0..<50 { newClients.append(try await client()) }
        try await Task.yield(while: clients.withLock({ $0 }) < 51)
        let gate = await halt(loop)
        let flood = Array(repeatElement(message(1), count: 1000).joined())
        for client in newClients { #expect(client.sendWhatFits(flood, atMost: flood.count) == flood.count) }
        #expect(quiet.sendWhatFits(single, atMost: single.count) == single.count)
        try await Task.yield(while: !(newClients + [quiet]).allSatisfy(\.isDelivered))
        gate.signal()
        try await Task.yield(while: received.withLock({ $0.count }) < 50_002)
        // At most one of the new clients, which may be in progress already, is served before.
        let place = try #require(received.withLock { $0.lastIndex(of: 2) })
        #expect(place <= 1001)
        await listener.close()
        withExtendedLifetime(newClients) {}
    }

    @Test("A client whose messages take long leaves time for others in between")
    func timeBudgets() async throws {
        let loop = try EventLoop(name: "shares")
        let order = Locked<[Int]>([])
        let soFar = await withCheckedContinuation { continuation in
            loop.execute {
                for number in 0..<3 { loop.add(Worker(number, order, loop), to: .deferred) }
                _ = loop.schedule(at: loop.now) { continuation.resume(returning: order.withLock { $0.count }) }
            }
        }
        // The timer ran although none of the three workers had finished.
        #expect(soFar < 3 * Worker.steps)
        try await Task.yield(while: order.withLock({ $0.count }) < 3 * Worker.steps)
        let first = order.withLock { Array($0.prefix(6)) }
        #expect(first == [0, 1, 2, 0, 1, 2])
    }
}

/// Blocks the loop until the semaphore is signalled. The loop is blocked when this returns.
private func halt(_ loop: EventLoop) async -> DispatchSemaphore {
    let gate = DispatchSemaphore(value: 0)
    await withCheckedContinuation { continuation in
        loop.execute {
            continuation.resume()
            gate.wait()
        }
    }
    return gate
}

/// Works for a whole time budget, many times.
private final class Worker: ScheduledHandler {
    var schedule = ScheduleEntry()
    static let steps = 20
    private let number: Int
    private let order: Locked<[Int]>
    private let loop: EventLoop
    private var left = Worker.steps

    init(_ number: Int, _ order: Locked<[Int]>, _ loop: EventLoop) {
        self.number = number
        self.order = order
        self.loop = loop
    }

    func run(_: LoopQueue) {
        order.withLock { $0.append(number) }
        left -= 1
        let end = MonotonicClock.now() + EventLoop.timeBudget
        while MonotonicClock.now() < end {}
        if left > 0 { loop.add(self, to: .deferred) }
    }
}
