/// How sending one message ended. Every `send` ends in exactly one of these; none is ever dropped without a word.
public enum SendOutcome: Sendable, Hashable {
    /// The peer has confirmed the message (MQTT 3.1.1, section 3.4: PUBACK).
    case acknowledged
    /// The transport has taken the message and has no acknowledgement to wait for: it lies in the bounded write buffer of
    /// the connection or in the kernel's, and the connection was alive at that moment.
    case written
    /// The message was too old before it could be sent.
    case expired
    /// The message was not sent, and nothing of it has left.
    case rejected(TransportError)
    /// The message was sent, but the connection ended before the peer confirmed it: it may have arrived or not.
    case unknown(TransportError)

    /// Whether the message is on its way or has arrived.
    public var isSuccess: Bool {
        switch self {
        case .acknowledged, .written: true
        case .expired, .rejected, .unknown: false
        }
    }
}
