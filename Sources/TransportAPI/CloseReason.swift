/// Why a connection ended, and who ended it.
public struct CloseReason: Sendable, Hashable {
    /// Who or what ended the connection.
    public enum Initiator: Sendable, Hashable, CaseIterable {
        /// The program on this side asked for it; a supervisor never reconnects after this.
        case user
        /// The peer said goodbye.
        case peer
        /// The connection broke without a goodbye.
        case network
        /// The peer fell silent and was given up.
        case keepalive
        /// One side broke the protocol.
        case protocolError
        /// The peer refused our credentials.
        case authentication
    }

    /// Who ended the connection.
    public var initiator: Initiator
    /// The protocol's code, where it has one (RFC 6455, section 7.4: 1000 for a normal closure).
    public var code: UInt16?
    /// What the side that ended the connection said about it.
    public var text: String
    /// The error that ended the connection, if it was one.
    public var error: TransportError?

    /// A reason in full.
    public init(_ initiator: Initiator, code: UInt16? = nil, text: String = "", error: TransportError? = nil) {
        self.initiator = initiator
        self.code = code
        self.text = text
        self.error = error
    }

    /// This side closed the connection normally.
    public static let user = CloseReason(.user)

    /// The reason that `error` gives for the end of a connection.
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
    /// The reason that a close frame of the peer gives: its code (RFC 6455, section 7.4.1) and its text. A normal closure
    /// carries no error.
    package init(peerClosed code: UInt16, text: String) {
        let isNormal = code == 1000 || code == 1001 || code == 1005
        guard !isNormal else {
            self.init(.peer, code: code, text: text)
            return
        }
        self.init(TransportError.webSocketClose(code, reason: text))
        // The peer has sent a close frame, so the network is not the cause, whatever has failed at the peer.
        if initiator == .network { initiator = .peer }
        self.text = text
    }

    /// The error that operations end with after a connection has ended for this reason.
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
        case .authentication: return TransportError(.authenticationFailed, .open, "the peer refused us\(suffix)")
        }
    }

    /// The error of a message that was not sent before the connection ended.
    package var sendError: TransportError {
        var error = asError
        error.phase = .closing
        return error
    }

    /// What ``Connection/receive()`` gives after the last message: the end if it was a normal one, and otherwise the error.
    package var receiveResult: Result<Payload?, TransportError> {
        switch initiator {
        case .user, .peer: error == nil || error?.code == .closedByPeer ? .success(nil) : .failure(asError)
        default: .failure(asError)
        }
    }
}

extension CloseReason: CustomStringConvertible {
    /// One line for people.
    public var description: String {
        if let error { return "\(initiator): \(error)" }
        let number = code.map { " \($0)" } ?? ""
        return "\(initiator)\(number)" + (text.isEmpty ? "" : ": \(text)")
    }
}
