import CommandTestSupport
import Testing
import TransportAPI

@testable import CommandSupport
@testable import Workloads

private func outcome(_ model: StormModel, _ policy: StormPolicy, seed: UInt64 = 1) throws -> StormOutcome {
    try #require(ReconnectStorm.run(model, policy.backoff, seed: seed))
}

@Suite struct ReconnectStormTests {
    @Test("Equal seeds give equal outcomes, and different seeds different ones", arguments: StormPolicy.allCases)
    func seeded(_ policy: StormPolicy) throws {
        let first = try outcome(smallStorm(), policy, seed: 7)
        #expect(try outcome(smallStorm(), policy, seed: 7) == first)
        #expect(try outcome(smallStorm(), policy, seed: 8) != first)
    }

    @Test("Every client and every attempt is accounted for", arguments: StormPolicy.allCases, [1, 15, 120])
    func accounts(_ policy: StormPolicy, limit: Int) throws {
        var models = Array(repeating: smallStorm(), count: 3)
        // The cases include an outage beyond the limit, and a queue in which clients wait longer than their timeout.
        models[1].outage = .seconds(20)
        models[2].backlog = 1000
        for var model in models {
            model.limit = .seconds(limit)
            let result = try outcome(model, policy)
            #expect(result.back + result.gaveUp + result.stillTrying == model.clients)
            #expect(result.attempts == result.refused + result.timedOut + result.back + result.inFlight)
            #expect((result.timeline.last?.back ?? 0) == result.back)
            #expect(result.timeline.reduce(0) { $0 + $1.attempts } == result.attempts)
            #expect(result.timeline.allSatisfy { $0.attempts <= result.peak })
            #expect(result.peakOnceUp <= result.peak)
            #expect(result.backTimes.allSatisfy { $0 <= model.limit.wholeNanoseconds })
        }
    }

    @Test("Jitter spreads the attempts at the restarted server, and all clients connect again")
    func jitterHelps() throws {
        let full = try outcome(smallStorm(), .fullJitter)
        let none = try outcome(smallStorm(), .noJitter)
        #expect(full.peakOnceUp < none.peakOnceUp / 2)
        #expect(full.back == 500)
        #expect(none.stillTrying > 0)
        #expect(none.secondsUntilBack(percent: 100) == nil)
        #expect(!none.isOutOfReach(percent: 100))
    }

    @Test("No client is served before the server has the capacity")
    func serverRate() throws {
        for policy in StormPolicy.allCases {
            let result = try outcome(smallStorm(), policy)
            let handshakes = result.back + result.wasted
            let last = Double(result.backTimes.last ?? 0) / 1e9
            // The server starts after 10 s. It may serve clients that have left after the last one that connected.
            #expect(Double(result.back) <= (last - 10) * 10 + 1)
            #expect(handshakes <= (600 - 10) * 10 + 1)
        }
    }

    @Test("SignalR's schedule ends after four attempts if the server is down for longer")
    func signalRGivesUp() throws {
        var model = smallStorm()
        model.outage = .seconds(60)
        let result = try outcome(model, .signalr)
        #expect(result.gaveUp == 500)
        #expect(result.attempts == 4 * 500)
        #expect(result.refused == 4 * 500)
        #expect(result.isOutOfReach(percent: 50))
        #expect(result.timeline.count == 43)
    }

    @Test("With SignalR's schedule all clients connect again if the server starts before the last delay ends")
    func signalRLastAttempt() throws {
        var model = smallStorm()
        model.handshakes = 1_000_000
        model.backlog = 500
        model.outage = .seconds(41)
        let result = try outcome(model, .signalr)
        #expect(result.back == 500)
        #expect(result.attempts == 4 * 500)
    }

    @Test(
        "Without an outage and without a handshake limit, all clients connect again after the first delay",
        arguments: StormPolicy.allCases
    )
    func unlimitedServer(_ policy: StormPolicy) throws {
        var model = smallStorm()
        model.handshakes = 1_000_000
        model.backlog = 500
        model.outage = .zero
        let result = try outcome(model, policy)
        #expect(result.back == 500)
        #expect(result.attempts == 500)
        #expect(result.refused + result.timedOut + result.wasted == 0)
        let firstDelay: Double =
            switch policy {
            case .immediate, .signalr: 0
            case .fixed: 5
            case .noJitter, .equalJitter, .fullJitter: 0.5
            }
        // The loss is detected within 100 ms. A round trip takes at most 50 ms, and each of the 500 handshakes 1 µs.
        let last = try #require(result.secondsUntilBack(percent: 100))
        #expect(last <= firstDelay + 0.152)
    }

    @Test("The server wastes handshakes on clients that have left its queue")
    func wastedHandshakes() throws {
        var model = smallStorm()
        model.backlog = 500
        model.connectTimeout = .seconds(5)
        #expect(try outcome(model, .fixed).wasted > 0)
        #expect(try outcome(smallStorm(), .fixed).wasted == 0)
    }

    @Test("A delay beyond the range of the clock ends at the limit")
    func endlessDelay() throws {
        let forever = BackoffPolicy.fixed(.seconds(Int64.max))
        let result = try #require(ReconnectStorm.run(smallStorm(), forever, seed: 1))
        #expect(result.waiting == 500)
        #expect(result.attempts == 0)
        #expect(result.timeline.isEmpty)
    }

    @Test("A simulation can be cancelled")
    func cancelled() {
        #expect(ReconnectStorm.run(smallStorm(), .immediate, seed: 1) { true } == nil)
    }

    @Test("The policies without jitter and with full jitter differ from the standard policy in jitter only")
    func standardPolicy() {
        #expect(StormPolicy.fullJitter.backoff == .standard)
        #expect(StormPolicy.noJitter.backoff != .standard)
    }
}

@Suite struct StormPartsTests {
    @Test("A server refuses while down, serves in order, queues up to the backlog and drops the rest")
    func server() {
        var model = StormModel()
        model.handshakes = 10
        model.backlog = 2
        model.outage = .seconds(1)
        var server = StormServer(model)
        let up: Int64 = 1_000_000_000
        #expect(server.receive(at: up - 1) == .refused)
        #expect(server.receive(at: up) == .done(at: up + 100_000_000))
        #expect(server.receive(at: up) == .done(at: up + 200_000_000))
        #expect(server.receive(at: up + 1) == .done(at: up + 300_000_000))
        #expect(server.receive(at: up + 2) == .dropped)
        // The first handshake has ended, so the queue has room.
        #expect(server.receive(at: up + 100_000_000) == .done(at: up + 400_000_000))
        #expect(server.receive(at: up + 900_000_000) == .done(at: up + 1_000_000_000))
    }
}
