/// The error of a system call.
public struct SystemError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the call that failed.
    public var call: String
    /// Its errno.
    public var number: Int32

    /// Creates the error that `call` has just left in errno.
    package init(_ call: String, _ number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    /// The name of the call, the system's text for the error, and its number.
    public var description: String {
        "\(call): \(String(cString: strerror(number))) (\(number))"
    }
}

/// The reason why a name could not be resolved or a connection could not be opened.
package enum ConnectError: Error, Sendable, Hashable {
    /// The name does not exist or has no address.
    case nameNotFound(String)
    /// The resolver failed. It may answer later.
    case resolverFailed(String)
    /// All addresses have failed. The error is that of the address that failed first.
    case system(SystemError)
    /// The deadline has passed while the name was resolved, or afterwards while the connection was opened.
    case timedOut(resolving: Bool)
    /// The task was cancelled.
    case cancelled
}
