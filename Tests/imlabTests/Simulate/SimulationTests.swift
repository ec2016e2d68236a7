import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imlab

@Suite struct SimulationTests {
    @Test("The supervisor keeps its rules in the first thousand worlds")
    func rules() {
        let result = SimulationRun.run(1..<1001)
        #expect(result.seeds == 1000)
        #expect(result.failures.isEmpty)
    }

    @Test("A rule that is broken on purpose is detected", arguments: Mutation.allCases)
    func mutations(_ mutation: Mutation) {
        let result = SimulationRun.run(1..<10_001, mutation: mutation, stopsAtFailure: true)
        #expect(result.failed == 1, "no world of \(result.seeds) has shown \(mutation)")
    }

    @Test("The same seed gives the same world, with and without a log")
    func replay() {
        for seed: UInt64 in 1..<100 {
            var first = World(seed: seed)
            first.run()
            var second = World(seed: seed, isVerbose: true)
            second.run()
            #expect(first.record.log.hash == second.record.log.hash)
            #expect(first.clock.events == second.clock.events)
            #expect(first.record.log.lines.isEmpty)
            #expect(!second.record.log.lines.isEmpty)
        }
    }

    @Test("The result does not depend on the number of threads")
    func threads() throws {
        let one = try SimulationRun.run(1..<200, threads: 1)
        let three = try SimulationRun.run(1..<200, threads: 3)
        #expect(one == three)
    }

    @Test(
        "The report begins with a verdict, and each failure has the command that replays it",
        arguments: [false, true]
    )
    func verdict(isStack: Bool) {
        var results = SimulateResults(
            run: RunRecord(environment: .current(), options: [], seed: 1),
            options: SimulateOptions(isStack: isStack),
            result: SimulationResult(seeds: 20),
            seconds: 1
        )
        let name = isStack ? "schedules" : "worlds"
        #expect(results.report.text(.table, .none).contains("\n\nNo rule is broken in 20 \(name).\n\n"))
        results.result.fail(7, "it was broken")
        let text = results.report.text(.table, .none)
        #expect(text.contains(isStack ? "imlab simulate --stack --seed 7" : "imlab simulate --seed 7"))
        #expect(text.contains("\n\n1 of 20 \(name) break a rule.\n\n"))
        for format in Format.allCases { #expect(results.report.text(format, .none).contains("it was broken")) }
    }
}
