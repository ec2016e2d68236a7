import Foundation
import Testing

@testable import CommandSupport
@testable import Measuring
@testable import imbench

/// Whole reports of runs whose truth is known: each transport has its own factor, and the machine has phases that all rows
/// share. A longer run is made with `IM_REPORTS=1000`.
@Suite("Sentences of simulated reports")
struct SimulatedReportsTests {
    static let reports =
        ProcessInfo.processInfo.environment["IM_REPORTS"].flatMap { Int($0) }.map { max(60, $0) } ?? 60

    /// A run over tcp, ws and udp with two codecs and two sizes. Its round trips and processor times are `factor` times
    /// as long over ws.
    private func run(_ simulated: inout SimulatedRepeats, factor: Double) -> RunResults {
        let sample = sampleResults()
        var results = sample
        let names = ["tcp", "ws", "udp"].flatMap { transport in
            ["json", "protobuf"].flatMap { codec in [32, 256].map { (transport, codec, $0) } }
        }
        let levels = names.map { 50 * ($0.0 == "ws" ? factor : 1) }
        let (times, processor) = (simulated.values(levels), simulated.values(levels))
        results.rows = names.indices.map { index in
            var row = sample.rows[0]
            (row.transport, row.codec, row.size) = names[index]
            row.bytesPerMessage = nil
            row.repeats = [.p50: times[index], .cpu: processor[index]]
            row.estimateMedian()
            return row
        }
        return results
    }

    /// The sentences of a report about differences.
    private func sentences(_ run: RunResults) -> [String] {
        run.roundTripSentences + run.costSentences.filter { !$0.hasPrefix("Bytes") } + run.conclusions
    }

    /// Whether a sentence claims that a row differs from another.
    private func claims(_ sentence: String) -> Bool {
        [" longer than ", " less time than ", " times as long as ", "more CPU time", "less CPU time", "as much CPU"]
            .contains { sentence.contains($0) }
    }

    /// The percentages of a sentence such as "In every row, ws takes 8 to 13 % longer than tcp."
    private func percents(_ sentence: String) -> ClosedRange<Double>? {
        guard let match = sentence.firstMatch(of: /(\d+)(?: to (\d+))? % (?:longer|more)/) else { return nil }
        let low = Double(match.1) ?? 0
        return low...max(low, match.2.flatMap { Double($0) } ?? low)
    }

    @Test("At most 5 % of the reports on equal transports claim a difference")
    func equal() {
        var simulated = SimulatedRepeats(seed: 11)
        let wrong = (0..<Self.reports).count { _ in
            sentences(run(&simulated, factor: 1)).contains(where: claims)
        }
        print("equal transports: \(wrong) of \(Self.reports) reports claim a difference")
        #expect(wrong * 20 <= Self.reports)
    }

    @Test(
        "A difference of 10 or 20 % is found in every row in 90 % of the reports, and at most 5 % of them claim a wrong one",
        arguments: [1.1, 1.2]
    )
    func different(_ factor: Double) {
        var simulated = SimulatedRepeats(seed: 12)
        let truth = ((factor - 1) * 100).rounded()
        var (found, wrong) = (0, 0)
        for _ in 0..<Self.reports {
            let run = run(&simulated, factor: factor)
            let claims = sentences(run).filter(claims)
            found += run.roundTripSentences.contains { $0.hasPrefix("In every row, ws takes ") } ? 1 : 0
            let isWrong = claims.contains { sentence in
                // "at least" gives the low end alone.
                if sentence.contains("at least") { return percents(sentence).map { $0.lowerBound > truth } ?? false }
                guard let range = percents(sentence) else { return true }
                return !sentence.contains("ws ") || sentence.contains("udp ") || !range.contains(truth)
            }
            wrong += isWrong ? 1 : 0
        }
        print("\(Int(truth)) %: found in every row by \(found), wrong in \(wrong) of \(Self.reports) reports")
        #expect(found * 10 >= Self.reports * 9)
        #expect(wrong * 20 <= Self.reports)
    }
}
