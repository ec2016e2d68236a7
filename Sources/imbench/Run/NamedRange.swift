import CommandSupport

/// The least and the greatest of some figures, with the names of the rows that surely have them, as in "71.2 (tcp and 5 others)
/// to 107 ms (http)".
struct NamedRange: Sendable {
    private let names: [String]
    /// The ends, and the numbers of the figures that have them.
    private let ends: [(text: String, members: [Int])]

    /// `nil` without a figure.
    init?(_ figures: [(name: String, value: Double)]) {
        let values = figures.map(\.value)
        guard let least = values.min(), let most = values.max() else { return nil }
        names = figures.map(\.name)
        ends = [shown(least), shown(most)].distinct.map { text in
            (text, figures.indices.filter { shown(figures[$0].value) == text })
        }
    }

    /// The range with its unit. The rows at an end are named if each of them surely differs from every row that is not at that
    /// end. Equal figures are one, without names.
    ///
    /// - Parameter isSure: Whether the first figure is surely greater than the second one, by their numbers.
    func text(_ unit: String, isSure: (Int, Int) -> Bool) -> String {
        guard let first = ends.first, let last = ends.last, ends.count > 1 else { return unnamed(unit) }
        func some(_ end: [Int], _ differs: (Int, Int) -> Bool) -> String {
            let others = names.indices.filter { !end.contains($0) }
            guard end.allSatisfy({ own in others.allSatisfy { differs(own, $0) } }) else { return "" }
            let texts = end.map { names[$0] }.distinct
            guard let first = texts.first, texts.count > 2 else { return " (\(RowDifferences.list(texts)))" }
            return " (\(first) and \(texts.count - 1) others)"
        }
        return "\(first.text)\(some(first.members) { isSure($1, $0) }) to \(last.text) \(unit)"
            + some(last.members, isSure)
    }

    /// The range without names, for rows between which no difference was tested.
    func unnamed(_ unit: String) -> String { "\(ends.map(\.text).joined(separator: " to ")) \(unit)" }
}
