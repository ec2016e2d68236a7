import CommandSupport
import Measuring
import Reporting

/// The differences between rows that were measured alternately, and sentences about those that are sure.
///
/// A row is compared with the row of a reference at the same place, such as ws with tcp, both with JSON at 256 bytes. Each
/// repeat of both gives a ratio, in which a slow phase of the machine cancels out. ``PairedInterval`` gives the interval of
/// the true ratio. A difference is sure if its interval lies beyond ±``noise``. For others, the sentences give the interval.
/// The intervals are wide enough for all sentences of a table to be right together with ``certainty`` (Bonferroni's
/// correction).
struct RowDifferences: Sendable {
    /// The values of one row, by repeat.
    struct Row: Sendable {
        /// The compared property, such as the transport.
        var subject: String
        /// The other property, such as the codec; empty if there is none.
        var group = ""
        var size: Int
        var values: [Double?]
    }

    /// Rows that are compared with those of the first subject.
    struct Axis: Sendable {
        /// The word before the names of groups, as in "with json".
        var preposition = ""
        var rows: [Row]
    }

    /// The words for a number.
    struct Words: Sendable {
        /// The verb for one subject and for several.
        var verb: (one: String, many: String)
        var more: String
        var less: String
        /// For factors from 2, as in "3 to 4 times as long as".
        var times: String
        /// The compared quantity, as in "no sure difference from tcp in time".
        var quantity: String
        /// The options that give a repeat more values.
        var remedy = "use a longer --duration or more --messages"

        /// The words for a time, and behind it the words for which time it is, such as "until the first answer".
        static func time(_ scope: String) -> Words {
            let scope = scope.isEmpty ? "" : " " + scope
            return Words(
                verb: ("takes", "take"),
                more: "longer\(scope) than",
                less: "less time\(scope) than",
                times: "as long\(scope) as",
                quantity: "time" + scope
            )
        }

        static let time = time("")

        /// The words for processor time, and behind it the words for what it is spent on, such as "per message".
        static func processorTime(_ scope: String) -> Words {
            Words(
                verb: ("uses", "use"),
                more: "more CPU time \(scope) than",
                less: "less CPU time \(scope) than",
                times: "as much CPU time \(scope) as",
                quantity: "CPU time \(scope)"
            )
        }

        static let processorTime = processorTime("per message")
    }

    /// The probability that no difference is called sure by chance.
    static let certainty = 0.95
    /// The share by which equal code may differ between two connections.
    static let noise = 0.02
    /// What sentences mean by sure, for the reader of a report.
    static let rule =
        "A difference is sure if its interval lies beyond ±\(fixed(noise * 100, 0)) %. All intervals of a table are right "
        + "together with \(fixed(certainty * 100, 0)) %."
    /// By how much the ends of two ranges in one sentence differ at most.
    private static let similar = 0.1
    /// The most sentences.
    private static let mostSentences = 6

    private struct Place: Hashable {
        var group: String
        var size: Int
    }

    private enum Direction: Hashable { case more, less, unsure }

    private struct Difference {
        var place: Place
        var low: Double
        var high: Double

        var direction: Direction {
            if low > 1 + RowDifferences.noise { return .more }
            if high < 1 / (1 + RowDifferences.noise) { return .less }
            return .unsure
        }
    }

    /// One subject, and its differences from the reference.
    private struct Subject {
        /// The number of its axis.
        var axis: Int
        var name: String
        var reference: String
        var preposition: String
        var differences: [Difference]
        /// The places of the reference where nothing is known about the subject.
        var missing: [Place]
        /// The places of the reference.
        var all: [Place]

        func places(_ direction: Direction) -> [Place] {
            differences.filter { $0.direction == direction }.map(\.place)
        }

        /// Whether one sentence can be about both: there are no sure differences, or they are at the same places and similar.
        func isLike(_ other: Subject) -> Bool {
            guard reference == other.reference, preposition == other.preposition, missing == other.missing else {
                return false
            }
            if [self, other].allSatisfy({ $0.differences.allSatisfy { $0.direction == .unsure } }) { return true }
            return places(.unsure) == other.places(.unsure)
                && [Direction.more, .less].allSatisfy { direction in
                    let (own, others) = (range(direction), other.range(direction))
                    return places(direction) == other.places(direction)
                        && abs(own.lowerBound - others.lowerBound) <= RowDifferences.similar
                        && abs(own.upperBound - others.upperBound) <= RowDifferences.similar
                }
        }

        /// From the lowest to the highest end of the differences in one direction.
        private func range(_ direction: Direction) -> ClosedRange<Double> {
            let chosen = differences.filter { $0.direction == direction }
            let low = chosen.map(\.low).min() ?? 1
            return low...max(low, chosen.map(\.high).max() ?? 1)
        }
    }

