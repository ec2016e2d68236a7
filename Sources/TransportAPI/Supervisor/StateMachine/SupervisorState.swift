/// The state of a supervisor.
public enum SupervisorState: Sendable, Hashable {
    /// The supervisor has not been started.
    case idle
    /// The supervisor tries to open a connection. `attempt` counts from 1 since the last stable connection.
    case connecting(attempt: Int, Endpoint)
    /// The connection is open, and messages are sent and received. `isResumed` means that the peer has continued the
    /// session of the connection before, so that no message is lost.
    case open(Endpoint, isResumed: Bool)
    /// The supervisor waits before the next attempt, because of this reason.
    case waiting(Duration, CloseReason)
    /// There is no network. The supervisor connects when there is one.
    case offline
    /// The app has suspended it.
    case suspended
    /// The supervisor has ended for good, because the app closed it or because it gave up.
    case closed(CloseReason)

    /// Whether messages are sent and received now.
    public var isOpen: Bool {
        if case .open = self { true } else { false }
    }

    /// Whether the supervisor has ended, so that the state does not change any more.
    public var isFinal: Bool {
        if case .closed = self { true } else { false }
    }
}

extension SupervisorState: CustomStringConvertible {
    /// The state in one line, for people.
    public var description: String {
        switch self {
        case .idle: "idle"
        case .connecting(let attempt, let endpoint): "connecting to \(endpoint), attempt \(attempt)"
        case .open(let endpoint, let isResumed): "open to \(endpoint)" + (isResumed ? ", resumed" : "")
        case .waiting(let delay, let reason): "waiting \(delay) after: \(reason)"
        case .offline: "offline"
        case .suspended: "suspended"
        case .closed(let reason): "closed: \(reason)"
        }
    }
}

/// An event in a supervisor, for logs and metrics.
public enum SupervisorEvent: Sendable, Hashable {
    /// The state has changed.
    case state(SupervisorState)
    /// An attempt has failed.
    case attemptFailed(Endpoint, TransportError)
    /// An option of the endpoint was left out, because the endpoint's transport does not have it: a header of the
    /// configuration, or an option that the app's preparation has set. The name is that of the option, and for a header
    /// also its own, as in `header Authorization`. The reason is a sentence for people. Neither contains a secret.
    case optionSkipped(Endpoint, name: String, reason: String)
    /// An encrypted connection has opened. If its ``/Primitives/TLSDescription/isVerified`` is `false`, the certificate of
    /// the server was not checked, because the URL turns that off. Then an attacker on the path can read along.
    case encrypted(Endpoint, TLSDescription)
    /// A connection has ended.
    case connectionEnded(Endpoint, CloseReason)
    /// The peer has answered a probe after this time.
    case roundTrip(Duration)
    /// The keepalive interval of the connection has changed to this one.
    case keepaliveInterval(Duration)
    /// The peer does not know the session. Messages that it had not acknowledged are sent again. Messages that it had
    /// not sent are lost.
    case sessionLost
    /// A message of this many bytes was given to the supervisor.
    case submitted(MessageID, bytes: Int)
    /// A message has ended.
    case finished(MessageID, SendOutcome)
    /// A message of this many bytes was received.
    case received(bytes: Int)
    /// A message was larger than `max-message`. It was discarded, because its broker would send it again forever.
    case discarded(DiscardedMessage)
    /// A message over MQTT matched no filter of an `MQTTClient`, although the client had waited for one. It was
    /// acknowledged and dropped.
    case unclaimed(DiscardedMessage)
    /// A message arrived twice, and the second copy was dropped.
    case duplicate
    /// The app has had a message of ``Supervisor/deliveries`` for longer than
    /// ``DeliveryConfiguration/acknowledgementReminder`` without acknowledging it. The peer sends no more than its
    /// window, and the buffer of the app is limited. So the app may receive nothing more until it acknowledges the
    /// message.
    case unacknowledged(UnacknowledgedMessages)
    /// The store could not be opened or written. Messages that the app sends meanwhile are rejected with this error. The
    /// end of a message that could not be written is tried again.
    case storeFailed(TransportError)
    /// The app has submitted a message, and nothing connects, because ``Supervisor/connect()`` was not called within a
    /// second. This event comes once at most. Without an observer, one line on standard error says the same.
    case notConnecting
    /// The answer to a request has come whose caller does not wait any more, or that was answered already, or that this
    /// process has not made. It was dropped.
    case unexpectedReply
    /// A channel has received a message of this many bytes that its codec cannot read. The sentence contains the
    /// expected format, the format that the bytes are most likely of, and the codec's error.
    case undecodable(bytes: Int, String)
}
