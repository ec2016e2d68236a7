import Foundation
import Testing
import TransportAPI

@testable import imbench

/// Repeats of rows that are measured alternately: each repeat has a phase of the machine, which all rows share, and each value
/// its own noise. Times are skewed, so both are factors.
struct SimulatedRepeats {
    var generator: RandomSource
    var repeats = 30
    /// The standard deviations of the logarithms.
    var phase = 0.1
    var noise = 0.02

    init(seed: UInt64) { generator = .seeded(seed) }

    /// Roughly a standard normal number: the sum of twelve uniform ones.
    mutating func normal() -> Double {
        (0..<12).reduce(-6) { sum, _ in sum + Double.random(in: 0..<1, using: &generator) }
    }

    /// The values of rows whose medians are `levels`.
    mutating func values(_ levels: [Double]) -> [[Double?]] {
        var rows = [[Double?]](repeating: [], count: levels.count)
        for _ in 0..<repeats {
            let phase = normal() * phase
            for (index, level) in levels.enumerated() {
                rows[index].append(level * exp(phase + normal() * noise))
            }
        }
        return rows
    }
}

@Suite("Sentences about rows of one run")
struct RowDifferencesTests {
    private let places = ["json", "protobuf"].flatMap { codec in [32, 256, 4096].map { (codec, $0) } }

    /// A table of rows over tcp, ws and mqtt, where `factor` gives the factor of each row.
    private func table(
        _ simulated: inout SimulatedRepeats,
        _ factor: (_ transport: String, _ codec: String, _ size: Int) -> Double
    ) -> RowDifferences {
        let names = ["tcp", "ws", "mqtt"].flatMap { transport in places.map { (transport, $0.0, $0.1) } }
        let values = simulated.values(names.map { 50 * factor($0, $1, $2) })
        let rows = zip(names, values).map { name, values in
            RowDifferences.Row(subject: name.0, group: name.1, size: name.2, values: values)
        }
        return RowDifferences([.init(preposition: "with", rows: rows)], .time)
    }

    @Test("A table without differences has a sentence about one in at most 5 % of runs")
    func falseSentences() {
        var simulated = SimulatedRepeats(seed: 1)
        let wrong = (0..<400).count { _ in
            !table(&simulated) { _, _, _ in 1 }.sentences.allSatisfy { $0.hasSuffix(", if at all.") }
        }
        #expect(wrong <= 20)
        let sentences = table(&simulated) { _, _, _ in 1 }.sentences
        #expect(sentences.count == 1)
        #expect(sentences[0].hasPrefix("ws and mqtt each differ from tcp in time by less than "))
        #expect(sentences[0].hasSuffix(" % in every row, if at all."))
    }

    @Test("A difference of 8 % is named in at least 90 % of its rows, although the machine has phases of 10 %")
    func power() {
        var simulated = SimulatedRepeats(seed: 2)
        let named = (0..<100).count { _ in
            table(&simulated) { transport, _, _ in transport == "ws" ? 1.08 : 1 }.sentences[0]
                .hasSuffix(" % longer than tcp in every row.")
        }
        #expect(named >= 90)
    }

    @Test("Sentences name the subject, the range and the rows, the largest difference first")
    func sentences() {
        var simulated = SimulatedRepeats(seed: 3)
        simulated.noise = 0.002
        let sentences = table(&simulated) { transport, codec, size in
            switch (transport, codec, size) {
            case ("ws", "json", 256...): 1.1
            case ("mqtt", _, 32): 3
            case ("mqtt", _, _): 0.8
            default: 1
            }
        }.sentences
        #expect(sentences.count == 2)
        #expect(sentences[0].hasPrefix("mqtt takes 3 times as long as tcp at 32 bytes, and "))
        #expect(sentences[0].hasSuffix(" % less time than tcp at 256 and 4096 bytes."))
        #expect(sentences[1].hasPrefix("ws takes 10 % longer than tcp with json at 256 and 4096 bytes; "))
        #expect(sentences[1].hasSuffix("; in the other 4 rows the difference is less than 1 %, if any."))
    }