    private let subjects: [Subject]
    private let words: Words
    /// The sentence that says why nothing is compared.
    private(set) var shortage: String?
    /// The subjects of the first axis whose difference is unknown at some place, because its repeats have no interval.
    private(set) var unknown: [String] = []

    /// - Parameter wasCutShort: whether the repeats are few because of an interruption, so that no advice helps.
    init(_ axes: [Axis], _ words: Words, wasCutShort: Bool = false) {
        self.words = words
        let pairs = axes.map(Self.pairs)
        let count = pairs.reduce(0) { $0 + $1.count }
        let target = 1 - (1 - Self.certainty) / Double(max(1, count))
        // Most rows have as many repeats, and a rank takes longer than an interval.
        var ranks: [Int: Int?] = [:]
        func interval(_ ratios: [Double]) -> PairedInterval? {
            let rank = ranks[ratios.count] ?? PairedInterval.rank(ratios.count, target)
            ranks[ratios.count] = .some(rank)
            return rank.flatMap { PairedInterval(ratios, rank: $0) }
        }
        var subjects: [Subject] = []
        var repeats: [(given: Int, known: Int)] = []
        for (number, (axis, pairs)) in zip(axes, pairs).enumerated() {
            for (reference, row) in pairs {
                let all = RepeatStatistics.ratios(row.values, to: reference.values)
                let ratios = all.compactMap { $0 }
                if !all.isEmpty { repeats.append((all.count, ratios.count)) }
                guard let interval = interval(ratios) else {
                    if number == 0, !unknown.contains(row.subject) { unknown.append(row.subject) }
                    continue
                }
                let place = Place(group: row.group, size: row.size)
                let difference = Difference(place: place, low: interval.low, high: interval.high)
                let places = Self.places(reference.subject, axis)
                let known = subjects.firstIndex {
                    $0.axis == number && $0.name == row.subject && $0.reference == reference.subject
                }
                let index = known ?? subjects.count
                if known == nil {
                    subjects.append(
                        Subject(
                            axis: number,
                            name: row.subject,
                            reference: reference.subject,
                            preposition: axis.preposition,
                            differences: [],
                            missing: places,
                            all: places
                        )
                    )
                }
                subjects[index].differences.append(difference)
                subjects[index].missing.removeAll { $0 == place }
            }
        }
        self.subjects = subjects
        shortage = wasCutShort ? nil : Self.shortage(repeats, needed: PairedInterval.neededRepeats(target), words)
    }

    /// The sentence about too few repeats, or about repeats that are too short to have a value; `nil` if there are enough.
    private static func shortage(
        _ repeats: [(given: Int, known: Int)],
        needed: Int,
        _ words: Words
    ) -> String? {
        if let fewest = repeats.map(\.given).min(), fewest < needed {
            return "\(fewest) repeat\(fewest == 1 ? " is" : "s are") too few to separate some differences from noise. "
                + "It takes \(needed): --repeat \(needed)."
        }
        guard let (given, known) = repeats.min(by: { $0.known < $1.known }), known < needed else { return nil }
        let some =
            switch known {
            case 0: "none of the \(given) repeats has enough messages for a value of its own"
            case 1: "only 1 of \(given) repeats has enough messages for a value of its own"
            default: "only \(known) of \(given) repeats have enough messages for a value of their own"
            }
        return
            "In some rows \(some), which is too few to separate differences from noise. It takes \(needed) such repeats: \(words.remedy)."
    }

    /// Each row beside that of the reference at the same place.
    private static func pairs(_ axis: Axis) -> [(reference: Row, row: Row)] {
        guard let first = axis.rows.first?.subject else { return [] }
        let references = axis.rows.filter { $0.subject == first }
        return axis.rows.filter { $0.subject != first }.compactMap { row in
            references.first { $0.group == row.group && $0.size == row.size }.map { ($0, row) }
        }
    }

    private static func places(_ subject: String, _ axis: Axis) -> [Place] {
        axis.rows.filter { $0.subject == subject }.map { Place(group: $0.group, size: $0.size) }
    }

    /// The largest factor by which two rows of an axis may differ at the same place; `nil` without any comparison.
    /// It is not about ``unknown`` differences.
    func largestFactor(axis: Int = 0) -> Double? {
        let all = subjects.filter { $0.axis == axis }.flatMap(\.differences)
        return all.map(\.place).distinct.map { place in
            // The reference differs from itself by the factor 1.
            let rows = [(low: 1, high: 1)] + all.filter { $0.place == place }.map { (low: $0.low, high: $0.high) }
            let pairs = rows.indices.flatMap { slow in
                rows.indices.filter { $0 != slow }.map { fast in rows[slow].high / rows[fast].low }
            }
            return pairs.max() ?? 1
        }.max()
    }

