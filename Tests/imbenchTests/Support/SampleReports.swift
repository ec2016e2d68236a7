import CommandTestSupport
import Transports

@testable import EmulatedNetworks
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

/// A report of each command. Every text that comes from outside is `hostile`.
func sampleReports(hostile: String) throws -> [Report] {
    var results = sampleResults()
    results.record.environment.processor = hostile
    results.remarks = [hostile]
    results.rows[1].outcome = .failed(hostile)
    results.floors.append(FloorResult(kind: .tcpEpoll, size: 8, rtt: Latency(Histogram()), reason: hostile))
    let memory = TracedMessage(transport: "memory", codec: "json", failure: hostile)
    let tcp = TracedMessage(
        transport: "tcp",
        codec: "json",
        wire: [1, 2, 3],
        fields: [WireField(range: 0..<3, meaning: hostile)],
        encoded: 2,
        text: 1
    )
    var outage = OutageRow(transport: "tcp", fault: .reset)
    (outage.detect, outage.broken, outage.recover) = (.milliseconds(3), .milliseconds(20), .milliseconds(40))
    outage.failure = hostile
    var skipped = OutageRow(transport: "udp", fault: .finish)
    skipped.skipped = hostile
    var killed = KillRow(transport: "tcp", fault: .clientKilled, store: .memory, accepted: 2000, arrived: 1900)
    killed.failure = hostile
    let missing = KillRow(transport: "tcp", fault: .serverKilled, store: .sqlite, skipped: hostile)
    var costs = StoreCostResults(run: results, cost: StoreCost(folder: "/nowhere"), rows: StoreCost.rows)
    for index in costs.rows.indices {
        costs.rows[index].rates = [Double?](repeating: 1000 / Double(index + 1), count: 8)
    }
    costs.rows[1].failure = hostile
    costs.rows[2].skipped = hostile
    var idle = CrowdRow(transport: "ws")
    idle.metrics = CrowdRow.metricNames.map { ($0, 4711) }
    var failed = CrowdRow(transport: "tcp")
    failed.failure = hostile
    var storm = StormResults(run: results, model: smallStorm())
    for policy in [StormPolicy.signalr, .fullJitter] {
        guard let outcome = ReconnectStorm.run(smallStorm(), policy.backoff, seed: 7) else { continue }
        storm.outcomes.append((policy, outcome))
    }
    var heartbeat = HeartbeatResults(run: results, options: HeartbeatOptions())
    heartbeat.rows = try heartbeat.options.rows(
        of: TransportRegistry.measured.transport(named: "udp"),
        pingBytes: 104,
        .measured
    )
    heartbeat.rows[0].outcome = .failed(hostile)
    heartbeat.options.refusal = hostile
    heartbeat.trial = [
        NATRow(transport: "udp", pings: NATPings(client: .seconds(4)), delivery: .plain, failure: hostile)
    ]
    var before = results
    before.rows[0].codec = hostile
    let comparison = Comparison(
        try recorded(before, "before.json"),
        try recorded(results, "after.json"),
        noise: 0.01
    )
    // A second row to compare.
    var run = results
    run.rows[0].repeats = [.p50: [Double?](repeating: 100, count: 8)]
    var other = run.rows[0]
    other.transport = "tcp"
    other.repeats = [.p50: [Double?](repeating: 120, count: 8)]
    other.bytesPerMessage?.framing = 4
    run.rows.append(other)
    var overNetwork = results
    overNetwork.networks = [
        NetworkUse(network: try Network("4g"), seed: 7, congestionControl: "cubic", counts: LinkCounts())
    ]
    for index in overNetwork.rows.indices { overNetwork.rows[index].network = "4g" }
    var pictures = results
    pictures.pictureBytes = 1_000_000
    for place in PicturePlace.allCases {
        var row = results.rows[0]
        row.picture = PictureFigures(place: place, bytes: 1_000_000)
        pictures.rows.append(row)
    }
    pictures.rows.removeFirst()
    return [
        run.report, run.overheadReport, overNetwork.report, pictures.report, comparison.report,
        TraceResults(run: results, messages: [memory, tcp]).report,
        OutageResults(run: results, timing: OutageTiming(), rows: [outage, skipped], kills: [killed, missing]).report,
        costs.report,
        CrowdResults(run: results, rows: [idle, failed]).report,
        storm.report(isUnicode: true), sampleFanout(hostile: hostile).report, heartbeat.report,
        sampleOpen(hostile: hostile).report,
        try advice(
            Workload.game.usual,
            on: results,
            others: OtherAnswer.all(Workload.game.usual, AdviceOptions()),
            hostile: hostile
        ).report,
    ]
}

/// A fan-out with two rows that were measured, one that failed and one that could not run.
func sampleFanout(hostile: String) -> FanoutResults {
    var times = Histogram()
    for value in 1...2000 as ClosedRange<Int64> { times.record(value * 1000) }
    var rows = [FanoutServerKind.broker, .mosquitto].map { server in
        var row = FanoutRow(transport: "mqtt", server: server, subscribers: 100, size: 256)
        (row.first, row.half, row.last) = (Latency(times), Latency(times), Latency(times))
        (row.deliveryRate, row.cpuPerDelivery, row.messages) = (12_345_678, 1.25, 20)
        row.accounts = DeliveryCounts(sent: 2000, acked: 2000)
        return row
    }
    rows.append(FanoutRow(transport: "tcp", server: .fanOut, subscribers: 1, size: 4096, outcome: .failed(hostile)))
    rows.append(FanoutRow(transport: "ws", server: .room, subscribers: 10, size: 32, outcome: .skipped(hostile)))
    return FanoutResults(run: sampleResults(), rows: rows)
}
