/// What the operating system answered to a call that failed.
public struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The call that failed.
    public var call: String
    /// Its errno.
    public var number: Int32

    /// The error that `call` has just left in errno.
    package init(_ call: String, _ number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    /// The call, the system's words for the error, and its number.
    public var description: String {
        "\(call): \(sentence) (\(number))"
    }

    /// The system's words for the error.
    package var sentence: String { String(cString: strerror(number)) }
}

/// Why a name could not be resolved or a connection not be opened.
package enum ConnectError: Error, Sendable, Hashable {
    /// The name does not exist, or has no address.
    case nameNotFound(String)
    /// The resolver failed; it may answer later.
    case resolverFailed(String)
    /// All addresses were tried; the error of the one that was tried first.
    case system(SystemError)
    /// The time was up, while resolving or while connecting.
    case timedOut(resolving: Bool)
    /// The task was cancelled.
    case cancelled
}
