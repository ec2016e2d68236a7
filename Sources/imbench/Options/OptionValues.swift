import TransportAPI

/// Readers of option values. Each takes the option's name for the sentence of its error.
enum OptionValue {
    /// A whole number within `range`.
    static func integer(_ text: String, _ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        guard let value = Int(text) else { throw UsageError("--\(name): '\(text)' is not a whole number") }
        guard range.contains(value) else {
            throw UsageError("--\(name): \(text) is not between \(range.lowerBound) and \(range.upperBound)")
        }
        return value
    }

    /// A positive number up to `limit`, with or without decimals.
    static func positive(_ text: String, _ name: String, upTo limit: Double) throws(UsageError) -> Double {
        guard let value = decimal(text) else { throw UsageError("--\(name): '\(text)' is not a number") }
        guard value > 0, value <= limit else {
            throw UsageError("--\(name): \(text) is not above 0 and at most \(fixed(limit, 0))")
        }
        return value
    }

    /// A list such as `ws,tcp`; each word must be one of `allowed`. Empty words and repetitions are dropped.
    static func words(_ text: String, _ kind: String, of allowed: [String]) throws(UsageError) -> [String] {
        var words: [String] = []
        for part in text.split(separator: ",") {
            let word = part.lowercased()
            guard allowed.contains(word) else { throw .unknown(kind, String(part), allowed: allowed) }
            if !words.contains(word) { words.append(word) }
        }
        guard !words.isEmpty else { throw UsageError("--\(kind) names nothing; there is \(list(allowed))") }
        return words
    }

    /// A list of whole numbers such as `32,256`, each within `range`.
    static func integers(_ text: String, _ name: String, in range: ClosedRange<Int>) throws(UsageError) -> [Int] {
        var values: [Int] = []
        for part in text.split(separator: ",") {
            let value = try integer(String(part), name, in: range)
            if !values.contains(value) { values.append(value) }
        }
        guard !values.isEmpty else { throw UsageError("--\(name) names nothing; write it as 32,256,4096") }
        guard values.count <= 16 else { throw UsageError("--\(name) takes at most 16 values") }
        return values
    }

    /// A URL whose scheme is one of `schemes`.
    static func endpoint(_ text: String, _ name: String, schemes: [String]) throws(UsageError) -> Endpoint {
        let endpoint: Endpoint
        do throws(TransportError) {
            endpoint = try Endpoint(text)
        } catch {
            throw UsageError("--\(name): \(error.reason)")
        }
        guard schemes.contains(endpoint.scheme) else {
            throw .unknown("transport", endpoint.scheme, allowed: schemes)
        }
        return endpoint
    }

    /// Digits with at most one decimal point; no sign, exponent, infinity or spaces.
    static func decimal(_ text: String) -> Double? {
        guard text.utf8.count <= 30, text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || $0 == 0x2e }) else {
            return nil
        }
        return Double(text)
    }

    static func list(_ words: [String]) -> String { words.joined(separator: ", ") }
}

/// Durations as people type them: `250ms`, `1.5s`, `2m`.
enum DurationText {
    // Longest unit first, so that "ms" is not read as "s".
    private static let units: [(suffix: String, nanoseconds: Double)] = [
        ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12),
    ]

    /// Reads a duration; the error says how one is written.
    static func parse(_ text: String, _ name: String, in range: ClosedRange<Duration>) throws(UsageError) -> Duration {
        guard let unit = units.first(where: { text.hasSuffix($0.suffix) }),
            let number = OptionValue.decimal(String(text.dropLast(unit.suffix.count)))
        else { throw UsageError("--\(name): '\(text)' is not a duration; write it as 250ms, 5s or 2m") }
        let nanoseconds = (number * unit.nanoseconds).rounded()
        // 1e16 ns are 115 days: far beyond every range, and still exact.
        guard nanoseconds <= 1e16, range.contains(.nanoseconds(Int64(nanoseconds))) else {
            throw UsageError(
                "--\(name): \(text) is not between \(format(range.lowerBound)) and \(format(range.upperBound))"
            )
        }
        return .nanoseconds(Int64(nanoseconds))
    }

    /// The shortest text that reads back as the same duration.
    static func format(_ duration: Duration) -> String {
        let nanoseconds = duration.wholeNanoseconds
        guard nanoseconds != 0 else { return "0s" }
        for (suffix, size) in units.reversed() where nanoseconds % Int64(size) == 0 {
            return "\(nanoseconds / Int64(size))\(suffix)"
        }
        return "\(fixed(Double(nanoseconds) / 1e3, 3))us"
    }
}
