import Foundation
import Testing
import TransportAPI

@testable import CommandSupport
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
        let wrong = (0..<SimulatedReportsTests.reports).count { _ in
            !table(&simulated) { _, _, _ in 1 }.sentences.allSatisfy {
                $0.contains(": no sure difference from tcp in time in any row: ")
            }
        }
        #expect(wrong * 20 <= SimulatedReportsTests.reports)
        let sentences = table(&simulated) { _, _, _ in 1 }.sentences
        #expect(sentences.count == 1)
        #expect(
            sentences[0].hasPrefix("ws and mqtt: no sure difference from tcp in time in any row: each between -")
        )
        #expect(sentences[0].hasSuffix(" %."))
    }

    @Test("A difference of 8 % is named in at least 90 % of its rows, although the machine has phases of 10 %")
    func power() {
        var simulated = SimulatedRepeats(seed: 2)
        let named = (0..<SimulatedReportsTests.reports).count { _ in
            table(&simulated) { transport, _, _ in transport == "ws" ? 1.08 : 1 }.sentences[0]
                .hasPrefix("In every row, ws takes ")
        }
        #expect(named * 10 >= SimulatedReportsTests.reports * 9)
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
        #expect(
            sentences[0].hasPrefix(
                "At 32 bytes, mqtt takes 2.9 to 3.1 times as long as tcp; at 256 and 4096 bytes, it takes "
            )
        )
        #expect(sentences[0].hasSuffix(" % less time than tcp."))
        #expect(sentences[1].hasPrefix("With json at 256 and 4096 bytes, ws takes 9 to 11 % longer than tcp; "))
        #expect(sentences[1].hasSuffix("; in its other 4 rows no sure difference: between -1 % and +1 %."))
    }

    @Test("Too few repeats are a sentence with the number that it takes, and no difference")
    func tooFew() {
        var simulated = SimulatedRepeats(seed: 4)
        simulated.repeats = 5
        let differences = table(&simulated) { transport, _, _ in transport == "ws" ? 2 : 1 }
        #expect(
            differences.sentences == [
                "5 repeats are too few to separate any difference from noise. It takes 9: --repeat 9."
            ]
        )
        #expect(differences.largestFactor() == nil && differences.largestSure() == nil)
        #expect(differences.sureSentences() == differences.sentences)
        let one = pair([("ws", 8, [1.1])])
        #expect(
            one.sentences == ["1 repeat is too few to separate any difference from noise. It takes 6: --repeat 6."]
        )
    }

    @Test("Without a comparison the sentence is that there was none, and not that no difference is sure")
    func nothingCompared() {
        let rows = ["tcp", "ws"].map { RowDifferences.Row(subject: $0, size: 8, values: [1, 1, 1]) }
        func sentences(_ rows: [RowDifferences.Row], wasCutShort: Bool = false) -> [String] {
            RowDifferences([.init(rows: rows)], .time, wasCutShort: wasCutShort).sureSentences()
        }
        #expect(sentences(rows, wasCutShort: true) == ["There are too few repeats to compare the rows."])
        #expect(sentences(rows)[0].hasPrefix("3 repeats are too few to separate any difference from noise."))
        #expect(sentences([rows[0]]).isEmpty, "One row has no comparison.")
        let equal = pair([("ws", 8, [Double?](repeating: 1, count: 20))])
        #expect(equal.sureSentences() == ["No difference in time is sure."])
        #expect(equal.sureSentences(scope: "with 9 clients") == ["No difference in time with 9 clients is sure."])
    }

    @Test("Comparisons without an interval are counted and named, whichever of the two rows lacks the values")
    func leftOut() {
        func row(_ name: String, _ size: Int, known: Int) -> RowDifferences.Row {
            .init(subject: name, group: "json", size: size, values: (0..<20).map { $0 < known ? 1 : nil })
        }
        let rows = [
            row("tcp", 8, known: 20), row("tcp", 4096, known: 8), row("ws", 8, known: 20), row("ws", 4096, known: 20),
            row("udp", 8, known: 0), row("udp", 4096, known: 20),
        ]
        let differences = RowDifferences([.init(preposition: "with", rows: rows)], .time)
        #expect(differences.sureSentences()[0] == "No difference in time is sure.")
        #expect(
            differences.leftOutSentence(axis: 0)
                == "1 of 4 comparisons is left out (udp with json at 8 bytes), because too few repeats have a value in both rows."
        )
        let short = rows.map { $0.size == 8 ? $0 : row($0.subject, 4096, known: 3) }
        #expect(
            RowDifferences([.init(preposition: "with", rows: short)], .time).leftOutSentence(axis: 0)
                == "3 of 4 comparisons are left out (ws with json at 4096 bytes; udp), because too few repeats have a value in "
                + "both rows."
        )
    }

    @Test("Repeats that are too short to have a value need a longer duration, and not more repeats")
    func tooShort() {
        func sentences(known: Int) -> [String] {
            pair([("ws", 8, (0..<30).map { $0 < known ? 1.1 : nil })]).sentences
        }
        #expect(
            sentences(known: 3) == [
                "Only 3 of 30 repeats have enough messages in both rows, which is too few to separate differences from noise. It "
                    + "takes 6 such repeats: use a longer --duration or more --messages."
            ]
        )
        #expect(sentences(known: 0)[0].hasPrefix("None of the 30 repeats has enough messages in both rows, "))
        func two(_ first: Int, _ second: Int) -> String? {
            func ratios(_ known: Int) -> [Double?] { (0..<30).map { $0 < known ? 1.1 : nil } }
            return pair([("ws", 8, ratios(first)), ("ws", 16, ratios(second))]).sentences.last
        }
        #expect(
            two(30, 3)?.hasPrefix("In one comparison only 3 of 30 repeats have enough messages in both rows, ") == true
        )
        #expect(two(1, 3)?.hasPrefix("At most 3 of 30 repeats have enough messages in both rows, ") == true)
        #expect(
            sentences(known: 6).count == 1 && sentences(known: 6)[0] == "At 8 bytes, ws takes 10 % longer than tcp."
        )
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

    @Test("The bound of a factor is that of two rows, and not of the two ends of one interval")
    func bound() throws {
        // Repeats between 0.8 and 1.25 of tcp: neither row may be more than a quarter slower than the other.
        let noisy = [0.8, 1.25, 0.8, 1.25, 0.8, 1.25, 0.8, 1.25, 0.8, 1.25] as [Double?]
        let one = try #require(pair([("ws", 8, noisy)]).largestFactor())
        #expect(abs(one.bound - 1.25) < 0.001 && abs(one.estimate - 1) < 0.001)
        let two = try #require(pair([("ws", 8, noisy), ("udp", 8, noisy.map { $0.map { $0 * 2 } })]).largestFactor())
        // At most 2.5 for udp, and at least 0.8 for ws.
        #expect(abs(two.bound - 2.5 / 0.8) < 0.001 && abs(two.estimate - 2) < 0.001)
    }

    @Test("A range that reaches a factor of 2 is one of factors, and one that says nothing is no range")
    func wide() {
        func sentence(_ low: Double, _ high: Double) -> String? {
            pair([("ws", 8, (0..<20).map { $0.isMultiple(of: 2) ? low : high })]).sentences.first
        }
        #expect(sentence(1.63, 10.98) == "At 8 bytes, ws takes 1.6 to 11 times as long as tcp.")
        #expect(sentence(1.045, 3.01) == "At 8 bytes, ws takes 1.04 to 3.1 times as long as tcp.")
        #expect(
            sentence(0.12, 100)
                == "ws: no sure difference from tcp in time at 8 bytes: too much noise for a useful range."
        )
    }

    @Test("No sentence names a difference that is not above 2 %")
    func edge() {
        let less = pair([("ws", 8, [Double?](repeating: 0.9803, count: 20))])
        #expect(less.sentences == ["ws: no sure difference from tcp in time at 8 bytes: between -2 % and -1 %."])
        #expect(less.largestSure() == nil)
        let enough = pair([("ws", 8, [Double?](repeating: 0.9798, count: 20))])
        #expect(enough.sentences == ["At 8 bytes, ws takes 2 to 3 % less time than tcp."])
        #expect(enough.largestSure()?.sentence == "at 8 bytes, ws takes at least 2 % less time than tcp")
    }

    @Test("A difference that is not sure has its interval")
    func unsure() {
        let wide = (0..<20).map { $0.isMultiple(of: 2) ? 0.505 : 2.995 } as [Double?]
        let same = [Double?](repeating: 1.005, count: 20)
        let slow = [Double?](repeating: 1.5, count: 20)
        #expect(
            pair([("ws", 8, wide)]).sentences == [
                "ws: no sure difference from tcp in time at 8 bytes: between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, same), ("ws", 16, wide)]).sentences == [
                "ws: no sure difference from tcp in time in any row: between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, slow), ("ws", 16, wide)]).sentences == [
                "At 8 bytes, ws takes 50 % longer than tcp; in its other row no sure difference: between -50 % and +200 %."
            ]
        )
        #expect(
            pair([("ws", 8, slow), ("ws", 16, wide), ("ws", 32, same)]).sentences == [
                "At 8 bytes, ws takes 50 % longer than tcp; in its other 2 rows no sure difference: between -50 % and +200 %."
            ]
        )
    }

    @Test("A sentence names the rows that were not measured, and those with too few values")
    func missing() {
        #expect(
            pair([("ws", 8, [Double?](repeating: 2, count: 20)), ("ws", 16, [nil, 2])]).sentences == [
                "At 8 bytes, ws takes 2 times as long as tcp; not compared at 16 bytes.",
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
                "In every compared row, udp takes 10 % less time than tcp; not compared at 4096 bytes.",
                "ws: no sure difference from tcp in time in any row: between 0 % and 0 %.",
            ]
        )
    }

    @Test("One sentence is about two subjects only if their differences are similar")
    func similar() {
        func sentences(_ first: Double, _ second: Double) -> [String] {
            let times: [(String, Double)] = [("tcp", 1), ("ws", first), ("mqtt", second)]
            let rows = times.map { name, factor in
                RowDifferences.Row(subject: name, size: 8, values: [Double?](repeating: 100 * factor, count: 20))
            }
            return RowDifferences([.init(rows: rows)], .time).sentences
        }
        #expect(sentences(1.05, 1.12) == ["At 8 bytes, ws and mqtt take 5 to 12 % longer than tcp."])
        #expect(
            sentences(1.05, 1.3) == [
                "At 8 bytes, mqtt takes 30 % longer than tcp.", "At 8 bytes, ws takes 5 % longer than tcp.",
            ]
        )
    }

    @Test("A place has its size, if another size was not compared")
    func partial() {
        let rows = ["json", "protobuf"].flatMap { codec in
            let all: [(String, Int, Double)] = [("tcp", 8, 1), ("tcp", 16, 1), ("udp", 8, codec == "json" ? 1 : 2)]
            return all.map { name, size, factor in
                RowDifferences.Row(
                    subject: name,
                    group: codec,
                    size: size,
                    values: [Double?](repeating: 100 * factor, count: 20)
                )
            }
        }
        let differences = RowDifferences([.init(preposition: "with", rows: rows)], .time)
        #expect(
            differences.sentences == [
                "With protobuf at 8 bytes, udp takes 2 times as long as tcp; in its other row no sure difference: between 0 % and "
                    + "0 %; not compared at 16 bytes."
            ]
        )
        #expect(
            differences.largestSure()?.sentence == "with protobuf at 8 bytes, udp takes at least 2 times as long as tcp"
        )
    }

    @Test("More subjects than sentences end with one about the rest")
    func many() throws {
        let rows = (0..<12).map { index in
            RowDifferences.Row(
                subject: "t\(index)",
                size: 8,
                values: [Double?](repeating: Double(1 << index), count: 20)
            )
        }
        let sentences = RowDifferences([.init(rows: rows)], .time).sentences
        try #require(sentences.count == 6)
        #expect(sentences[0] == "At 8 bytes, t11 takes 2048 times as long as t0.")
        #expect(sentences[5] == "For t6, t5, t4, t3, t2 and t1, a smaller difference is sure.")
    }

    @Test("What is less sure may be a larger difference, and its sentence names the reference if there are several")
    func rest() {
        /// A steady factor and one with noise, whose true one is larger.
        func rows(_ reference: String, _ names: [String], _ factor: Double) -> RowDifferences.Axis {
            let others = names.enumerated().map { index, name in
                RowDifferences.Row(
                    subject: name,
                    size: 8,
                    values: (0..<20).map {
                        $0.isMultiple(of: 2) ? factor + Double(index) : 3 * (factor + Double(index))
                    }
                )
            }
            return .init(
                rows: [.init(subject: reference, size: 8, values: [Double?](repeating: 1, count: 20))] + others
            )
        }
        let (first, second) = (rows("tcp", ["a", "b", "c", "d"], 1.5), rows("room", ["a", "e", "f", "g"], 1.2))
        let last = RowDifferences([first, second], .time).sentences.last
        #expect(
            last?.hasPrefix(
                "For e and a compared with room, and for a compared with tcp, a smaller difference is sure."
            ) == true,
            "\(last ?? "")"
        )
        var equal = first
        equal.rows += (0..<6).map { .init(subject: "u\($0)", size: 8, values: [Double?](repeating: 1, count: 20)) }
        equal.rows += (0..<4).map { number in
            .init(subject: "v\(number)", size: 8, values: [Double?](repeating: 20 + 5 * Double(number), count: 20))
        }
        #expect(
            RowDifferences([equal], .time).sentences.last
                == "For c, b and a, a smaller difference is sure. For u0, u1, u2, u3, u4 and u5, no difference is sure."
        )
    }

    @Test("A row is surely above another one at the same place only, whichever of them is the reference")
    func above() {
        func row(_ name: String, _ group: String, _ value: Double) -> RowDifferences.Row {
            .init(subject: name, group: group, size: 8, values: [Double?](repeating: value, count: 20))
        }
        let rows = [
            row("tcp", "json", 10), row("ws", "json", 12), row("udp", "json", 10.1), row("mqtt", "json", 9),
            row("tcp", "protobuf", 10),
        ]
        let differences = RowDifferences([.init(preposition: "with", rows: rows)], .time)
        let (json, protobuf) = (
            RowDifferences.Place(group: "json", size: 8), RowDifferences.Place(group: "protobuf", size: 8)
        )
        #expect(differences.isSure("ws", above: "tcp", at: json) && !differences.isSure("tcp", above: "ws", at: json))
        #expect(differences.isSure("tcp", above: "mqtt", at: json))
        #expect(differences.isSure("ws", above: "mqtt", at: json))
        #expect(!differences.isSure("udp", above: "tcp", at: json) && !differences.isSure("ws", above: "ws", at: json))
        #expect(!differences.isSure("ws", above: "tcp", at: protobuf))
        #expect(differences.rule(isQuiet: true).count == 1)
        #expect(RowDifferences([], .time).rule(isQuiet: true).isEmpty)
    }

    @Test("A range names the rows at an end only if they surely differ from all others")
    func range() throws {
        let figures = [("a", 1.0), ("b", 1.0), ("c", 2), ("d", 3), ("e", 3.1)].map { (name: $0.0, value: $0.1) }
        let range = try #require(NamedRange(figures))
        #expect(range.text("ms") { _, _ in true } == "1.00 (a and b) to 3.10 ms (e)")
        #expect(range.text("ms") { _, _ in false } == "1.00 to 3.10 ms")
        // The last two do not surely differ.
        #expect(range.text("ms") { $0 != 4 || $1 != 3 } == "1.00 (a and b) to 3.10 ms")
        #expect(try #require(NamedRange([("a", 1), ("b", 1)])).text("ms") { _, _ in true } == "1.00 ms")
        #expect(NamedRange([]) == nil)
    }

    @Test("A run with one row has no sentences")
    func single() {
        let row = RowDifferences.Row(subject: "tcp", size: 8, values: [1, 2, 3])
        #expect(RowDifferences([.init(rows: [row])], .time).sentences.isEmpty)
    }
}
