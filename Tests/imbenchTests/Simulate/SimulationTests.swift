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

    @Test("events come in the order of time, and of planning at equal times")
    func queue() {
        var queue = EventQueue<Int>()
        for number in [5, 3, 9, 1, 7, 3, 5] { queue.push(number * 10 + queue.count, at: Int64(number)) }
        var order: [Int] = []
        while let next = queue.pop() { order.append(next) }
        #expect(order == [13, 31, 35, 50, 56, 74, 92])
        #expect(queue.nextTime == nil)
    }
}
