import Primitives

/// Why a request has no answer. Each request ends once, in its answer or in one of these.
public enum RequestError: Error, Sendable, Hashable {
    /// The request was not sent, so the peer has not got it: it had no place in the outbox, the connection or the peer does
    /// not accept a message of its size, its time was over while it waited for a connection, or the supervisor was closed.
    /// The error says which one.
    case notSent(TransportError)
    /// The peer's handler has answered with a failure, or has none. The code and the reason are those of a
    /// ``RequestFailure``.
    case refused(code: UInt16, reason: String)
    /// The request was sent, or may have been, and no answer came within its time limit.
    case timedOut
    /// The task that waited for the answer was cancelled. The peer may have got the request.
    case cancelled
    /// The request may have been sent, and its answer cannot come any more: in plain mode because the connection has ended,
    /// in a session because the session has ended, or because the peer has lost it. The error says why.
    case unknown(TransportError)
    /// The answer has come, and the codec cannot read it. The sentence contains the expected format and the codec's
    /// error.
    case unreadable(String)
    /// As many requests as ``RequestConfiguration/maximumOpen`` wait for their answers. The request was not sent.
    case tooManyRequests
}

extension RequestError: CustomStringConvertible {
    /// The error in one line, for people.
    public var description: String {
        switch self {
        case .notSent(let error): "the request was not sent: \(error)"
        case .refused(let code, let reason): "the peer has refused the request with code \(code): \(reason)"
        case .timedOut: "the request was sent, or may have been, and no answer came within its time limit"
        case .cancelled: "the task that waited for the answer was cancelled"
        case .unknown(let error): "the request may have been sent, and no answer can come any more: \(error)"
        case .unreadable(let problem): "the answer to the request cannot be read: \(problem)"
        case .tooManyRequests: "too many requests wait for their answers; wait for some of them, or raise the limit"
        }
    }
}

/// The failure with which a handler answers a request. The peer's request ends in
/// ``RequestError/refused(code:reason:)``. A handler throws it; any other error of a handler becomes
/// ``handlerFailed``, and its text stays here.
public struct RequestFailure: Error, Sendable, Hashable {
    /// What failed. Codes below 16 are those of this package; an app chooses others.
    public let code: UInt16
    /// The reason, for people: at most 1,024 bytes of UTF-8. A longer one is cut between two characters.
    public let reason: String

    /// Creates a failure. A reason of more than 1,024 bytes is cut.
    public init(code: UInt16, reason: String) {
        self.code = code
        self.reason = reason.cut(toUTF8: Self.maximumReason)
    }

    /// The largest reason, in bytes.
    static let maximumReason = 1024

    /// Code 0: the handler has thrown another error than a ``RequestFailure``.
    public static let handlerFailed = RequestFailure(code: 0, reason: "the handler failed")
    /// Code 1: the peer uses requests, and has no handler for them.
    public static let noHandler = RequestFailure(code: 1, reason: "this side answers no requests")
    /// Code 2: the request was handled, and its answer was not sent, for example because it is larger than the connection
    /// accepts.
    public static let answerNotSent = RequestFailure(code: 2, reason: "the answer could not be sent")
    /// Code 3: the codec of the handler's channel cannot read the request.
    public static let unreadable = RequestFailure(code: 3, reason: "the request cannot be read")
}

/// Answers the requests of a peer; see ``Supervisor/onRequest(on:_:)`` and ``Session/onRequest(on:_:)``.
public typealias RequestHandler = @Sendable (Payload) async throws -> Payload
