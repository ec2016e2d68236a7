/// What the system refused, as a sentence.
struct SystemFailure: Error, Sendable, Hashable {
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// `action` failed with this error number.
    init(_ action: String, errno number: Int32) {
        message = "\(action): \(systemMessage(number))"
    }
}
