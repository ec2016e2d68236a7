import Testing

@testable import CommandSupport
@testable import EmulatedNetworks
@testable import Measuring
@testable import Reporting
@testable import imbench

@Suite("The report of a run over networks")
struct NetworkReportTests {
    /// A run over these networks, in which plain UDP takes these times.
    private func results(_ networks: [(description: String, time: Double)]) throws -> RunResults {
        let sample = sampleResults()
        var (results, simulated) = (sample, SimulatedRepeats(seed: 5))
        let values = simulated.values(networks.map(\.time))
        results.rows = []
        for ((description, _), values) in zip(networks, values) {
            let network = try Network(description)
            results.networks.append(
                NetworkUse(network: network, seed: 7, congestionControl: "cubic", counts: LinkCounts())
            )
            var row = sample.rows[0]
            (row.network, row.transport, row.repeats) = (network.name, "udp", [.p50: values])
            row.estimateMedian()
            results.rows.append(row)
        }
        return results
    }

    @Test("Plain UDP that differs between networks that differ in their loss alone shows a disturbed machine")
    func control() throws {
        let moved = try results([("delay=25ms", 50), ("delay=25ms,loss=2%", 56)]).networkReport.trust
        #expect(!moved.isGiven)
        #expect(moved.sentence.contains("loss cannot change the median of plain UDP, and yet: "))
        let still = try results([("delay=25ms", 50), ("delay=25ms,loss=2%", 50)]).networkReport.trust
        #expect(!still.sentence.contains("loss cannot change"))
    }

    @Test("Networks that differ in their delay are no control of each other")
    func otherDelay() throws {
        let trust = try results([("delay=25ms", 50), ("delay=50ms,loss=2%", 100)]).networkReport.trust
        #expect(!trust.sentence.contains("loss cannot change"))
    }

    @Test("The open loop has the delay of a message beside the bytes of a day, and the closed loop has not")
    func day() throws {
        var results = try results([("delay=25ms", 50)])
        #expect(results.dailySection(over: "delay=25ms") == nil)
        results.rate = 0.1
        results.rows[0].bytesPerDay = 123_456
        #expect(results.dailySection() == nil, "Without a network there is no row.")
        let section = try #require(results.dailySection(over: results.rows[0].network))
        #expect(section.notes.first?.contains("a message every 10 s") == true)
        let chart = try #require(section.charts.first as? LineChart)
        #expect(chart.series.map(\.label) == ["udp"] && chart.series[0].points.first?.x == 123_456)
        #expect(results.networkReport.text(.markdown, .none).contains("123,456"))
    }

    @Test("The counts of several turns of a network are added, and its packets are numbered on")
    func counts() {
        var sum = LinkCounts()
        var turn = LinkCounts()
        turn.toServer = .init(packets: 10, bytes: 1000, lost: 2, overflowed: 1, reordered: 3, lostNumbers: [4, 9])
        turn.forgottenMappings = 1
        sum += turn
        sum += turn
        #expect(sum.toServer.packets == 20 && sum.toServer.bytes == 2000 && sum.toServer.lost == 4)
        #expect(sum.toServer.lostNumbers == [4, 9, 14, 19])
        #expect(sum.toServer.overflowed == 2 && sum.toServer.reordered == 6 && sum.forgottenMappings == 2)
    }
}
