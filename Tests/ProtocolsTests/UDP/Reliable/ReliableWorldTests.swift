import Testing
import TransportAPI

@testable import Protocols

@Suite("UDP reliable mode: simulated networks")
struct ReliableWorldTests {
    static let losses = [0, 0.01, 0.05, 0.1, 0.2, 0.3]
    private static let count = 60

    /// Sends messages both ways until all have arrived and both sides are idle, and closes. Returns the problems that it found.
    static func problems(_ world: inout ReliableWorld, isOrdered: Bool, within limit: Duration) throws -> [String] {
        var (sent, answered) = (0, 0)
        let end = world.now.advanced(by: limit)
        func isDone(_ world: borrowing ReliableWorld) -> Bool {
            world.server.messages.count >= count && world.client.messages.count >= count
                && world.client.core.reliable?.deadline == nil && world.session?.reliable?.deadline == nil
        }
        repeat {
            while sent < count, try world.client.send(Payload(ReliableTests.message(sent))) == .written { sent += 1 }
            while answered < count, world.serverSends(ReliableTests.message(answered)) { answered += 1 }
        } while world.step(until: end) && !isDone(world) && world.failedCheck == nil && world.client.failure == nil
        let wanted = (0..<count).map(ReliableTests.message)
        var found = [world.failedCheck, world.client.failure.map { "\($0)" }].compactMap(\.self)
        found += world.server.failures.map { "\($0)" }
        for (name, got) in [("there", world.server.messages), ("back", world.client.messages.map(\.bytes))] {
            if got.count != count || Set(got) != Set(wanted) { found.append("\(name): \(got.count) messages arrived") }
            if isOrdered, got != wanted { found.append("\(name): not in the order of sending") }
        }
        if found.isEmpty, !isDone(world) { found.append("the session does not become idle") }
        world.client.core.close(.user, &world.client.context)
        world.client.drain()
        let close = world.now.advanced(by: ConnectionLimits().closeTimeout + .milliseconds(1))
        while world.client.closeReason == nil, world.step(until: close) {}
        if world.client.closeReason == nil, world.client.failure == nil { found.append("the session does not end") }
        return found
    }

    static func network(_ loss: Double, _ seed: UInt64) -> ReliableWorld.Network {
        var network = ReliableWorld.Network()
        network.loss = loss
        if seed % 2 == 1 { network.doubling = 0.1 }
        if seed % 3 == 1 { network.lateness = 0.2 }
        if seed % 5 == 1 { network.rebinding = .milliseconds(150) }
        return network
    }

    @Test(
        "Each message arrives once, in order if agreed, within bounds of memory, time and bytes",
        arguments: losses,
        [UDPReliability.ordered, .unordered]
    )
    func everythingArrives(loss: Double, reliability: UDPReliability) throws {
        let payload = (0..<Self.count).map { ReliableTests.message($0).count + 60 }.reduce(0, +)
        for seed in 0..<30 as Range<UInt64> {
            var world = try ReliableWorld(.reliable(reliability), Self.network(loss, seed), seed: seed)
            let found = try Self.problems(&world, isOrdered: reliability == .ordered, within: .seconds(15))
            #expect(found == [], "seed \(seed)")
            let limit = Double(payload) / (1 - loss) / (1 - loss) * 1.5 + 15_000
            #expect(Double(max(world.bytes.there, world.bytes.back)) < limit, "seed \(seed)")
        }
    }

    @Test(
        "A long transfer sends little more than its bytes and those that are lost, and fills the path",
        arguments: [0, 0.01, 0.05]
    )
    func transfer(loss: Double) throws {
        for seed in 0..<3 as Range<UInt64> {
            var network = ReliableWorld.Network()
            network.loss = loss
            var world = try ReliableWorld(.ordered, network, seed: seed)
            let size = 1 << 19
            #expect(try world.client.send(Payload([UInt8](repeating: 1, count: size))) == .written)
            // More than the smallest window in each round trip of 40 ms.
            let end = world.now.advanced(by: .milliseconds(40 * size / CongestionWindow.minimum))
            while world.server.messages.isEmpty, world.step(until: end) {}
            #expect(world.server.messages.map(\.count) == [size], "seed \(seed)")
            #expect(Double(world.bytes.there) < Double(size) * (1 + loss) * 1.06, "seed \(seed)")
        }
    }

    @Test("The checks find a receiver that forgets, a sender that repeats nothing, and a wrong order")
    func flaws() throws {
        let cases: [(ReliableWorld.Flaw, UDPReliability)] = [
            (.forgetsDoubles, .unordered), (.neverRepeats, .ordered), (.none, .unordered),
        ]
        for (flaw, reliability) in cases {
            let found = try (0..<6 as Range<UInt64>).flatMap { seed in
                var world = try ReliableWorld(.reliable(reliability), Self.network(0.1, 7), flaw: flaw, seed: seed)
                return try Self.problems(&world, isOrdered: true, within: .seconds(20))
            }
            #expect(!found.isEmpty, "\(flaw)")
            if flaw != .none { #expect(found.contains { $0.contains("messages arrived") }, "\(flaw)") }
        }
    }

    @Test(
        "A path that loses all long datagrams is detected, and carries all that fit",
        arguments: [1000, 900, 548]
    )
    func narrowPath(largest: Int) throws {
        for seed in 0..<10 as Range<UInt64> {
            var network = ReliableWorld.Network()
            network.largest = largest
            if seed % 2 == 1 { network.loss = 0.05 }
            var world = try ReliableWorld(.ordered, network, seed: seed)
            #expect(try world.client.send(Payload([UInt8](repeating: 1, count: 60_000))) == .written)
            let end = world.now.advanced(by: .seconds(30))
            while world.server.messages.isEmpty, world.step(until: end) {}
            #expect(world.server.messages.map(\.count) == [60_000] && world.client.failure == nil, "seed \(seed)")
            let size = world.client.core.reliable?.sender.size.limit ?? 0
            #expect(
                size <= largest && (seed % 2 == 1 || size == PacketSize.steps.last { $0 <= largest }),
                "seed \(seed)"
            )
        }
    }

    @Test("A path that becomes narrow during a session, and only for long messages, is detected as well")
    func singleMessages() throws {
        var network = ReliableWorld.Network()
        network.largest = 700
        var world = try ReliableWorld(.reliable(.unordered), network, seed: 3)
        let end = world.now.advanced(by: .seconds(60))
        for number in 0..<20 as Range<UInt8> {
            let size = number % 4 == 3 ? 1100 : 40
            #expect(try world.client.send(Payload([UInt8](repeating: number, count: size))) == .written)
            while world.server.messages.count <= Int(number), world.step(until: end) {}
        }
        #expect(world.server.messages.count == 20 && world.client.core.reliable?.sender.size.limit == 548)
    }
}
