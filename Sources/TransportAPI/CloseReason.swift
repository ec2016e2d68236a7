/// Why a connection ended, and which side ended it.
public struct CloseReason: Sendable, Hashable {
    /// The side or the cause that ended the connection.
    public enum Initiator: Sendable, Hashable, CaseIterable {
        /// The program on this side closed it. A supervisor never reconnects after this.
        case user
        /// The peer closed it.
        case peer
        /// The connection broke without a close.
        case network
        /// The peer fell silent, and this side ended the connection.
        case keepalive
        /// One side broke the protocol.
        case protocolError
        /// The peer refused this side's credentials.
        case authentication
    }

    /// The side or the cause that ended the connection.
    public var initiator: Initiator
    /// The protocol's code, if it has one (RFC 6455, section 7.4: 1000 for a normal closure).
    public var code: UInt16?
    /// The text that the side that ended the connection gave.
    public var text: String
    /// The error that ended the connection, if there was one.
    public var error: TransportError?

    /// Creates a reason from its parts.
    public init(_ initiator: Initiator, code: UInt16? = nil, text: String = "", error: TransportError? = nil) {
        self.initiator = initiator
        self.code = code
        self.text = text
        self.error = error
    }

    /// The reason of a normal close by this side.
    public static let user = CloseReason(.user)

    /// Creates the reason for a connection that `error` has ended.
    public init(_ error: TransportError) {
        let initiator: Initiator =
            switch error.code {
            case .authenticationFailed, .forbidden: .authentication
            case .keepaliveTimeout: .keepalive
            case .protocolViolation, .messageTooLarge, .invalidText, .handshakeFailed: .protocolError
            case .closedByUser, .cancelled: .user
            case .closedByPeer, .serverUnavailable, .tooManyRequests, .notFound: .peer
            default: .network
            }
        self.init(initiator, code: error.detail.flatMap { UInt16(exactly: $0) }, text: error.reason, error: error)
    }
}

extension CloseReason {
    /// Creates the reason for a close frame of the peer from its code (RFC 6455, section 7.4.1) and its text. A normal
    /// closure has no error.
    package init(peerClosed code: UInt16, text: String) {
        let isNormal = code == 1000 || code == 1001 || code == 1005
        guard !isNormal else {
            self.init(.peer, code: code, text: text)
            return
        }
        self.init(TransportError.webSocketClose(code, reason: text))
        // The peer has sent a close frame, so the network is not the cause, even if the peer has failed. A peer that refuses
        // a message has broken no rule.
        if initiator == .network || code == 1007 || code == 1009 { initiator = .peer }
        self.text = text
    }

    /// The error of operations that end because the connection has ended for this reason.
    package var asError: TransportError {
        if let error { return error }
        let suffix = text.isEmpty ? "" : ": \(text)"
        switch initiator {
        case .user: return TransportError(.closedByUser, .open, "this side has closed the connection\(suffix)")
        case .peer:
            let sentence = "the peer has closed the connection\(suffix)"
            return TransportError(.closedByPeer, .open, sentence, detail: code.map(Int.init))
        case .network: return TransportError(.connectionLost, .open, "the connection is lost\(suffix)")
        case .keepalive: return TransportError(.keepaliveTimeout, .open, "the peer fell silent\(suffix)")
        case .protocolError: return TransportError(.protocolViolation, .open, "a peer broke the protocol\(suffix)")
        case .authentication:
            return TransportError(.authenticationFailed, .open, "the peer refused the credentials\(suffix)")
        }
    }

    /// The error of a message that was not sent before the connection ended.
    package var sendError: TransportError {
        var error = asError
        error.phase = .closing
        return error
    }

    /// The result of ``Connection/receive()`` after the last message: the end after a normal close, otherwise the
    /// error.
    package var receiveResult: Result<Payload?, TransportError> {
        switch initiator {
        case .user, .peer: error == nil || error?.code == .closedByPeer ? .success(nil) : .failure(asError)
        default: .failure(asError)
        }
    }
}

extension CloseReason: CustomStringConvertible {
    /// The reason in one line, for people. An error contains its phase, sentence and code, so it is shown alone.
    public var description: String {
        if let error { return "\(error)" }
        let number = code.map { " \($0)" } ?? ""
        return "\(initiator)\(number)" + (text.isEmpty ? "" : ": \(text)")
    }
}
