/// A mistake in the command line, as a sentence.
struct UsageError: Error, Sendable {
    var message: String

    init(_ message: String) { self.message = message }
}

/// The status with which the program ends.
enum ExitStatus {
    static let good: Int32 = 0
    /// A contender did not run, or a message was lost or changed.
    static let failed: Int32 = 1
    /// Wrong usage (EX_USAGE of sysexits.h).
    static let usage: Int32 = 64
}
