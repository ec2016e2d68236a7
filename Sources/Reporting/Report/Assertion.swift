import CommandSupport
import Foundation
import Protocols
import TransportAPI
import Transports

/// A row that an ``Assertion`` can name.
package protocol AssertableRow {
    /// The names of the row in `--assert`: its transport, and then the names that an assertion may omit.
    var labels: [String] { get }
    /// The name of the row in sentences.
    var name: String { get }
    /// Why the row has no numbers.
    var reason: String? { get }

    /// Why the row lacks this number, if another reason than ``reason`` is known.
    func reason(of metric: String) -> String?
    /// The number with this name, or `nil` if there is none.
    func value(of metric: String) -> Double?
}

extension AssertableRow {
    package func reason(of _: String) -> String? { reason }
}

/// One `--assert`: `transport[.codec][.size].metric op number`, as in `ws.json.256.rtt.p99_us < 2000`; with `--mix`
/// `transport[.codec][.size][.place].metric op number`, as in `ws.same.rtt.p90_us < 20000`; of `imbench crowd`
/// `transport[.attack].metric op number`, as in `ws.ping-flood.ratio_p99 <= 2`.
///
/// It must hold for every row that it names, so `ws.rtt.p99_us < 2000` must hold for all codecs and sizes. It does not hold
/// if there is no such row, or if a row lacks the number.
package struct Assertion: Sendable, Hashable {
    package enum Comparison: String, Sendable, Hashable, CaseIterable {
        // Longer signs first, so that "<=" is not read as "<".
        case atMost = "<="
        case atLeast = ">="
        case equal = "=="
        case different = "!="
        case below = "<"
        case above = ">"

        package func holds(_ left: Double, _ right: Double) -> Bool {
            switch self {
            case .atMost: left <= right
            case .atLeast: left >= right
            case .equal: left == right
            case .different: left != right
            case .below: left < right
            case .above: left > right
            }
        }
    }

    /// The names that the assertions of one command may have.
    package struct Names: Sendable {
        /// An assertion, for errors.
        package var example: String
        /// Reads each name that may follow the transport.
        package var labels: [@Sendable (String) -> String?]
        package var metrics: [String]

        package init(example: String, labels: [@Sendable (String) -> String?], metrics: [String]) {
            (self.example, self.labels, self.metrics) = (example, labels, metrics)
        }
    }

    /// The expression as the user typed it.
    package let text: String
    /// The names that a row must have; `nil` for any.
    private let labels: [String?]
    private let metric: String
    private let comparison: Comparison
    private let bound: Double

    /// Reads an expression.
    package init(_ text: String, _ vocabulary: Vocabulary, _ allowed: Names) throws(UsageError) {
        guard let (subject, comparison, bound) = Self.parts(text) else {
            let signs = Comparison.allCases.map(\.rawValue).joined(separator: " ")
            throw UsageError(
                "--assert: '\(text)' is not of the form '\(allowed.example)': "
                    + "names with dots, one of \(signs), and a number that is not negative"
            )
        }
        let place = "--assert '\(text)'"
        var names = subject.split(separator: ".", omittingEmptySubsequences: false).map { String($0) }
        let transport = names.removeFirst()
        guard vocabulary.rowNames.contains(transport) else {
            throw .unknown("transport", transport, of: place, allowed: vocabulary.rowNames)
        }
        var labels: [String?] = [transport]
        for read in allowed.labels {
            labels.append(names.first.flatMap(read))
            if labels.last != .some(nil) { names.removeFirst() }
        }
        metric = names.joined(separator: ".")
        guard allowed.metrics.contains(metric) else {
            throw .unknown("metric", metric, of: place, allowed: allowed.metrics)
        }
        (self.text, self.labels, self.comparison, self.bound) = (text, labels, comparison, bound)
    }

    /// Throws if the run has no row that the assertion names.
    ///
    /// - Parameter values: for each label the values that rows have.
    package func check(_ values: [String]...) throws(UsageError) {
        for (label, values) in zip(labels, values) {
            guard let label, !values.contains(label) else { continue }
            throw UsageError("--assert '\(text)': the run has no '\(label)', but \(values.joined(separator: ", "))")
        }
    }

    /// Why the assertion does not hold, or `nil` if it does.
    package func failure(in rows: [some AssertableRow]) -> String? {
        let named = rows.filter { row in zip(labels, row.labels).allSatisfy { $0 == nil || $0 == $1 } }
        guard !named.isEmpty else { return "'\(text)' does not hold: there is no such row" }
        for row in named {
            guard let value = row.value(of: metric) else {
                let reason = row.reason(of: metric) ?? "not measured, or by too few samples"
                return "'\(text)' does not hold: \(row.name) has no \(metric) (\(reason))"
            }
            guard comparison.holds(value, bound) else {
                return "'\(text)' does not hold: \(row.name) has \(fixed(value, 3, trimmed: true))"
            }
        }
        return nil
    }

    /// The two sides of an expression, the left one with a dot, and the sign between them.
    private static func parts(_ text: String) -> (subject: String, comparison: Comparison, bound: Double)? {
        guard text.utf8.count <= 500,
            let (sign, place) = Comparison.allCases.lazy.compactMap({ sign in
                text.firstRange(of: sign.rawValue).map { (sign, $0) }
            }).first
        else { return nil }
        let sides = [text[..<place.lowerBound], text[place.upperBound...]].map {
            $0.trimmingCharacters(in: .whitespaces)
        }
        guard sides[0].contains("."),
            let bound = try? SettingFormat.number(0 ... .greatestFiniteMagnitude).read(sides[1], key: "number")
        else { return nil }
        return (sides[0], sign, bound)
    }
}

extension [Assertion] {
    /// Reports the assertions that do not hold, and the broken rules in `breaches`. Returns the exit status: a failed run
    /// takes precedence over an assertion.
    package func status(of rows: [some AssertableRow], hasFailed: Bool = false, breaches: [String] = []) -> Int32 {
        let failures = compactMap { $0.failure(in: rows) } + breaches
        for failure in failures { remark(failure) }
        if hasFailed { return ExitStatus.failed }
        return failures.isEmpty ? ExitStatus.good : ExitStatus.assertion
    }
}
