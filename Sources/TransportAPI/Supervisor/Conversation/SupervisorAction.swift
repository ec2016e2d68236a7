/// An action that a state machine requests from its driver.
package enum SupervisorAction: Sendable {
    /// Make one attempt. Request fresh credentials if the last ones were refused. The result carries the number
    /// `connection`.
    case connect(connection: Int, endpoint: Int, timeout: Duration, refreshing: Bool)
    /// End the attempt or the connection without waiting for the peer's answer. After that, report only the outcomes of
    /// its messages.
    case abandon(connection: Int)
    /// Send this payload over the connection. With an identifier, report the outcome.
    case transmit(Int, MessageID?, Payload)
    /// Let the connection complete a message that an earlier connection has left, and report the outcome. With
    /// `orSend`, send the message again if the connection does not know it.
    case complete(Int, MessageID, Payload, orSend: Bool)
    /// Drop the message that an earlier connection has left, so that no later one completes it.
    case forget(MessageID)
    /// Send the protocol's own ping and report the answer.
    case ping(connection: Int)
    /// Close the connection with a close handshake.
    indirect case close(connection: Int, CloseReason)
    /// Give this message to the listeners.
    case deliver(Payload)
    /// Give this message to the listeners that acknowledge it under this key after they have processed it.
    case deliverUnprocessed(UInt64, Payload, ReceivedMessage.ID?, isRepeated: Bool)
    /// Acknowledge this number of the oldest unacknowledged messages of the connection.
    case confirm(connection: Int, Int)
    /// Store that the messages of the session up to this number were processed.
    case storeProcessed(UInt64)
    /// Store the mark of a message of a broker that was processed.
    case storeMark(OriginFilter.Mark)
    /// The message has a place in the outbox.
    case accepted(MessageID)
    /// The message has ended.
    case finish(MessageID, SendOutcome)
    /// The state has changed.
    indirect case state(SupervisorState)
    /// An event for logs and metrics.
    indirect case note(SupervisorEvent)
}