    @Test("Too few repeats are a sentence with the number that it takes, and no difference")
    func tooFew() {
        var simulated = SimulatedRepeats(seed: 4)
        simulated.repeats = 5
        let differences = table(&simulated) { transport, _, _ in transport == "ws" ? 2 : 1 }
        #expect(
            differences.sentences == [
                "5 repeats are too few to separate some differences from noise. It takes 9: --repeat 9."
            ]
        )
        #expect(differences.largestFactor() == nil && differences.unknown == ["ws", "mqtt"])
        let one = pair([("ws", 8, [1.1])])
        #expect(
            one.sentences == ["1 repeat is too few to separate some differences from noise. It takes 6: --repeat 6."]
        )
    }

    @Test("Repeats that are too short to have a value need a longer duration, and not more repeats")
    func tooShort() {
        func sentences(known: Int) -> [String] {
            pair([("ws", 8, (0..<30).map { $0 < known ? 1.1 : nil })]).sentences
        }
        #expect(
            sentences(known: 3) == [
                "In some rows only 3 of 30 repeats have enough messages for a value of their own, which is too few to separate "
                    + "differences from noise. It takes 6 such repeats: use a longer --duration or more --messages."
            ]
        )
        #expect(
            sentences(known: 0)[0].hasPrefix(
                "In some rows none of the 30 repeats has enough messages for a value of its own, "
            )
        )
        #expect(sentences(known: 6).count == 1 && sentences(known: 6)[0].hasPrefix("ws takes 10 % longer than tcp"))
    }

    /// Rows whose times are these multiples of those of tcp, in each repeat.
    private func pair(_ rows: [(subject: String, size: Int, ratios: [Double?])]) -> RowDifferences {
        let references = rows.map { row in
            RowDifferences.Row(subject: "tcp", size: row.size, values: row.ratios.map { _ in 100 })
        }
        let others = rows.map { row in
            RowDifferences.Row(subject: row.subject, size: row.size, values: row.ratios.map { $0.map { $0 * 100 } })
        }
        return RowDifferences([.init(rows: references + others)], .time)
    }

    @Test("A wide interval around no difference is not sure, and not a missing difference")
    func unsure() {
        let wide = (0..<20).map { $0.isMultiple(of: 2) ? 0.505 : 2.995 } as [Double?]
        let same = [Double?](repeating: 1.005, count: 20)
        let slow = [Double?](repeating: 1.5, count: 20)
        #expect(
            pair([("ws", 8, wide)]).sentences == [
                "ws: the difference from tcp in time is not sure at 8 bytes: between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, same), ("ws", 16, wide)]).sentences == [
                "ws differs from tcp in time by less than 1 % at 8 bytes, if at all; not sure at 16 bytes: "
                    + "between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, slow), ("ws", 16, wide)]).sentences == [
                "ws takes 50 % longer than tcp at 8 bytes; not sure at 16 bytes: between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, slow), ("ws", 16, wide), ("ws", 32, same)]).sentences == [
                "ws takes 50 % longer than tcp at 8 bytes; not sure at 16 bytes: between -50 % and +200 %; "
                    + "in the other row the difference is less than 1 %, if any."
            ]
        )
    }

    @Test("A sentence names the rows that were not measured, and those with too few values")
    func missing() {
        #expect(
            pair([("ws", 8, [Double?](repeating: 2, count: 20)), ("ws", 16, [nil, 2])]).sentences == [
                "ws takes 2 times as long as tcp at 8 bytes; not compared at 16 bytes.",
                "2 repeats are too few to separate some differences from noise. It takes 7: --repeat 7.",
            ]
        )
        let rows = [("tcp", 8), ("tcp", 4096), ("ws", 8), ("ws", 4096), ("udp", 8)].flatMap { name, size in
            ["json", "protobuf"].map { codec in
                RowDifferences.Row(
                    subject: name,
                    group: codec,
                    size: size,
                    values: [Double?](repeating: name == "udp" ? 0.9 : 1, count: 20)
                )
            }
        }
        #expect(
            RowDifferences([.init(preposition: "with", rows: rows)], .time).sentences == [
                "udp takes 10 % less time than tcp in every compared row; not compared at 4096 bytes.",
                "ws differs from tcp in time by less than 1 % in every row, if at all.",
            ]
        )
    }

    @Test("More subjects than sentences end with one about the rest")
    func many() throws {
        let rows = (0..<12).map { index in
            RowDifferences.Row(
                subject: "t\(index)",
                size: 8,
                values: [Double?](repeating: 100 + 10 * Double(index), count: 20)
            )
        }
        let sentences = RowDifferences([.init(rows: rows)], .time).sentences
        try #require(sentences.count == 6)
        #expect(sentences[0] == "t11 takes 2.1 times as long as t0 at 8 bytes.")
        #expect(sentences[5] == "The differences of t6, t5, t4, t3, t2 and t1 are smaller.")
    }

    @Test("A run with one row has no sentences")
    func single() {
        let row = RowDifferences.Row(subject: "tcp", size: 8, values: [1, 2, 3])
        #expect(RowDifferences([.init(rows: [row])], .time).sentences.isEmpty)
    }
}
