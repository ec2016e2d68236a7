import CommandSupport
import Measuring
import Reporting

/// The differences between rows that were measured alternately, and sentences about those that are sure.
///
/// A row is compared with the row of a reference at the same place, such as ws with tcp, both with JSON at 256 bytes. Each
/// repeat of both gives a ratio, in which a slow phase of the machine cancels out. ``PairedInterval`` gives the interval of
/// the true ratio. A difference is sure if its interval lies beyond ±``noise``. For others, the sentences give the interval,
/// unless it is too wide to be of use.
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
    private static let certaintyText = "\(fixed(certainty * 100, 0)) %"
    /// By how much the ends of two ranges in one sentence differ at most: a number below 1, and a share of larger factors.
    private static let similar = 0.1
    /// An interval whose ends differ by a larger factor says nothing of use.
    private static let widest = 10.0
    /// The most sentences.
    private static let mostSentences = 6

    /// The place of a row in its table: the other property and the size.
    struct Place: Hashable, Sendable {
        var group: String
        var size: Int
    }

    /// What the sentences mean by sure, for the reader of a report; nothing if no rows could be compared.
    ///
    /// - Parameter isQuiet: Whether nothing disturbed the machine. A disturbance can hit one row more than another.
    func rule(isQuiet: Bool) -> [String] { subjects.isEmpty ? [] : [Self.rule(isQuiet: isQuiet)] }

    /// The same for any comparison.
    static func rule(isQuiet: Bool) -> String {
        "A difference is sure if its interval lies beyond ±\(fixed(noise * 100, 0)) %. "
            + (isQuiet
                ? "All intervals of a table are right together with \(certaintyText)."
                : "The machine was disturbed, so such a difference may be one of the disturbance.")
    }

    private enum Direction: Hashable { case more, less, unsure }

    private struct Difference {
        var place: Place
        var interval: PairedInterval
        var low: Double { interval.low }
        var high: Double { interval.high }

        var direction: Direction {
            if low > 1 + RowDifferences.noise { return .more }
            if high < 1 - RowDifferences.noise { return .less }
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
                        && Self.areSimilar(own.lowerBound, others.lowerBound)
                        && Self.areSimilar(own.upperBound, others.upperBound)
                }
        }

        private static func areSimilar(_ one: Double, _ other: Double) -> Bool {
            abs(one - other) <= RowDifferences.similar * max(1, min(one, other))
        }

        /// Whether some difference is sure.
        var isSure: Bool { differences.contains { $0.direction != .unsure } }

        /// From the lowest to the highest end of the differences in one direction.
        private func range(_ direction: Direction) -> ClosedRange<Double> {
            let chosen = differences.filter { $0.direction == direction }
            let low = chosen.map(\.low).min() ?? 1
            return low...max(low, chosen.map(\.high).max() ?? 1)
        }
    }

    /// The comparisons of one axis, and those of them that have no interval, because too few repeats have a value.
    private struct Extent {
        /// The places of the compared rows.
        var compared: [Place]
        var leftOut: [(subject: String, place: Place)] = []
        /// The places of the reference.
        var all: [Place]
        var preposition: String
    }

    private let subjects: [Subject]
    private let words: Words
    /// By axis.
    private var extents: [Extent] = []
    /// The sentence that says why nothing is compared.
    private(set) var shortage: String?

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
            let all = axis.rows.first.map { Self.places($0.subject, axis) } ?? []
            let compared = pairs.map { Place(group: $0.row.group, size: $0.row.size) }
            extents.append(Extent(compared: compared, all: all, preposition: axis.preposition))
            for (reference, row) in pairs {
                let all = RepeatStatistics.ratios(row.values, to: reference.values)
                let ratios = all.compactMap { $0 }
                if !all.isEmpty { repeats.append((all.count, ratios.count)) }
                let place = Place(group: row.group, size: row.size)
                guard let interval = interval(ratios) else {
                    extents[number].leftOut.append((row.subject, place))
                    continue
                }
                let difference = Difference(place: place, interval: interval)
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
            let some = repeats.allSatisfy { $0.given < needed } ? "any difference" : "some differences"
            return "\(fewest) repeat\(fewest == 1 ? " is" : "s are") too few to separate \(some) from noise. "
                + "It takes \(needed): --repeat \(needed)."
        }
        let short = repeats.filter { $0.known < needed }.sorted { $0.known < $1.known }
        guard let (given, fewest) = short.first, let most = short.last?.known else { return nil }
        func have(_ count: Int, _ before: String) -> String {
            let repeats =
                switch count {
                case 0: "none of the \(given) repeats has"
                case 1: "\(before) 1 of \(given) repeats has"
                default: "\(before) \(count) of \(given) repeats have"
                }
            return "\(repeats) enough messages in both rows"
        }
        let some =
            if short.count == repeats.count {
                capitalized(have(most, short.count == 1 ? "only" : "at most"))
            } else if short.count == 1 {
                "In one comparison \(have(fewest, "only"))"
            } else {
                "In some comparisons \(have(fewest, "only"))"
            }
        return
            "\(some), which is too few to separate differences from noise. It takes \(needed) such repeats: \(words.remedy)."
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

    /// The largest factor between two rows of an axis at the same place: the estimate, and the one that it does not exceed;
    /// `nil` without any comparison. It is not about the rows of ``leftOutSentence(axis:mostParts:where:)``.
    func largestFactor(axis: Int = 0) -> (estimate: Double, bound: Double)? {
        let all = subjects.filter { $0.axis == axis }.flatMap(\.differences)
        let pairs = all.map(\.place).distinct.flatMap { place in
            // The reference differs from itself by the factor 1.
            let rows = [PairedInterval(low: 1, high: 1)] + all.filter { $0.place == place }.map(\.interval)
            return rows.indices.flatMap { slow in
                rows.indices.filter { $0 != slow }.map { fast in
                    (rows[slow].middle / rows[fast].middle, rows[slow].high / rows[fast].low)
                }
            }
        }
        guard let estimate = pairs.map(\.0).max(), let bound = pairs.map(\.1).max() else { return nil }
        return (max(1, estimate), max(1, bound))
    }

    /// Whether the number of one subject at a place is surely greater than that of another one there. Rows at different places
    /// are not compared.
    func isSure(_ more: String, above less: String, at place: Place) -> Bool {
        subjects.map(\.axis).distinct.contains { axis in
            let own = subjects.filter { $0.axis == axis && $0.differences.contains { $0.place == place } }
            guard let reference = own.first?.reference else { return false }
            func bounds(_ name: String) -> (low: Double, high: Double)? {
                guard name != reference else { return (1, 1) }
                let difference = own.first { $0.name == name }?.differences.first { $0.place == place }
                return difference.map { ($0.low, $0.high) }
            }
            guard more != less, let one = bounds(more), let other = bounds(less) else { return false }
            return one.low / other.high > Self.leastFactor(isReference: more == reference)
        }
    }

    /// The factor beyond which the greater of two rows is surely greater. A difference from a reference that is greater is
    /// told as less.
    private static func leastFactor(isReference: Bool) -> Double { isReference ? 1 / (1 - noise) : 1 + noise }

    /// The two rows of an axis with the largest sure difference at the same place: the factor, and a sentence that begins with
    /// a small letter and has no full stop; `nil` if no difference is sure.
    ///
    /// - Parameter isIncluded: The places. The only one has no name in the sentence, unless `namesOnlyPlace`.
    func largestSure(
        axis: Int = 0,
        namesOnlyPlace: Bool = true,
        where isIncluded: (Place) -> Bool = { _ in true }
    ) -> (factor: Double, sentence: String)? {
        let own = subjects.filter { $0.axis == axis }
        guard let first = own.first else { return nil }
        var largest: (factor: Double, slow: String, fast: String, place: Place)?
        let places = first.all.filter(isIncluded)
        for place in places {
            let others = own.flatMap { subject in
                subject.differences.filter { $0.place == place }.map { (subject.name, $0.low, $0.high) }
            }
            let rows = [(first.reference, 1.0, 1.0)] + others
            for slow in rows {
                let least = Self.leastFactor(isReference: slow.0 == first.reference)
                for fast in rows where slow.0 != fast.0 && slow.1 / fast.2 > max(least, largest?.factor ?? 1) {
                    largest = (slow.1 / fast.2, slow.0, fast.0, place)
                }
            }
        }
        return largest.map { largest in
            let place =
                places.count == 1 && !namesOnlyPlace
                ? "" : Self.location([largest.place], first.all, first.preposition).dropFirst() + ", "
            func sentence(_ subject: String, _ amount: String, _ other: String) -> (Double, String) {
                (largest.factor, "\(place)\(subject) \(words.verb.one) at least \(amount) \(other)")
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

    /// A sentence about the largest sure difference of an axis; `nil` if none is sure.
    ///
    /// - Parameter namesCertainty: Whether no sentence before it has named the certainty.
    func sureSentence(axis: Int, namesCertainty: Bool) -> String? {
        largestSure(axis: axis).map { Self.sentence(ofLargest: $0.sentence, namesCertainty: namesCertainty) }
    }

    private static func sentence(ofLargest sentence: String, namesCertainty: Bool = true) -> String {
        "The largest " + (namesCertainty ? "difference that is sure with \(certaintyText)" : "sure difference")
            + ": \(sentence)."
    }

    /// The largest sure difference of all axes at some places, or the sentence that there is none, or that nothing was
    /// compared; and the rows that were left out.
    ///
    /// - Parameter scope: The places in words, if they are not all, as in "with 10 subscribers".
    func sureSentences(scope: String? = nil, where isIncluded: (Place) -> Bool = { _ in true }) -> [String] {
        guard subjects.contains(where: { $0.differences.contains { isIncluded($0.place) } }) else {
            return [notCompared].compactMap { $0 }
        }
        let largest = subjects.map(\.axis).distinct.compactMap { axis in
            largestSure(axis: axis, namesOnlyPlace: false, where: isIncluded)
        }.max { $0.factor < $1.factor }
        let none = "No difference in \(words.quantity) \(scope.map { "\($0) " } ?? "")is sure."
        return [largest.map { Self.sentence(ofLargest: $0.sentence) } ?? none]
            + [leftOutSentence(where: isIncluded)].compactMap { $0 }
    }

    /// Why rows cannot be compared; `nil` if there was nothing to compare.
    var notCompared: String? {
        guard extents.contains(where: { !$0.compared.isEmpty }) else { return nil }
        return shortage ?? "There are too few repeats to compare the rows."
    }

    /// The comparisons of an axis, or of all, that have no interval, because too few repeats have a value in both rows; `nil`
    /// if there is none.
    ///
    /// - Parameter mostParts: the longest list of their names. A longer one is only counted.
    func leftOutSentence(
        axis: Int? = nil,
        mostParts: Int = 3,
        where isIncluded: (Place) -> Bool = { _ in true }
    ) -> String? {
        let chosen = axis.map { [extents[$0]] } ?? extents
        var (count, parts) = (0, [String]())
        for extent in chosen {
            let rows = extent.leftOut.filter { isIncluded($0.place) }
            count += rows.count
            parts += Self.names(of: rows, extent.all, extent.preposition)
        }
        guard count > 0 else { return nil }
        let all = chosen.reduce(0) { $0 + $1.compared.count(where: isIncluded) }
        let names = parts.count > mostParts ? "" : " (\(parts.joined(separator: "; ")))"
        return
            "\(count) of \(counted(all, "comparison")) \(count == 1 ? "is" : "are") left out\(names), because too few repeats "
            + "have a value in both rows."
    }

    /// Some rows in words, as in "ws and mqtt with json at 4096 bytes", one text for each set of places.
    static func names(
        of rows: [(subject: String, place: Place)],
        _ all: [Place],
        _ preposition: String
    ) -> [String] {
        var parts: [(subjects: [String], places: [Place])] = []
        for subject in rows.map(\.subject).distinct {
            let places = rows.filter { $0.subject == subject }.map(\.place)
            if let index = parts.firstIndex(where: { $0.places == places }) {
                parts[index].subjects.append(subject)
            } else {
                parts.append(([subject], places))
            }
        }
        return parts.map { subjects, places in
            list(subjects) + (places.count == all.count ? "" : location(places, all, preposition))
        }
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
        let (sure, unsure) = (names(rest.filter(\.isSure)), names(rest.filter { !$0.isSure }))
        // Only what is sure is compared. The true differences may be larger.
        let last =
            if sure.isEmpty {
                "For \(unsure), no difference is sure."
            } else {
                "For \(sure), a smaller difference is sure."
                    + (unsure.isEmpty ? "" : " For \(unsure), no difference is sure.")
            }
        return sorted.prefix(room - 1).map(sentence) + [shortage].compactMap { $0 } + [last]
    }

    /// The names of subjects, with the references if there are several.
    private func names(_ some: [Subject]) -> String {
        guard subjects.map(\.reference).distinct.count > 1 else { return Self.list(some.map(\.name).distinct) }
        let parts = some.map(\.reference).distinct.map { reference in
            Self.list(some.filter { $0.reference == reference }.map(\.name).distinct) + " compared with \(reference)"
        }
        return parts.joined(separator: ", and for ")
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
                        + (isOne || span == Self.tooNoisy ? span : "each \(span)")
            )
        }
        if !first.missing.isEmpty {
            parts.append("not compared" + Self.location(first.missing, first.all, first.preposition))
        }
        let text = parts.joined(separator: "; ") + "."
        return isSure ? Self.capitalized(text) : text
    }

    /// The words in place of a range that says nothing.
    private static let tooNoisy = "too much noise for a useful range"

    private static func capitalized(_ text: String) -> String {
        let text = text.drop { $0 == " " }
        return text.prefix(1).uppercased() + text.dropFirst()
    }

    /// From the lowest to the highest end of differences that are not sure, unless that says nothing.
    private static func span(_ differences: [Difference]) -> String {
        func percent(_ factor: Double, _ rule: FloatingPointRoundingRule) -> String {
            let text = Self.percent(factor, rule)
            return (factor > 1 && text != "0" ? "+" : "") + text + " %"
        }
        let low = differences.map(\.low).min() ?? 1
        let high = differences.map(\.high).max() ?? 1
        guard high <= low * widest else { return tooNoisy }
        return "between \(percent(low, .down)) and \(percent(high, .up))"
    }

    /// The range of the differences, which all have the same direction. It is rounded to the outside.
    private func amount(_ differences: [Difference], _ direction: Direction, _ reference: String) -> String {
        let low = differences.map(\.low).min() ?? 1
        let high = differences.map(\.high).max() ?? 1
        if high >= 2 {
            // One decimal would turn a small difference into none.
            let from = low < 1.1 ? fixed((low * 100).rounded(.down) / 100, 2) : Self.times(low, .down)
            let to = Self.times(high, .up)
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
