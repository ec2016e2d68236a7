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
        #expect(!still.sentence.contains("loss cannot change") && !still.sentence.contains("control"))
    }

    @Test("A control that was not possible is said beside the trust")
    func noControl() throws {
        var short = try results([("delay=25ms", 50), ("delay=25ms,loss=2%", 50)])
        let load = MachineLoad(average: 0, others: 0, stolen: 0, involuntarySwitches: 0, seconds: 30)
        short.record.load = load
        for index in short.rows.indices { short.rows[index].repeats[.p50] = [Double?](repeating: nil, count: 10) }
        let trust = short.networkReport.trust
        #expect(trust.isGiven && trust.sentence.hasPrefix("Trustworthy: "))
        #expect(
            trust.sentence.hasSuffix(
                " The control by plain UDP was not possible, because too few of its repeats have a median."
            )
        )
        for index in short.rows.indices { short.rows[index].transport = "tcp" }
        #expect(short.networkReport.trust.sentence.hasSuffix("not possible, because it was not measured."))
    }

    @Test("The verdict names the rows at both ends, and the JSON has the sentences")
    func ends() throws {
        var run = try results([("delay=25ms", 50)])
        let udp = run.rows[0]
        run.rows = [("tcp", 71_200.0), ("ws", 71_210), ("mqtt", 71_240), ("http", 106_900)].map { name, time in
            var row = udp
            row.transport = name
            row.rtt?.p50 = time
            row.repeats[.p50] = [Double?](repeating: time, count: 10)
            return row
        }
        let report = run.networkReport
        #expect(
            report.verdict[0].hasPrefix(
                "Over delay=25ms, the median round trip is 71.2 (tcp and 2 others) to 106.9 ms (http)."
            )
        )
        let json = report.text(.json, .none)
        #expect(json.contains("\"sentences\"") && json.contains("http takes 50 to 51 % longer than tcp."))
        #expect(json.contains("\"warnings\""))
        run.rows.removeLast()
        #expect(run.networkReport.verdict[0].hasPrefix("Over delay=25ms, the median round trip is 71.2 ms."))
    }

    @Test("Packets have commas from five digits on, and congestion control is told only where TCP is used")
    func use() throws {
        var use = NetworkUse(network: try Network("4g"), seed: 7, congestionControl: "cubic", counts: LinkCounts())
        use.counts.toServer.packets = 12_060
        #expect(use.sentence.contains("; TCP uses cubic; to the server 12,060 packets, "))
        use.carriesTCP = false
        #expect(!use.sentence.contains("TCP"))
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
