/// The reason why a message of HTTP/1.1 is refused: a request at a server, or a response at a client.
package enum HTTPMessageError: Error, Sendable, Hashable {
    /// The head has more bytes or more fields than allowed.
    case headTooLarge
    /// The body has more bytes than allowed.
    case bodyTooLarge
    /// The message uses a part of HTTP that is not implemented. The text says which.
    case unsupported(String)
    /// The message violates the grammar. The text says how.
    case malformed(String)
    /// The connection ended within the message.
    case incomplete

    /// Creates the error for a head that cannot be read.
    init(_ error: HTTPHeadError) {
        switch error {
        case .tooLarge: self = .headTooLarge
        case .malformed(let problem): self = .malformed(problem)
        }
    }

    /// What is wrong with the message, as a part of a sentence that begins with the message.
    package var reason: String {
        switch self {
        case .headTooLarge: "the head is too large"
        case .bodyTooLarge: "the body is too large"
        case .unsupported(let part): part
        case .malformed(let problem): problem
        case .incomplete: "the connection ended before the message was complete"
        }
    }

    /// The status with which a server answers such a request (RFC 9110, sections 15.5 and 15.6; RFC 6585, section
    /// 5).
    var status: Int {
        switch self {
        case .headTooLarge: 431
        case .bodyTooLarge: 413
        case .unsupported: 501
        case .malformed, .incomplete: 400
        }
    }
}
