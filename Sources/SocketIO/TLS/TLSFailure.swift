import Primitives

/// The reason why TLS ended a connection.
package struct TLSFailure: Error, Sendable, Hashable {
    /// The kind of the problem.
    package var problem: TLSProblem
    /// A sentence for people, with what was seen.
    package var sentence: String

    /// Creates a failure from its parts.
    package init(_ problem: TLSProblem, _ sentence: String) {
        self.problem = problem
        self.sentence = sentence
    }
}

/// The reason why TLS cannot be set up from its configuration.
package enum TLSSetupError: Error, Sendable, Hashable {
    /// The setting of this name is wrong, with a phrase that says what is wrong.
    case setting(String, String)
    /// The same, but the files could be loaded before they changed. A certificate and its key are often replaced one after
    /// the other.
    case changedSetting(String, String)
    /// There is no TLS library, with a sentence that says what to install.
    case noLibrary(String)
    /// A file could not be loaded in time, or there are no threads left.
    case busy(String)
    /// The task was cancelled.
    case cancelled
}
