/// What a supervisor is doing.
public enum SupervisorState: Sendable, Hashable {
    /// It has not been started.
    case idle
    /// It tries to open a connection. `attempt` counts from 1 since the last stable connection.
    case connecting(attempt: Int, Endpoint)
    /// Messages flow. `isResumed`: the peer went on with the session of the connection before, so that nothing is lost.
    case open(Endpoint, isResumed: Bool)
    /// It waits before the next attempt, because of `reason`.
    case waiting(Duration, CloseReason)
    /// There is no network; it connects when there is one.
    case offline
    /// The app has suspended it.
    case suspended
    /// It has ended for good: closed by the user, or given up.
    case closed(CloseReason)

    /// Whether messages flow now.
    public var isOpen: Bool {
        if case .open = self { true } else { false }
    }

    /// Whether nothing will happen any more.
    public var isFinal: Bool {
        if case .closed = self { true } else { false }
    }
}

extension SupervisorState: CustomStringConvertible {
    /// One line for people.
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

/// What a machine asks its driver to do.
package enum SupervisorAction: Sendable {
    /// Make one attempt, with credentials asked for anew if the last ones were refused. Its result is to carry `connection`.
    case connect(connection: Int, endpoint: Int, timeout: Duration, refreshing: Bool)
    /// End the attempt or the connection without a goodbye, and report nothing more of it but the outcomes of what it
    /// was handed.
    case abandon(connection: Int)
    /// Send this over the connection. With an identifier, the outcome is to be reported.
    case transmit(Int, MessageID?, Payload)
    /// Have the connection complete a message that one before it has left, and report the outcome. Where it knows
    /// nothing of the message, send it again if that is asked for.
    case complete(Int, MessageID, Payload, orSend: Bool)
    /// Send the protocol's own ping and report the answer.
    case ping(connection: Int)
    /// Say goodbye and end the connection.
    indirect case close(connection: Int, CloseReason)
    /// Give this to those who listen.
    case deliver(Payload)
    /// Give this to those that acknowledge it under this key once they have processed it.
    case deliverUnprocessed(UInt64, Payload)
    /// Acknowledge the oldest messages of the connection that were not acknowledged, so many.
    case confirm(connection: Int, Int)
    /// The message has a place in the outbox.
    case accepted(MessageID)
    /// The message has ended.
    case finish(MessageID, SendOutcome)
    /// The state has changed.
    indirect case state(SupervisorState)
    /// Something that logs and metrics want to know.
    indirect case note(SupervisorEvent)
}

/// What happens inside a supervisor, for logs and metrics.
public enum SupervisorEvent: Sendable, Hashable {
    /// The state has changed.
    case state(SupervisorState)
    /// An attempt has failed.
    case attemptFailed(Endpoint, TransportError)
    /// A connection has ended.
    case connectionEnded(Endpoint, CloseReason)
    /// The peer has answered a probe after this time.
    case roundTrip(Duration)
    /// The keepalive interval of the connection is another from now on.
    case keepaliveInterval(Duration)
    /// The peer knew nothing of the session: what it had not acknowledged is sent again, and what it had not sent is lost.
    case sessionLost
    /// A message was given to the supervisor, of this many bytes.
    case submitted(MessageID, bytes: Int)
    /// A message has ended.
    case finished(MessageID, SendOutcome)
    /// A message of this many bytes was received.
    case received(bytes: Int)
    /// A message was larger than `max-message`, and was passed over because its broker would send it again for ever.
    case discarded(DiscardedMessage)
    /// A message came twice and was dropped.
    case duplicate
    /// The app has had a message of ``Supervisor/deliveries`` for long without acknowledging it
    /// (``DeliveryConfiguration/acknowledgementReminder``). The peer sends no more than its window, and what the app
    /// holds is bounded, so that nothing may come any more until the app acknowledges it.
    case unacknowledged(UnacknowledgedMessages)
    /// A channel has received a message of this many bytes that its codec cannot read. The sentence contains the expected
    /// format, the format that the bytes are most likely of, and the codec's error.
    case undecodable(bytes: Int, String)
}
