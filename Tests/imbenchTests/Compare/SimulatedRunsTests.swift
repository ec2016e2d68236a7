import Foundation
import Testing

@testable import Measuring
@testable import imbench

/// Runs on a simulated machine, which is faster or slower in each run. Rows follow the machine more or less than their floor
/// does.
private struct SimulatedMachine {
    var repeats = SimulatedRepeats(seed: 1)
    /// The standard deviation of the logarithm of the machine's speed between runs.
    var drift = 0.04
    /// The same for a value of one repeat, of rows and of floors.
    var rowNoise = 0.05
    var floorNoise = 0.03

    /// A run of 20 rows whose round trips take `factor` times as long.
    mutating func run(_ label: String, factor: Double = 1) -> RecordedRun {
        var run = RecordedRun(label: label)
        let speed = repeats.normal() * drift
        for size in 1...20 {
            // From 0.7 to 1.5.
            let exponent = 0.7 + Double(size % 5) * 0.2
            var (trips, floors): ([Double?], [Double?]) = ([], [])
            for _ in 0..<20 {
                let phase = repeats.normal() * 0.1
                trips.append(60 * factor * exp(exponent * speed + phase + repeats.normal() * rowNoise))
                floors.append(25 * exp(speed + phase + repeats.normal() * floorNoise))
            }
            var row = RecordedRow(name: .init(transport: "tcp", codec: "json", size: size))
            row.repeats = [.p50: trips, .ratioToFloor: RepeatStatistics.ratios(trips, to: floors)]
            row.floorP50 = RepeatStatistics(floors.compactMap { $0 })?.median
            run.rows.append(row)
        }
        return run
    }

    /// The deciding differences of `count` pairs of runs, of which the second takes `factor` times as long.
    mutating func differences(_ count: Int, factor: Double = 1) -> [Difference] {
        (0..<count).flatMap { _ in
            Comparison(run("before"), run("after", factor: factor), noise: 0.01).rows.compactMap(\.main)
        }
    }
}

@Suite("imbench compare on simulated runs")
struct SimulatedRunsTests {
    @Test("Two runs of the same code show no difference in at least 95 % of their rows")
    func same() {
        var machine = SimulatedMachine()
        let differences = machine.differences(50)
        #expect(differences.count == 1000)
        #expect(differences.count(where: \.isReal) <= 50)
    }

    @Test(
        "A difference of 20 % is found in 90 % of the rows that claim this resolution, which are 80 % of all"
    )
    func power() {
        var machine = SimulatedMachine()
        let differences = machine.differences(50, factor: 1.2)
        let fine = differences.filter { ($0.resolution ?? .infinity) < 1.2 }
        #expect(fine.count >= differences.count * 8 / 10)
        #expect(fine.count { $0.verdict == .worse } >= fine.count * 9 / 10)
        #expect(!differences.contains { $0.verdict == .better })
    }

    @Test("A machine that changes much makes the resolution coarse, and no false differences")
    func drift() {
        var machine = SimulatedMachine()
        machine.drift = 0.3
        let differences = machine.differences(50)
        #expect(differences.count(where: \.isReal) <= 50)
        #expect(differences.count { ($0.resolution ?? 1) > 1.2 } >= differences.count / 2)
    }
}
