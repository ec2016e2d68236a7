import CommandSupport

/// The least and the greatest of some figures with the names of their rows, as in "71.2 (tcp and 5 others) to 107 ms (http)".
struct NamedRange: Sendable {
    /// The ends, and the rows that have them.
    private let ends: [(text: String, names: [String])]

    /// `nil` without a figure.
    init?(_ figures: [(name: String, value: Double)]) {
        let values = figures.map(\.value)
        guard let least = values.min(), let most = values.max() else { return nil }
        ends = [shown(least), shown(most)].distinct.map { text in
            (text, figures.filter { shown($0.value) == text }.map(\.name).distinct)
        }
    }

    /// The range with its unit. Equal figures are one, without names.
    func text(_ unit: String) -> String {
        guard let first = ends.first, let last = ends.last, ends.count > 1 else {
            return "\(ends.first?.text ?? "-") \(unit)"
        }
        return "\(first.text) (\(Self.some(first.names))) to \(last.text) \(unit) (\(Self.some(last.names)))"
    }

    /// The range without names, for rows between which no difference was tested.
    func unnamed(_ unit: String) -> String { "\(ends.map(\.text).joined(separator: " to ")) \(unit)" }

    private static func some(_ names: [String]) -> String {
        guard let first = names.first, names.count > 2 else { return RowDifferences.list(names) }
        return "\(first) and \(names.count - 1) others"
    }
}
