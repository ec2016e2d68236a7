/// A mistake in the command line.
struct UsageError: Error, Sendable {
    var message: String

    init(_ message: String) { self.message = message }
}

/// The exit statuses of the program.
enum ExitStatus {
    static let good: Int32 = 0
    /// A contender did not run, or a message was lost or changed.
    static let failed: Int32 = 1
    /// Wrong usage (EX_USAGE of sysexits.h).
    static let usage: Int32 = 64
}
