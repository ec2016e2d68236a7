/// The options of the command line.
struct Options: Sendable {
    /// The number of repetitions of each contender.
    var repeats = 15
    /// The duration of one repetition, in nanoseconds.
    var duration: Int64 = 100_000_000
    /// Only comparisons whose name contains one of these are run; all if there are none.
    var only: [String] = []
    /// Whether cores are kept awake. Workloads that wait are then measured on idle cores, too.
    var isAwake = false
    /// The path of the JSON file.
    var output: String?
    var wantsHelp = false

    static let help = """
        bench [options]: compares this package with others and with C, side by side, and prints one table of ratios

            --awake          keeps the cores awake, and also shows the ratios on idle cores
            --repeat N       repetitions of each contender (15)
            --duration MS    duration of one repetition, in milliseconds (100)
            --only NAME      only rows whose name contains NAME; may be given several times
            --output FILE    writes all values as JSON
            --help           shows this help

        The status is 1 if a contender did not run, or lost or changed a message; otherwise 0. Times do not affect it.

        """

    init(_ words: [String]) throws(UsageError) {
        var words = words[...]
        while let word = words.popFirst() {
            switch word {
            case "--awake": isAwake = true
            case "--help", "-h": wantsHelp = true
            case "--repeat": repeats = try Self.number(word, &words, 1...1000)
            case "--duration": duration = Int64(try Self.number(word, &words, 10...10_000)) * 1_000_000
            case "--only": only.append(try Self.value(word, &words))
            case "--output": output = try Self.value(word, &words)
            default: throw UsageError("unknown option '\(word)'; --help lists them")
            }
        }
    }

    /// The comparisons that the options select.
    func chosen(from all: [Comparison]) throws(UsageError) -> [Comparison] {
        let chosen = all.filter { comparison in
            only.isEmpty || only.contains { comparison.name.lowercased().contains($0.lowercased()) }
        }
        guard !chosen.isEmpty else { throw UsageError("no row's name contains '\(only.joined(separator: "' or '"))'") }
        return chosen
    }

    private static func value(_ name: String, _ words: inout ArraySlice<String>) throws(UsageError) -> String {
        guard let value = words.popFirst() else { throw UsageError("\(name) needs a value") }
        return value
    }

    private static func number(
        _ name: String,
        _ words: inout ArraySlice<String>,
        _ range: ClosedRange<Int>
    ) throws(UsageError) -> Int {
        let text = try value(name, &words)
        guard let number = Int(text), range.contains(number) else {
            throw UsageError("\(name) '\(text)': allowed are \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