    /// The two rows of an axis with the largest sure difference at the same place: the factor, and a sentence without a full
    /// stop; `nil` if no difference is sure.
    func largestSure(axis: Int = 0) -> (factor: Double, sentence: String)? {
        let own = subjects.filter { $0.axis == axis }
        guard let first = own.first else { return nil }
        var largest: (factor: Double, slow: String, fast: String, place: Place)?
        for place in first.all {
            let others = own.flatMap { subject in
                subject.differences.filter { $0.place == place }.map { (subject.name, $0.low, $0.high) }
            }
            let rows = [(first.reference, 1.0, 1.0)] + others
            for slow in rows {
                for fast in rows where slow.0 != fast.0 && slow.1 / fast.2 > largest?.factor ?? (1 + Self.noise) {
                    largest = (slow.1 / fast.2, slow.0, fast.0, place)
                }
            }
        }
        return largest.map { largest in
            let place = Self.capitalized(Self.location([largest.place], first.all, first.preposition))
            func sentence(_ subject: String, _ amount: String, _ other: String) -> (Double, String) {
                (largest.factor, "\(place), \(subject) \(words.verb.one) at least \(amount) \(other)")
            }
            if largest.factor >= 2 {
                let times = Self.times(largest.factor, .down)
                return sentence(largest.slow, "\(times) times \(words.times)", largest.fast)
            }
            guard largest.slow == first.reference else {
                return sentence(largest.slow, "\(Self.percentDown(largest.factor)) % \(words.more)", largest.fast)
            }
            // In the direction of the other sentences, which compare with the reference.
            let percent = Self.percentDown(2 - 1 / largest.factor)
            return sentence(largest.fast, "\(percent) % \(words.less)", largest.slow)
        }
    }

    /// The largest sure difference of all axes, or the sentence that there is none.
    var sureSentence: String {
        let axes = subjects.map(\.axis).distinct
        let largest = axes.compactMap { largestSure(axis: $0) }.max { $0.factor < $1.factor }
        return largest.map { $0.sentence + "." } ?? "No difference in \(words.quantity) is sure."
    }

    // MARK: Sentences

    /// The sentences, the largest differences first.
    var sentences: [String] {
        var groups: [[Subject]] = []
        for subject in subjects {
            let index = groups.firstIndex { others in others.allSatisfy(subject.isLike) }
            if let index { groups[index].append(subject) } else { groups.append([subject]) }
        }
        let sorted = groups.enumerated().sorted { first, second in
            let (left, right) = (Self.weight(first.element), Self.weight(second.element))
            return left == right ? first.offset < second.offset : left > right
        }.map(\.element)
        let room = Self.mostSentences - (shortage == nil ? 0 : 1)
        guard sorted.count > room else { return sorted.map(sentence) + [shortage].compactMap { $0 } }
        let rest = sorted.dropFirst(room - 1).flatMap { $0 }
        let names = Self.list(rest.map(\.name).distinct)
        let isSure = rest.allSatisfy { $0.places(.unsure).isEmpty }
        return sorted.prefix(room - 1).map(sentence) + [shortage].compactMap { $0 }
            + ["The differences of \(names) are smaller\(isSure ? "" : ", or not sure")."]
    }

    /// The largest difference that is sure, as a factor in either direction.
    private static func weight(_ subjects: [Subject]) -> Double {
        subjects.flatMap(\.differences).map { difference in
            switch difference.direction {
            case .more: difference.low
            case .less: 1 / difference.high
            case .unsure: 1
            }
        }.max() ?? 1
    }

