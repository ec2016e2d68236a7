/// Why a connection ended, and who ended it.
public struct CloseReason: Sendable, Hashable {
    /// Who or what ended the connection.
    public enum Initiator: Sendable, Hashable, CaseIterable {
        /// The program on this side asked for it; a supervisor never reconnects after this.
        case user
        /// The far side said goodbye.
        case peer
        /// The connection broke without a goodbye.
        case network
        /// The far side fell silent and was given up.
        case keepalive
        /// One side broke the protocol.
        case protocolError
        /// The far side refused our credentials.
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
