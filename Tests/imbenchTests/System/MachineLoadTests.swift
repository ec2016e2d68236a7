import Foundation
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite("What else the machine did")
struct MachineLoadTests {
    private func use(_ second: Double, own: Double, others: Double, all: Double, stolen: Double = 0) -> ProcessorUse {
        ProcessorUse(
            time: Int64(second * 1e9),
            involuntarySwitches: Int(second * 100),
            machine: .init(own: own, others: others, all: all, stolen: stolen)
        )
    }

    private func load(others: Double, all: Double? = nil, stolen: Double = 0) -> MachineLoad? {
        MachineLoad(
            from: use(0, own: 5, others: 7, all: 20),
            to: use(10, own: 15, others: 7 + others, all: 20 + 10 + (all ?? others), stolen: stolen),
            average: 0.25
        )
    }

    @Test("Other programs are a disturbance from a tenth of a core, and so is a hypervisor that takes as much")
    func disturbances() throws {
        #expect(try #require(load(others: 0.9)).disturbances.isEmpty)
        #expect(try #require(load(others: 9.5)).disturbances == ["other programs used 95 % of a core"])
        #expect(try #require(load(others: 0, stolen: 3)).disturbances == ["the hypervisor took 30 % of a core"])
    }

    @Test("Processes that this one cannot see count too, unless they use so little that the clocks may just differ")
    func hidden() throws {
        #expect(try #require(load(others: 0, all: 2)).disturbances.isEmpty)
        #expect(try #require(load(others: 1, all: 8)).disturbances == ["other programs used 80 % of a core"])
    }

    @Test("The figures of a load are one sentence, with those that the system does not tell left out")
    func sentence() throws {
        #expect(
            try #require(load(others: 0.1)).sentence
                == "other programs used 1 % of a core, the hypervisor took 0 %, over 10 s"
        )
        let other = MachineLoad(average: 0.25, others: nil, stolen: nil, involuntarySwitches: 3, seconds: 0.54)
        #expect(other.sentence == "the load of the minute before was 0.3, and an idle machine has less than 1")
        let none = MachineLoad(average: nil, others: nil, stolen: nil, involuntarySwitches: 3)
        #expect(Trust.timed(none).sentence == "This system does not tell what other programs did.")
        let short = MachineLoad(average: nil, others: 0, stolen: nil, involuntarySwitches: 3, seconds: 0.54)
        #expect(Trust.timed(short).sentence == "Trustworthy: other programs used 0 % of a core, over 0.5 s.")
    }

    @Test("What could not be checked is said after the judgement")
    func gaps() throws {
        let quiet = try #require(load(others: 0))
        #expect(Trust.timed(quiet, gaps: ["No control."]).sentence.hasSuffix(" over 10 s. No control."))
    }

    @Test("A run of less than a fifth of a second is too short to tell")
    func short() {
        let ends = (use(0, own: 0, others: 0, all: 0), use(0.1, own: 0, others: 0.1, all: 0.1))
        #expect(MachineLoad(from: ends.0, to: ends.1, average: nil) == nil)
        #expect(Trust.timed(nil).sentence == "Too short to tell whether other programs disturbed it.")
    }

    @Test("Names of programs may have spaces and parentheses, and a line that is no statistic is refused")
    func parsing() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 1 0 5 6 7"
        #expect(ProcessTicks(42, line) == ProcessTicks(id: 42, parent: 7, used: 124))
        for text in ["", "42 (a", "42 (a) S 7", "42 (a) S x 42 42 0 -1 4194560 1 2 3 4 100 20 3 1 20 0"] {
            #expect(ProcessTicks(42, text) == nil, "\(text)")
        }
        #expect(MachineTicks("cpu  100 20 3 4 5 6 7 8 9 10\ncpu0 1")?.used == 123)
        #expect(MachineTicks("cpu  100 20 3 4 5 6 7 8 9 10\ncpu0 1")?.stolen == 8)
        for text in ["", "cpu", "intr 1 2 3 4 5 6 7 8 9"] { #expect(MachineTicks(text) == nil, "\(text)") }
    }

    @Test("The processes that a command starts, and those that these start, are its own")
    func descendants() {
        let all = [(10, 1), (11, 10), (12, 11), (13, 1), (14, 13)].map {
            ProcessTicks(id: $0.0, parent: $0.1, used: 0)
        }
        #expect(ProcessTicks.descendants(of: 10, among: all) == [10, 11, 12])
    }

    #if os(Linux)
    @Test("The work of this process is its own, and none of others")
    func own() throws {
        let start = ProcessorUse.now()
        let end = Clocks.monotonic() + 300_000_000
        while Clocks.monotonic() < end {}
        let (before, after) = (try #require(start.machine), try #require(ProcessorUse.now().machine))
        #expect(after.own - before.own >= 0.1)
        #expect(after.others >= before.others)
    }
    #endif

    @Test("A doubt is a reason of its own beside the load")
    func trust() throws {
        let quiet = try #require(load(others: 0))
        #expect(Trust.timed(quiet).isGiven && Trust.timed(quiet).sentence.hasPrefix("Trustworthy: "))
        let doubted = Trust.timed(quiet, doubts: ["the p90 of 1 of 2 floors is over 2 times its p50"])
        #expect(!doubted.isGiven)
        #expect(
            doubted.sentence.hasPrefix("Not trustworthy, because the p90 of 1 of 2 floors is over 2 times its p50 (")
        )
        #expect(Trust.exact.isGiven && Trust.exact.sentence.hasPrefix("Exact: "))
        let simulated = Trust.simulated(seed: 7)
        #expect(simulated.isGiven && simulated.sentence.hasPrefix("Simulated: a model with random clients, seed 7; "))
    }
}
