import CommandTestSupport
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import Workloads
@testable import imbench

private func results(_ policies: [StormPolicy] = StormPolicy.allCases) -> StormResults {
    let run = RunResults(
        RunRecord(environment: Environment(), options: [("clients", "500"), ("format", "table")], seed: 7)
    )
    var results = StormResults(run: run, model: smallStorm())
    for policy in policies {
        guard let outcome = ReconnectStorm.run(smallStorm(), policy.backoff, seed: 7) else { continue }
        results.outcomes.append((policy, outcome))
    }
    return results
}

private func text(_ results: StormResults, _ format: Format, isUnicode: Bool = false) -> String {
    results.report(isUnicode: isUnicode).text(format, .none)
}

@Suite struct StormReportTests {
    @Test("No line is wider than 80 columns", arguments: [true, false])
    func width(isUnicode: Bool) {
        for line in text(results(), .table, isUnicode: isUnicode).split(separator: "\n") { #expect(line.count <= 80) }
    }

    @Test("The numbers of a hundred thousand clients fit into the table")
    func widthOfTable() {
        var wide = results([.equalJitter])
        wide.outcomes[0].outcome.timedOut = 10_000_000
        wide.outcomes[0].outcome.refused = 100_000_000
        for line in text(wide, .table).split(separator: "\n") { #expect(line.count <= 80) }
    }

    @Test("Plots are ASCII unless they may be Unicode")
    func ascii() {
        #expect(text(results(), .table).utf8.allSatisfy { $0 < 0x80 })
        #expect(text(results(), .table, isUnicode: true).contains("█"))
        #expect(text(results(), .markdown).utf8.allSatisfy { $0 < 0x80 })
    }

    @Test("A plot of any length keeps its width and its number of lines", arguments: [0, 1, 5, 89, 90, 91, 3600])
    func plot(_ seconds: Int) {
        let timeline = (0..<seconds).map { StormOutcome.Second(attempts: $0 * $0, back: $0) }
        let lines = StormPlot([timeline], isUnicode: true).lines(timeline, clients: max(1, seconds - 1))
        #expect(lines.count == 9)
        for line in lines { #expect(line.count <= StormPlot.width) }
        if seconds > 1 { #expect(lines[4].last == "█") }
    }

    @Test("A partial share is drawn neither as nothing nor as all")
    func plotEnds() {
        let timeline = [StormOutcome.Second(attempts: 0, back: 1), StormOutcome.Second(attempts: 1, back: 999)]
        let lines = StormPlot([timeline], isUnicode: false).lines(timeline, clients: 1000)
        #expect(lines[7].hasSuffix("|.#"))
        #expect(lines[4].hasSuffix("| :"))
        #expect(lines[3].hasSuffix("| ."))
    }

    @Test("The table shows never, or the limit, where there is no time")
    func never() throws {
        let text = text(results(), .table)
        let signalr = try #require(text.split(separator: "\n").last { $0.hasPrefix("signalr ") })
        #expect(signalr.contains("never"))
        let none = try #require(text.split(separator: "\n").last { $0.hasPrefix("no-jitter ") })
        #expect(none.contains("> 600"))
        #expect(none.split(separator: " ").last != "0")
    }

    @Test("The verdict names the fastest policy, and the policies that do not reconnect all clients")
    func verdict() throws {
        let results = results()
        let times = results.outcomes.compactMap { policy, outcome in
            outcome.secondsUntilBack(percent: 99).map { (policy.rawValue, $0) }
        }
        let best = try #require(times.min { $0.1 < $1.1 })
        let verdict = results.report(isUnicode: false).verdict
        #expect(verdict.count == 2)
        #expect(verdict[0].hasPrefix("With \(best.0), 99 % of the clients are connected again after "))
        #expect(verdict[1].contains("signalr") && !verdict[1].contains(best.0))
        // Another seed changes the numbers a little, so policies within 2 % are about as soon.
        let close = times.filter { $0.0 != best.0 && $0.1 <= best.1 * 1.02 }.map(\.0)
        #expect(verdict[0].contains("sooner than with any other policy") == close.isEmpty)
        for name in close { #expect(verdict[0].contains(name)) }
        var tie = results
        let other = try #require(StormPolicy.allCases.first { $0.rawValue != best.0 })
        let outcome = try #require(tie.outcomes.first { $0.policy.rawValue == best.0 }?.outcome)
        tie.outcomes.append((other, outcome))
        #expect(tie.report(isUnicode: false).verdict[0].contains(", about as soon as with "))
        #expect(results.report(isUnicode: false).trust == .simulated(seed: 7))
        #expect(text(results, .table).replacing("\n", with: " ").contains(verdict.joined(separator: " ")))
    }

    @Test("JSON has the members of every report, and null for a share that was never reached")
    func json() throws {
        guard case .object(let members) = results([.signalr]).report(isUnicode: false).data else {
            Issue.record("no object")
            return
        }
        let names = ["schema", "environment", "options", "changed_options", "cut_short", "remarks", "results"]
        #expect(members.map(\.0) == names)
        #expect(members[0].1 == .string("imbench/1"))
        guard case .array(let rows) = members[6].1, case .object(let row)? = rows.first else {
            Issue.record("no results")
            return
        }
        let values = Dictionary(row, uniquingKeysWith: { first, _ in first })
        #expect(values["policy"] == .string("signalr"))
        #expect(values["back_100_s"] == .null)
        for name in ["peak_attempts_per_s", "attempts", "back_50_s", "back_99_s", "gave_up"] {
            #expect(values[name] != nil)
        }
        guard case .array(let timeline)? = values["timeline"] else {
            Issue.record("no timeline")
            return
        }
        #expect(timeline.count > 40)
    }

    @Test("A page has one line for each policy in its chart over time, and no plots of characters")
    func page() throws {
        let results = results()
        let report = results.report(isUnicode: true)
        let charts = report.sections.flatMap(\.charts).compactMap { $0 as? LineChart }
        #expect(charts.map(\.title) == ["Clients connected again"])
        let lines = try #require(charts.first).series
        #expect(lines.map(\.label) == results.outcomes.map(\.policy.rawValue))
        #expect(lines.allSatisfy { (1...150).contains($0.points.count) })
        #expect(lines.map { $0.points.last?.y } == results.outcomes.map { Double($0.outcome.back) })
        let page = report.text(.html, .none)
        #expect(!page.contains("<pre") && !page.contains("█"))
        #expect(report.text(.table, .none).contains("█"))
    }

    @Test("CSV has one line for each policy, with as many fields as names")
    func csv() {
        let lines = text(results(), .csv).split(separator: "\r\n").map {
            $0.split(separator: ",", omittingEmptySubsequences: false)
        }
        #expect(lines.map { String($0[0]) } == ["policy"] + StormPolicy.allCases.map(\.rawValue))
        #expect(Set(lines.map(\.count)).count == 1)
    }
}

@Suite struct StormOptionTests {
    private func parse(_ line: String) throws(UsageError) -> StormCommand {
        try OptionParser(vocabulary: everything).parse(
            line.split(separator: " ").map(String.init),
            as: StormCommand.self
        )
    }

    @Test("Every option is read and recorded")
    func everyOption() throws {
        let line =
            "storm --policy full-jitter,signalr --clients 10 --handshakes 20 --backlog 30 --outage 4s --connect-timeout 5s"
            + " --limit 6m --servers 3 --every 2m --seed 7 --format csv --output out.csv"
        let options = try parse(line)
        #expect(options.storm.policies == [.fullJitter, .signalr])
        let model = options.storm.model
        #expect((model.clients, model.handshakes, model.backlog) == (10, 20, 30))
        #expect((model.outage, model.connectTimeout, model.limit) == (.seconds(4), .seconds(5), .seconds(360)))
        #expect((model.servers, model.interval) == (3, .seconds(120)))
        let typed = options.record(.measured).map { "--\($0.name) \($0.value)" }.joined(separator: " ")
        #expect(try parse("storm " + typed).storm == options.storm)
    }

    @Test("Without options, all policies have a hundred thousand clients")
    func defaults() throws {
        let options = try parse("storm")
        #expect(options.storm.policies == StormPolicy.allCases)
        #expect((options.storm.model.clients, options.storm.model.handshakes) == (100_000, 2000))
    }

    @Test(
        "An error names its option",
        arguments: [
            ("--clients 0", #"--clients is "0"; allowed is 1 to 1000000"#),
            ("--clients many", #"--clients is "many"; allowed is 1 to 1000000"#),
            ("--handshakes 0", #"--handshakes is "0"; allowed is 1 to 1000000"#),
            ("--backlog -1", #"--backlog is "-1"; allowed is 0 to 1000000"#),
            ("--outage 10", #"--outage is "10"; its unit is missing ("10s" are seconds); allowed is "0s" to "1h""#),
            ("--connect-timeout 50ms", #"--connect-timeout is "50ms"; allowed is "100ms" to "1h""#),
            ("--limit 2h", #"--limit is "2h"; allowed is "1s" to "1h""#),
            (
                "--policy fulljitter",
                #"--policy is "fulljitter"; did you mean "full-jitter"? allowed is "#
                    + StormPolicy.allCases.map(\.rawValue.debugDescription).joined(separator: ", ")
            ),
            (
                "--policy ,",
                #"--policy is ","; allowed is a list of up to 64, separated by commas, of: "#
                    + StormPolicy.allCases.map(\.rawValue.debugDescription).joined(separator: ", ")
            ),
            (
                "--rate 5",
                "--rate belongs to 'run' and 'fanout', not to 'storm'; 'imbench help storm' lists its options"
            ),
        ]
    )
    func mistakes(_ line: String, _ sentence: String) {
        #expect(throws: UsageError(sentence)) { try parse("storm " + line) }
    }
}
