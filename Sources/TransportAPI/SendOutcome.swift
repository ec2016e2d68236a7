/// The outcome of sending one message. Every `send` ends in exactly one of these, and no message is dropped silently.
public enum SendOutcome: Sendable, Hashable {
    /// The peer has confirmed the message (MQTT 3.1.1, section 3.4: PUBACK).
    case acknowledged
    /// The transport has taken the message and waits for no acknowledgement. The message is in the bounded write buffer
    /// of the connection or in the kernel's buffer. The connection was alive at that moment.
    case written
    /// The message was too old before it could be sent.
    case expired
    /// The message was not sent, and nothing of it has left. Or the peer has refused it, and does not process it.
    case rejected(TransportError)
    /// The message, or a part of it, was sent, but the peer has not confirmed it. It can have arrived or not. The error
    /// says why no confirmation is expected any more.
    case unknown(TransportError)

    /// Whether the message is in flight or has arrived.
    public var isSuccess: Bool {
        switch self {
        case .acknowledged, .written: true
        case .expired, .rejected, .unknown: false
        }
    }
}