    /// The sentence about subjects whose differences have the same directions at the same places. A range is about each of
    /// its rows.
    private func sentence(_ subjects: [Subject]) -> String {
        let first = subjects[0]
        let isOne = subjects.count == 1
        let name = Self.list(subjects.map(\.name))
        func location(_ places: [Place], _ every: String = " in every") -> String {
            let count = first.differences.count
            guard places.count == count, count > 1 else { return Self.location(places, first.all, first.preposition) }
            return every + (first.missing.isEmpty ? " row" : " compared row")
        }
        let differences = subjects.flatMap(\.differences)
        let verb = isOne ? words.verb.one : words.verb.many
        let unsure = first.places(.unsure)
        let span = Self.span(differences.filter { $0.direction == .unsure })
        var parts: [String] = []
        for direction in [Direction.more, .less] {
            let places = first.places(direction)
            guard !places.isEmpty else { continue }
            let subject = parts.isEmpty ? name : isOne ? "it" : "they"
            let amount = amount(differences.filter { $0.direction == direction }, direction, first.reference)
            parts.append("\(location(places).dropFirst()), \(subject) \(verb) \(amount)")
        }
        let isSure = !parts.isEmpty
        if !unsure.isEmpty {
            let rows = unsure.count == 1 ? "row" : "\(unsure.count) rows"
            parts.append(
                isSure
                    ? "in \(isOne ? "its" : "their") other \(rows) no sure difference: \(span)"
                    : "\(name): no sure difference from \(first.reference) in \(words.quantity)\(location(unsure, " in any")): "
                        + (isOne ? span : "each \(span)")
            )
        }
        if !first.missing.isEmpty {
            parts.append("not compared" + Self.location(first.missing, first.all, first.preposition))
        }
        let text = parts.joined(separator: "; ") + "."
        return isSure ? Self.capitalized(text) : text
    }

    private static func capitalized(_ text: String) -> String {
        let text = text.drop { $0 == " " }
        return text.prefix(1).uppercased() + text.dropFirst()
    }

    /// From the lowest to the highest end of differences that are not sure.
    private static func span(_ differences: [Difference]) -> String {
        func percent(_ factor: Double, _ rule: FloatingPointRoundingRule) -> String {
            let text = Self.percent(factor, rule)
            return (factor > 1 && text != "0" ? "+" : "") + text + " %"
        }
        let low = differences.map(\.low).min() ?? 1
        let high = differences.map(\.high).max() ?? 1
        return "between \(percent(low, .down)) and \(percent(high, .up))"
    }

    /// The range of the differences, which all have the same direction. It is rounded to the outside.
    private func amount(_ differences: [Difference], _ direction: Direction, _ reference: String) -> String {
        let low = differences.map(\.low).min() ?? 1
        let high = differences.map(\.high).max() ?? 1
        if low >= 2 {
            let (from, to) = (Self.times(low, .down), Self.times(high, .up))
            return (from == to ? from : "\(from) to \(to)") + " times \(words.times) \(reference)"
        }
        let ends = direction == .more ? (low, high) : (2 - high, 2 - low)
        let (from, to) = (Self.percentDown(ends.0), Self.percentUp(ends.1))
        let more = direction == .more ? words.more : words.less
        return (from == to ? from : "\(from) to \(to)") + " % \(more) \(reference)"
    }

    /// A factor with one digit behind the point.
    static func times(_ factor: Double, _ rule: FloatingPointRoundingRule) -> String {
        fixed(((factor * 10_000).rounded() / 1000).rounded(rule) / 10, 1, trimmed: true)
    }

    /// A factor as a change in percent, rounded up.
    static func percentUp(_ factor: Double) -> String { percent(factor, .up) }

    /// A factor as a change in percent, rounded down.
    static func percentDown(_ factor: Double) -> String { percent(factor, .down) }

    /// The factor may be slightly inexact, so a small part of a percent is no reason to round.
    private static func percent(_ factor: Double, _ rule: FloatingPointRoundingRule) -> String {
        // The sum with 0 has no sign if it is 0.
        fixed((((factor - 1) * 100_000).rounded() / 1000).rounded(rule) + 0, 0)
    }

    /// Some of all places, in words.
    private static func location(_ places: [Place], _ all: [Place], _ preposition: String) -> String {
        let groups = all.map(\.group).distinct
        var parts: [(groups: [String], sizes: [Int])] = []
        for group in groups {
            let sizes = places.filter { $0.group == group }.map(\.size)
            guard !sizes.isEmpty else { continue }
            if let index = parts.firstIndex(where: { $0.sizes == sizes }) {
                parts[index].groups.append(group)
            } else {
                parts.append(([group], sizes))
            }
        }
        guard parts.count <= 2 else { return " in \(places.count) of \(all.count) rows" }
        let texts = parts.map { part in
            let isEverySize =
                all.filter { part.groups.contains($0.group) }.count == part.groups.count * part.sizes.count
            let names = part.groups == groups && groups.count > 1 || groups == [""]
            let sizes = isEverySize && !names ? "" : " at \(list(part.sizes.map(String.init))) bytes"
            return (names ? "" : " \(preposition) \(list(part.groups))") + sizes
        }
        return texts.joined(separator: ", and")
    }

    /// Words with commas and "and" between them.
    static func list(_ words: [String]) -> String {
        guard let last = words.last, words.count > 1 else { return words.first ?? "" }
        return words.dropLast().joined(separator: ", ") + " and " + last
    }
}
