/// Receives the message that it requested from a connection (``InlineConnection/receiveNow(orTell:)``).
package protocol ConnectionReceiver: AnyObject {
    /// A message has come, or the end as ``Connection/receive()`` reports it.
    func receive(_ arrival: Result<Payload?, TransportError>)
}

/// A connection that code on the same loop can call directly.
package protocol SameLoopConnection: Connection {
    /// The object to call, if the caller runs on the connection's loop; otherwise `nil`.
    var localDriver: (any InlineConnection)? { get }
    /// From now on messages are acknowledged to the peer by ``confirm(_:)``, and not when the next one is requested.
    /// Can be called from any thread.
    func confirmByHand()
    /// Acknowledges the `count` oldest messages that were received and not acknowledged. Can be called from any thread.
    func confirm(_ count: Int)
}

/// The calls that code on the loop of a connection can make. No call waits.
package protocol InlineConnection: AnyObject {
    /// Sends at once. Returns `nil`, and sends nothing, if that would have to wait.
    func sendUnlessWaiting(_ payload: Payload) -> SendOutcome?
    /// Returns the next message or the end, as ``Connection/receive()`` does, and confirms the message before. If there
    /// is neither yet, returns `nil` and calls `receiver` once when there is.
    func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>?
    /// Sends the close frame and ends the connection without waiting for an answer.
    func abandon(_ reason: CloseReason)
    /// Confirms the last message that was returned. For a reader that does not request the next one soon.
    func confirmTaken()
    /// Handles a possible change of the machine's addresses. A connection continues from another address if its
    /// protocol supports that.
    func networkChanged()
    /// Calls `action` for each message that the connection discards because of its size, including earlier ones.
    func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void)
    /// Reads what has arrived and not been read, and returns the signs of life. Call this before a decision whether the
    /// peer is alive.
    func readSignsOfLife() -> SignsOfLife
}

extension Connection {
    /// The object to call, if the caller runs on the connection's loop and the connection allows that.
    var localDriver: (any InlineConnection)? { (self as? any SameLoopConnection)?.localDriver }
}

extension InlineConnection {
    /// By default, does nothing.
    package func confirmTaken() {}
    /// By default, does nothing.
    package func networkChanged() {}
    /// By default, does nothing, because the connection discards no message.
    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {}
}

extension SameLoopConnection {
    /// By default, does nothing.
    package func confirmByHand() {}
    /// By default, does nothing.
    package func confirm(_: Int) {}
}
