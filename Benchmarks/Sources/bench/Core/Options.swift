/// What the command line asks for.
struct Options: Sendable {
    /// Repetitions of each contender.
    var repeats = 15
    /// Of one repetition, in nanoseconds.
    var duration: Int64 = 100_000_000
    /// Only comparisons whose name has one of these in it; all if there are none.
    var only: [String] = []
    /// Whether cores are kept awake, and those that wait are measured on idle cores beside.
    var isAwake = false
    /// Where the JSON goes.
    var output: String?
    var wantsHelp = false

    static let help = """
        bench [options]: compares this package with others and with C, side by side, and prints one table of ratios

            --awake          keeps the cores awake, and shows the ratios on idle ones beside
            --repeat N       repetitions of each contender (15)
            --duration MS    of one repetition, in milliseconds (100)
            --only NAME      only rows whose name has NAME in it; may be given several times
            --output FILE    writes all values as JSON
            --help           this

        Times decide nothing: the status is 1 if a contender did not run, lost a message or changed one, else 0.

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

    /// The comparisons that are asked for.
    func chosen(from all: [Comparison]) throws(UsageError) -> [Comparison] {
        let chosen = all.filter { comparison in
            only.isEmpty || only.contains { comparison.name.lowercased().contains($0.lowercased()) }
        }
        guard !chosen.isEmpty else { throw UsageError("no row has '\(only.joined(separator: "', '"))' in its name") }
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
