import Reporting

extension ResultRow: AssertableRow {
    var labels: [String] { [transport, codec, String(size), (picture?.place ?? .none).rawValue] }
    var name: String {
        labels.prefix(picture == nil ? 3 : 4).joined(separator: " ") + (network.map { " over \($0)" } ?? "")
    }

    func value(of metric: String) -> Double? {
        Metric.all.first { $0.name == metric }?.value(self)
    }
}

extension Assertion.Names {
    /// The names of rows of `run`.
    static func rows(_ vocabulary: Vocabulary) -> Assertion.Names {
        Assertion.Names(
            example: "ws.json.256.rtt.p99_us < 2000",
            labels: codecAndSize(vocabulary) + [{ PicturePlace(rawValue: $0)?.rawValue }],
            metrics: Metric.all.map(\.name)
        )
    }

    /// Reads the codec and the size in the name of a row.
    static func codecAndSize(_ vocabulary: Vocabulary) -> [@Sendable (String) -> String?] {
        [{ vocabulary.codecs.contains($0) ? $0 : nil }, { Int($0).map { String($0) } }]
    }
}
