import Protocols
import TransportAPI
import Transports

/// A mistake in the command line: one line that says what was wrong and what is allowed.
/// The program ends with status 64 (EX_USAGE of sysexits.h).
struct UsageError: Error, Sendable, Hashable {
    /// The sentence, without the program's name.
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// `word` is not in `allowed`. The sentence suggests the nearest one, or lists all if none is near.
    static func unknown(_ kind: String, _ word: String, allowed: [String]) -> UsageError {
        if let near = spellingSuggestion(for: word, in: allowed) {
            return UsageError("unknown \(kind) '\(word)'; did you mean '\(near)'?")
        }
        return UsageError("unknown \(kind) '\(word)'; there is \(allowed.joined(separator: ", "))")
    }

    /// Calls `read`, whose errors are mistakes in the command line.
    static func translate<Value>(_ read: () throws(TransportError) -> Value) throws(UsageError) -> Value {
        do throws(TransportError) { return try read() } catch { throw UsageError(error.reason) }
    }
}

/// Values within an option's value.
enum OptionValue {
    /// A number that is not negative.
    static func decimal(_ text: String) -> Double? {
        try? SettingFormat.number(0 ... .greatestFiniteMagnitude).read(text, key: "number")
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
