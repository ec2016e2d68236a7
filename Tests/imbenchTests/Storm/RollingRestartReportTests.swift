import CommandTestSupport
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import Workloads
@testable import imbench

private func results(_ policies: [StormPolicy] = StormPolicy.allCases, clients: Int = 500) -> RollingResults {
    var model = smallStorm()
    (model.clients, model.handshakes, model.backlog) = (clients, clients / 10, clients / 25)
    (model.servers, model.interval) = (4, .seconds(30))
    let run = RunResults(
        RunRecord(environment: Environment(), options: [("servers", "4"), ("format", "table")], seed: 7)
    )
    var results = RollingResults(run: run, model: model)
    for policy in policies {
        guard let outcome = RollingRestart.run(model, policy.backoff, seed: 7) else { continue }
        results.outcomes.append((policy, outcome))
    }
    return results
}

@Suite struct RollingRestartReportTests {
    @Test("No line is wider than 80 columns, and plots are ASCII")
    func width() {
        for clients in [500, 20_000] {
            let text = results(clients: clients).report.text(.table, .none)
            for line in text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        }
    }

    @Test("The verdict has the policy with the shortest losses, and those that leave clients behind")
    func verdict() throws {
        let results = results()
        let complete = results.outcomes.filter { $0.outcome.stillTrying + $0.outcome.gaveUp == 0 }
        let times = complete.compactMap { entry in entry.outcome.seconds(percent: 99).map { (entry.policy, $0) } }
        let best = try #require(times.min { $0.1 < $1.1 })
        let verdict = results.report.verdict
        #expect(verdict[0].hasPrefix("With \(best.0.rawValue), 99 % of the losses last at most "))
        for (policy, outcome) in results.outcomes where outcome.stillTrying + outcome.gaveUp > 0 {
            #expect(verdict.last?.contains(policy.rawValue) == true)
        }
    }

    @Test("JSON has the clients of each server, and those without a connection in each second")
    func json() throws {
        guard case .object(let members) = results([.fullJitter]).report.data,
            case .array(let rows)? = members.first(where: { $0.0 == "results" })?.1, case .object(let row)? = rows.first
        else {
            Issue.record("no results")
            return
        }
        let values = Dictionary(row, uniquingKeysWith: { first, _ in first })
        guard case .array(let servers)? = values["clients_by_server"],
            case .array(let timeline)? = values["without_connection_by_s"]
        else {
            Issue.record("no servers")
            return
        }
        #expect(servers.count == 4 && timeline.count > 90)
        #expect(values["limit_reached"] == .bool(false) && values["gap_99_s"] != nil)
    }
}
