/// An event that both sides of a conversation handle. The client has further ones (``SupervisorStateMachine/Event``),
/// and the server too (``ServerSessionStateMachine/Event``).
///
/// Events of a connection carry its number. Those of an earlier connection have no effect, except outcomes of messages.
package enum ConversationEvent: Sendable {
    /// The connection has received a message.
    case received(Int, Payload)
    /// The connection's own ping was answered after this time.
    case pong(Int, Duration)
    /// A message that the connection was handed has this outcome.
    case settled(Int, MessageID, SendOutcome)
    /// How much of the connection is read from now on.
    case reading(Reading)
    /// The connection has discarded a message because of its size.
    case discarded(DiscardedMessage)
    /// The connection has ended.
    case ended(Int, CloseReason)
    /// The app submits a message.
    case submit(MessageID, Payload)
    /// The store has this message and all before it.
    case stored(MessageID)
    /// The store knows that the session has this incarnation, and that the app has processed its messages up to this number.
    case storedSession(UInt64, processed: UInt64)
    /// The store has this number of further marks (``SupervisorAction/storeMark(_:)``).
    case storedMarks(Int)
    /// The store could not write these messages.
    case notStored([MessageID], TransportError)
    /// The caller of a message was cancelled.
    case cancel(MessageID)
    /// From now on the app acknowledges messages after it has processed them.
    case acknowledgesAfterProcessing
    /// The app has processed the message of this key, or has released it without processing it.
    case processed(UInt64, isAbandoned: Bool)
    /// The app ends the conversation.
    case close(CloseReason)
    /// The deadline has been reached, and the connection shows these signs of life.
    case deadlineReached(SignsOfLife)
}

/// How much of a connection is read.
package enum Reading: Sendable, Hashable {
    /// Everything.
    case all
    /// Everything, although there is no room for messages. A session reads on, because acknowledgements, pings and its
    /// end come between the messages.
    case withoutRoom
    /// Nothing, because there is no room for messages.
    case nothing
}
