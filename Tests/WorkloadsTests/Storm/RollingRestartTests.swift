import Testing
import TransportAPI

@testable import Workloads

/// Five servers with a hundred clients each, which fail every 20 s for 5 s.
private func fleet() -> StormModel {
    var model = StormModel()
    model.clients = 500
    model.handshakes = 50
    model.backlog = 20
    model.outage = .seconds(5)
    model.servers = 5
    model.interval = .seconds(20)
    return model
}

private func outcome(_ model: StormModel, _ policy: StormPolicy, seed: UInt64 = 1) throws -> RollingOutcome {
    try #require(RollingRestart.run(model, policy.backoff, seed: seed))
}

@Suite struct RollingRestartTests {
    @Test("Equal seeds give equal outcomes, and different seeds different ones", arguments: StormPolicy.allCases)
    func seeded(_ policy: StormPolicy) throws {
        let first = try outcome(fleet(), policy, seed: 7)
        #expect(try outcome(fleet(), policy, seed: 7) == first)
        #expect(try outcome(fleet(), policy, seed: 8) != first)
    }

    @Test("Every client and every loss is accounted for", arguments: StormPolicy.allCases, [3, 50, 600])
    func accounts(_ policy: StormPolicy, limit: Int) throws {
        var model = fleet()
        model.limit = .seconds(limit)
        let result = try outcome(model, policy)
        #expect(result.clientsByServer.reduce(0, +) + result.stillTrying + result.gaveUp == model.clients)
        #expect(result.gaps.count + result.stillTrying + result.gaveUp == result.losses)
        #expect(result.clientsByServer.allSatisfy { $0 >= 0 } && result.gaps.allSatisfy { $0 > 0 })
        #expect((result.timeline.last ?? 0) == result.stillTrying + result.gaveUp)
        #expect(result.backTimes.allSatisfy { $0 <= model.limit.wholeNanoseconds })
    }

    @Test("Each server loses what it has, so clients that moved to one that fails later lose their connection again")
    func losses() throws {
        let result = try outcome(fleet(), .fullJitter)
        // The second server fails with a hundred clients of its own and a quarter of those of the first one, and so on. The
        // first one gets clients of all others.
        #expect(result.losses > 700 && result.losses < 1300)
        #expect(result.stillTrying == 0)
        // Whoever fails last has few when it is up again, because nobody moves clients.
        #expect(result.clientsByServer.last == result.clientsByServer.min() && result.fullest > 1.2)
    }

    @Test("With a working server, nobody waits for the one that has failed")
    func working() throws {
        var model = fleet()
        model.outage = .seconds(15)
        let result = try outcome(model, .fullJitter)
        #expect(try #require(result.seconds(percent: 99)) < 15)
        #expect(result.mostWithout < 300)
    }

    @Test("If all servers fail at the same moment, all clients wait for the end of the outage")
    func allAtOnce() throws {
        var model = fleet()
        model.interval = .zero
        let result = try outcome(model, .fullJitter)
        #expect(result.losses == 500 && result.mostWithout == 500)
        #expect(result.gaps.allSatisfy { $0 >= 5_000_000_000 })
        #expect(result.refused > 0)
    }

    @Test("A single server behaves as in the simulation of one restart")
    func single() throws {
        var model = fleet()
        model.servers = 1
        let one = try #require(ReconnectStorm.run(model, StormPolicy.fullJitter.backoff, seed: 1))
        let result = try outcome(model, .fullJitter)
        #expect(result.losses == one.clients && result.backTimes.count == one.back)
        // The random numbers come in another order, so the times are only alike.
        let (first, second) = (
            try #require(one.secondsUntilBack(percent: 99)), try #require(result.seconds(percent: 99))
        )
        #expect(max(first, second) < 1.5 * min(first, second))
    }

    @Test("A simulation can be cancelled")
    func cancelled() {
        #expect(RollingRestart.run(fleet(), .immediate, seed: 1) { true } == nil)
    }
}
