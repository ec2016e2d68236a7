import Testing

@testable import imbench

@Suite struct SimulationTests {
    @Test("the supervisor keeps its rules in the first thousand worlds")
    func rules() {
        let result = SimulationRun.run(1..<1001)
        #expect(result.seeds == 1000)
        #expect(result.failures.isEmpty)
    }

    @Test("a rule that is broken on purpose is noticed", arguments: Mutation.allCases)
    func mutations(_ mutation: Mutation) {
        let result = SimulationRun.run(1..<10_001, mutation: mutation, stopsAtFailure: true)
        #expect(result.failed == 1, "no world of \(result.seeds) has shown \(mutation)")
    }

    @Test("the same seed gives the same world, whether it is watched or not")
    func replay() {
        for seed: UInt64 in 1..<100 {
            var first = World(seed: seed)
            first.run()
            var second = World(seed: seed, isVerbose: true)
            second.run()
            #expect(first.log.hash == second.log.hash)
            #expect(first.events == second.events)
            #expect(first.log.lines.isEmpty)
            #expect(!second.log.lines.isEmpty)
        }
    }

    @Test("the result does not depend on the number of threads")
    func threads() throws {
        let one = try SimulationRun.run(1..<200, threads: 1)
        let three = try SimulationRun.run(1..<200, threads: 3)
        #expect(one == three)
    }
}
