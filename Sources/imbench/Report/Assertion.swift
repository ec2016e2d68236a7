/// A row that an ``Assertion`` can name.
protocol AssertableRow {
    var transport: String { get }
    var codec: String { get }
    /// Bytes of text.
    var size: Int { get }
    /// Why there are no numbers.
    var reason: String? { get }

    /// The number of this name, or `nil` if there is none.
    func value(of metric: String) -> Double?
}

extension ResultRow: AssertableRow {
    func value(of metric: String) -> Double? {
        Metric.all.first { $0.name == metric }?.value(self)
    }
}

/// One `--assert`: `transport[.codec][.size].metric op number`, as in `ws.json.256.rtt.p99_us < 2000`.
///
/// It must hold for every row that it names, so `ws.rtt.p99_us < 2000` must hold for all codecs and sizes. It does not hold if
/// there is no such row, or if a row lacks the number.
struct Assertion: Sendable, Hashable {
    enum Comparison: String, Sendable, Hashable, CaseIterable {
        // Longer signs first, so that "<=" is not read as "<".
        case atMost = "<="
        case atLeast = ">="
        case equal = "=="
        case different = "!="
        case below = "<"
        case above = ">"

        func holds(_ left: Double, _ right: Double) -> Bool {
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

    /// As it was typed.
    var text: String
    var transport: String
    var codec: String?
    var size: Int?
    var metric: String
    var comparison: Comparison
    var bound: Double

    /// Reads an expression about one of `metrics`.
    init(
        _ text: String,
        _ vocabulary: Vocabulary,
        metrics: [String] = Metric.all.map(\.name)
    ) throws(UsageError) {
        guard let (subject, sign, bound) = Self.parts(text) else {
            throw UsageError("--assert: '\(text)' is not of the form 'ws.json.256.rtt.p99_us < 2000'")
        }
        var names = subject.split(separator: ".", omittingEmptySubsequences: false).map(String.init)

        let transport = names.removeFirst()
        guard vocabulary.transports.contains(transport) else {
            throw .unknown("transport", transport, allowed: vocabulary.transports)
        }
        if let first = names.first, vocabulary.codecs.contains(first) { codec = names.removeFirst() }
        if let first = names.first, let number = Int(first) {
            size = number
            names.removeFirst()
        }
        let metric = names.joined(separator: ".")
        guard metrics.contains(metric) else { throw .unknown("metric", metric, allowed: metrics) }
        (self.text, self.transport, self.metric) = (text, transport, metric)
        (comparison, self.bound) = (sign, bound)
    }

    /// Why the assertion does not hold, or `nil` if it does.
    func failure(in rows: [some AssertableRow]) -> String? {
        let named = rows.filter {
            $0.transport == transport && (codec == nil || $0.codec == codec) && (size == nil || $0.size == size)
        }
        guard !named.isEmpty else { return "'\(text)' does not hold: there is no such row" }
        for row in named {
            let place = "\(row.transport) \(row.codec) \(row.size)"
            guard let value = row.value(of: metric) else {
                let reason = row.reason ?? "not measured, or by too few samples"
                return "'\(text)' does not hold: \(place) has no \(metric) (\(reason))"
            }
            guard comparison.holds(value, bound) else {
                return "'\(text)' does not hold: \(place) has \(fixed(value, 3, trimmed: true))"
            }
        }
        return nil
    }

    /// The two sides of an expression, the left one with a dot, and the sign between them.
    static func parts(_ text: String) -> (subject: String, comparison: Comparison, bound: Double)? {
        guard text.utf8.count <= 500,
            let found = Comparison.allCases.lazy.compactMap({ sign in
                text.firstRange(of: sign.rawValue).map { (sign, $0) }
            })
            .first
        else { return nil }
        let subject = trimmed(text[..<found.1.lowerBound])
        guard subject.contains("."), let bound = OptionValue.decimal(trimmed(text[found.1.upperBound...])) else {
            return nil
        }
        return (subject, found.0, bound)
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first == " " { text.removeFirst() }
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}
