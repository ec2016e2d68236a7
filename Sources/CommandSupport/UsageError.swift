import TransportAPI

/// A mistake in the command line: one line with the option or command, the value, and the allowed values. The program ends
/// with status 64 (EX_USAGE of sysexits.h).
package struct UsageError: Error, Sendable, Hashable {
    /// The sentence, without the program's name.
    package var message: String

    package init(_ message: String) {
        self.message = message
    }

    /// The value `text` of an option was not read.
    package init(_ error: TransportError, option name: String, _ text: String) {
        message = error.reason
        // Errors of a URL do not quote it. They can, unless it may contain a password.
        let prefix = "--\(name): "
        if message.hasPrefix(prefix), !text.contains("@"), !text.contains("?") {
            message = "--\(name) \(text.debugDescription): \(message.dropFirst(prefix.count))"
        }
    }

    /// `word` is not in `allowed`. The sentence suggests the nearest one.
    ///
    /// - Parameter place: the option or command that has the word.
    package static func unknown(_ kind: String, _ word: String, of place: String? = nil, allowed: [String])
        -> UsageError
    {
        let near = spellingSuggestion(for: word, in: allowed).map { " did you mean '\($0)'?" } ?? ""
        let place = place.map { $0 + ": " } ?? ""
        return UsageError("\(place)unknown \(kind) '\(word)';\(near) allowed is \(allowed.joined(separator: ", "))")
    }

    /// Two options that must not be given together.
    package static func exclusion(_ option: String, _ other: String) -> UsageError {
        UsageError("--\(option) and --\(other) exclude each other")
    }

    /// Calls `read`, whose errors are mistakes in the value of an option, or in the arguments of a command.
    package static func translate<Value>(
        _ place: String,
        _ read: () throws(TransportError) -> Value
    ) throws(UsageError) -> Value {
        do throws(TransportError) { return try read() } catch { throw UsageError("\(place): \(error.reason)") }
    }
}
