import CommandSupport
import CommandTestSupport
import Foundation
import TestSupport
import Testing

@testable import Reporting
@testable import imbench

@Suite("imbench outage --store-cost", .timeLimit(.minutes(5)), .ownThread)
struct StoreCostTests {
    @Test("Each store and sync that the machine has is measured in each repeat, and leaves no file")
    func rows() async throws {
        let folder = try Folder()
        var cost = StoreCost(folder: folder.path + "/stores")
        (cost.repeats, cost.slice, cost.waiting) = (2, .milliseconds(5), 100)
        let rows = try await apart { [cost] in try cost.measure(seed: 1) }
        #expect(rows.map(\.syncText) == ["-", "none", "1s", "always", "none", "1s", "always"])
        for row in rows where row.skipped == nil {
            #expect(row.failure == nil && row.rates.count == 2 && row.times.count > 0, "\(row.name)")
            #expect(row.reopened.count == (row.sync == nil ? 0 : 2), "\(row.name)")
        }
        #expect(rows.filter { $0.store == .sqlite }.allSatisfy { $0.skipped == OutageStore.sqlite.refusal })
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
        folder.remove()
    }

    @Test("A folder that does not exist is a failure of the command, with the path")
    func folder() async throws {
        let cost = StoreCost(folder: "/nowhere/stores")
        let failure = await #expect(throws: SystemFailure.self) { try await apart { try cost.measure(seed: 1) } }
        #expect(failure?.message.contains("/nowhere/stores") == true)
    }

    @Test("The report compares each row with the memory in the same repeat")
    func report() {
        var rows = StoreCost.rows
        for index in rows.indices where rows[index].skipped == nil {
            // The machine is twice as slow in every second repeat, for all rows.
            rows[index].rates = (0..<8).map { 8000 / Double(index + 1) / Double($0 % 2 + 1) }
        }
        let report = StoreCostResults(
            run: RunResults(RunRecord(environment: .current(), options: [], seed: 7)),
            cost: StoreCost(folder: "/nowhere"),
            rows: rows
        ).report
        #expect(report.text(.json, .none).contains(#""time_to_memory": 4"#))
        #expect(report.text(.markdown, .none).contains("## What a store costs\n"))
        #expect(report.text(.csv, .none).split(separator: "\r\n").count == rows.count + 1)
        #expect(report.verdict.first?.contains("times as long with file") == true)
    }
}
