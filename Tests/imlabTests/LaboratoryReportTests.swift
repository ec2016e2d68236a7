import Foundation
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imlab

/// A report of each command. Every text that comes from outside is `hostile`.
private func reports(hostile: String) -> [Report] {
    var run = RunRecord(environment: .current(), options: [], seed: 0)
    (run.environment.processor, run.remarks) = (hostile, [hostile])
    var attack = AttackRow(transport: "ws", attack: .pingFlood)
    attack.metrics = AttackRow.metricNames.map { ($0, 4711) }
    attack.endings = [(hostile, 1)]
    var stopped = AttackRow(transport: "tcp", attack: .halfOpen)
    stopped.failure = hostile
    var simulation = SimulationResult(seeds: 1)
    simulation.fail(1, hostile)
    return [
        AttackResults(run: run, rows: [attack, stopped]).report,
        SimulateResults(run: run, options: SimulateOptions(), result: simulation, seconds: 1).report,
    ]
}

@Suite("The reports of imlab")
struct LaboratoryReportTests {
    @Test("Every text is escaped in a page")
    func escapes() {
        for report in reports(hostile: "<script>alert(1)</script>") {
            let page = report.text(.html, .none)
            // The data and the script of the page.
            #expect(page.ranges(of: "<script").count == 2, "\(report.name)")
            #expect(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "\(report.name)")
        }
    }

    @Test("A table has at most 80 columns, and JSON is read back")
    func formats() throws {
        for report in reports(hostile: "hostile") {
            for line in report.text(.table, .none).split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
            let object = try JSONSerialization.jsonObject(with: Data(report.text(.json, .none).utf8)) as? [String: Any]
            #expect(object?["schema"] as? String == "imbench/1" && object?["results"] != nil)
        }
    }

    @Test("Every report has a result, and a next command that is accepted")
    func guidance() throws {
        for report in reports(hostile: "hostile") {
            #expect(!report.verdict.isEmpty, "\(report.name)")
            let lines = report.sections.flatMap(\.next).map(\.line)
            #expect(!lines.isEmpty, "\(report.name)")
            for line in lines {
                let words = line.split(separator: " ").map(String.init)
                #expect(words.first == "imlab")
                _ = try OptionParser(vocabulary: .laboratory).parse(Array(words.dropFirst()))
            }
        }
    }
}
