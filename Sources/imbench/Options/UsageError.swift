import TransportAPI

/// A mistake in the command line, as one line that says what was wrong and what would have been right.
/// The program ends with status 64 (EX_USAGE of sysexits.h).
struct UsageError: Error, Sendable, Hashable {
    /// The sentence, without the program's name.
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// `word` is none of `allowed`: names the nearest one, or all if none is near.
    static func unknown(_ kind: String, _ word: String, allowed: [String]) -> UsageError {
        if let near = nearestWord(to: word, in: allowed) {
            return UsageError("unknown \(kind) '\(word)'; did you mean '\(near)'?")
        }
        return UsageError("unknown \(kind) '\(word)'; there is \(allowed.joined(separator: ", "))")
    }
}

/// The status with which the program ends, if no signal interrupts it (``Interruption/status``).
enum ExitStatus {
    static let good: Int32 = 0
    /// A run failed, or its accounts do not close.
    static let failed: Int32 = 1
    /// Wrong usage.
    static let usage: Int32 = 64
    /// An `--assert` did not hold.
    static let assertion: Int32 = 99
}
