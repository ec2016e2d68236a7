/// Which reports are compared, and how strictly.
struct CompareOptions: Sendable, Equatable {
    /// The files.
    var before = ""
    var after = ""
    /// By how many percent two runs of the same code may differ; what Criterion.rs calls its noise threshold.
    var noisePercent = 1.0
}

extension OptionTable {
    /// What `imbench compare` takes beside its files.
    static let compare: [OptionRow] = [
        OptionRow(
            name: "noise",
            placeholder: "PERCENT",
            group: .what,
            commands: [.compare],
            summary: "by how much two runs of the same code may differ; smaller differences are noise, however sure",
            shown: { fixed($0.comparison.noisePercent, 3, trimmed: true) },
            apply: { (options, text, _) throws(UsageError) in
                guard let percent = OptionValue.decimal(text), percent <= 100 else {
                    throw UsageError("--noise: '\(text)' is not a number from 0 to 100")
                }
                options.comparison.noisePercent = percent
            }
        )
    ]

    /// There are two files.
    static func finishCompare(_ options: inout Options) throws(UsageError) {
        guard options.arguments.count == 2 else {
            throw UsageError("'compare' needs two files: imbench compare A.json B.json")
        }
        (options.comparison.before, options.comparison.after) = (options.arguments[0], options.arguments[1])
    }
}
