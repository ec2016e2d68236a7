import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tells who spoke, message by message.
private final class Order: MessageHandler {
    private let heard: Locked<[UInt8]>
    private let clients: Locked<Int>

    init(_ heard: Locked<[UInt8]>, clients: Locked<Int> = Locked(0)) {
        (self.heard, self.clients) = (heard, clients)
    }

    func opened(_: any MessagePeer) {
        clients.withLock { $0 += 1 }
    }

    func received(_ payload: Payload, from _: any MessagePeer) {
        heard.withLock { $0.append(payload.bytes.first ?? 0) }
    }

    func ended(_: any MessagePeer) {}
}

@Suite("One loop and many clients", .timeLimit(.minutes(5)), .ownThread)
struct FairnessTests {
    @Test("a client with very much to say lets others have their say in between")
    func floodOfMessages() async throws {
        let loop = try EventLoop(name: "fairness")
        let heard = Locked<[UInt8]>([])
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("tcp://127.0.0.1:0"),
            on: loop,
            .handle { Order(heard) }
        )
        let flooding = try HostileClient(port: try #require(listener.endpoint.port))
        let modest = try HostileClient(port: try #require(listener.endpoint.port))
        let word: [UInt8] = [0, 0, 0, 1, 2]
        #expect(modest.sendWhatFits(word, atMost: word.count) == word.count)
        while heard.withLock({ $0 }) != [2] { await Task.yield() }

        // While the loop stands still, both say all they have to say.
        let gate = await halt(loop)
        let message: [UInt8] = [0, 0, 0, 1, 1]
        let count =
            flooding.sendWhatFits(Array(repeatElement(message, count: 1000).joined()), atMost: 500_000) / message.count
        #expect(count > 10_000)
        #expect(modest.sendWhatFits(word, atMost: word.count) == word.count)
        while !modest.isDelivered { await Task.yield() }
        gate.signal()
        while heard.withLock({ $0.count }) < count + 2 { await Task.yield() }
        let place = heard.withLock { $0.lastIndex(of: 2) }
        #expect(try #require(place) < count / 2)
        await listener.close()
    }

    @Test(
        "a client whom the server knows is heard before a crowd of newcomers who have much to say, with or without a handshake",
        arguments: ["tcp", "ws"]
    )
    func crowdOfNewcomers(transport: String) async throws {
        let loop = try EventLoop(name: "newcomers")
        let (heard, clients) = (Locked<[UInt8]>([]), Locked(0))
        let listener = try await TransportRegistry.standard.listen(
            at: Endpoint("\(transport)://127.0.0.1:0"),
            on: loop,
            .handle { Order(heard, clients: clients) }
        )
        let port = try #require(listener.endpoint.port)
        func message(_ byte: UInt8) -> [UInt8] { transport == "ws" ? frame(0x82, [byte]) : [0, 0, 0, 1, byte] }
        func client() async throws -> HostileClient {
            let client = try HostileClient(port: port)
            if transport == "ws" { await client.upgrade() }
            return client
        }
        let modest = try await client()
        let word = message(2)
        #expect(modest.sendWhatFits(word, atMost: word.count) == word.count)
        while heard.withLock({ $0 }) != [2] { await Task.yield() }

        var newcomers: [HostileClient] = []
        for _ in 0..<50 { newcomers.append(try await client()) }
        while clients.withLock({ $0 }) < 51 { await Task.yield() }
        let gate = await halt(loop)
        let flood = Array(repeatElement(message(1), count: 1000).joined())
        for client in newcomers { #expect(client.sendWhatFits(flood, atMost: flood.count) == flood.count) }
        #expect(modest.sendWhatFits(word, atMost: word.count) == word.count)
        while !(newcomers + [modest]).allSatisfy(\.isDelivered) { await Task.yield() }
        gate.signal()
        while heard.withLock({ $0.count }) < 50_002 { await Task.yield() }
        // Not after more of them than one, who may have been in the line already.
        let place = try #require(heard.withLock { $0.lastIndex(of: 2) })
        #expect(place <= 1001)
        await listener.close()
        withExtendedLifetime(newcomers) {}
    }

    @Test("a client whose messages are much work lets others have their say in between")
    func sharesOfTime() async throws {
        let loop = try EventLoop(name: "shares")
        let order = Locked<[Int]>([])
        let soFar = await withCheckedContinuation { continuation in
            loop.execute {
                for number in 0..<3 { loop.add(Worker(number, order, loop), to: .deferred) }
                _ = loop.schedule(at: loop.now) { continuation.resume(returning: order.withLock { $0.count }) }
            }
        }
        // The timer had its turn although none of the three had come to its end.
        #expect(soFar < 3 * Worker.steps)
        while order.withLock({ $0.count }) < 3 * Worker.steps { await Task.yield() }
        let first = order.withLock { Array($0.prefix(6)) }
        #expect(first == [0, 1, 2, 0, 1, 2])
    }
}

/// Halts the loop until the semaphore is signalled. It stands still when this returns.
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

/// Works for a whole share, many times.
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
