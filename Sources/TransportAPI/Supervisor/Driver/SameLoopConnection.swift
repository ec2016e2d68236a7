/// Receives the message that it requested from a connection (``InlineConnection/receiveNow(orTell:)``).
package protocol ConnectionReceiver: AnyObject {
    /// A message has come, or the end as ``Connection/receive()`` reports it.
    func receive(_ arrival: Result<Payload?, TransportError>)
}

/// A connection that code on the same loop can call directly.
package protocol SameLoopConnection: Connection {
    /// The object to call, if the caller runs on the connection's loop; else `nil`.
    var here: (any InlineConnection)? { get }
    /// From now on messages are acknowledged to the peer by ``confirm(_:)``, and not when the next one is requested. May
    /// be called from any thread.
    func confirmByHand()
    /// Acknowledges the `count` oldest messages that were given out and not acknowledged. May be called from any thread.
    func confirm(_ count: Int)
}

/// What code on the loop of a connection calls. No call waits.
package protocol InlineConnection: AnyObject {
    /// Sends at once. Returns `nil`, and sends nothing, if that would have to wait.
    func sendUnlessWaiting(_ payload: Payload) -> SendOutcome?
    /// The next message or the end, as ``Connection/receive()`` gives it, which confirms the message before. If there is
    /// neither yet it gives `nil`, and calls `receiver` once when there is.
    func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>?
    /// Sends the close frame and ends the connection without waiting for an answer.
    func abandon(_ reason: CloseReason)
    /// Confirms the last message that was given out. For a reader that may not request the next one soon.
    func confirmTaken()
    /// The addresses of the machine may have changed. A connection that can continues from another one.
    func networkChanged()
    /// Calls `action` for each message that the connection passes over because of its size, including those before.
    func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void)
    /// How many bytes have been received, without those that came again.
    var bytesReceivedNow: UInt64 { get }
}

extension InlineConnection {
    /// Does nothing.
    package func confirmTaken() {}
    /// Does nothing.
    package func networkChanged() {}
    /// Does nothing: the connection passes over no message.
    package func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void) {}
}

extension SameLoopConnection {
    /// Does nothing.
    package func confirmByHand() {}
    /// Does nothing.
    package func confirm(_: Int) {}
}
