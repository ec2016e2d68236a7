import Primitives

/// What a connection of this package's own event loops offers beyond ``Connection``.
package protocol LocalConnection: Connection {
    // MARK: From any thread

    /// The same number for all addresses that one owner probably has: an IPv4 address, or the first 64 bits of an IPv6
    /// address. `nil` if there is no address.
    var peerNetwork: UInt64? { get }
    /// From now on messages are acknowledged to the peer by ``confirm(_:)``, and not when the next one is requested.
    func confirmByHand()
    /// Acknowledges the `count` oldest messages that were received and not acknowledged.
    func confirm(_ count: Int)
    /// Whether the caller runs on the connection's loop, so that it may make the calls below.
    var isHere: Bool { get }

    // MARK: On the connection's loop. No call waits.

    /// Sends at once. Returns `nil`, and sends nothing, if that would have to wait.
    func sendUnlessWaiting(_ payload: Payload) -> SendOutcome?
    /// Returns the next message or the end, as ``Connection/receive()`` does, and confirms the message before. If there
    /// is neither yet, returns `nil` and calls `receiver` once when there is.
    func receiveNow(orTell receiver: any ConnectionReceiver) -> Result<Payload?, TransportError>?
    /// Confirms the last message that was returned. For a reader that does not request the next one soon.
    func confirmTaken()
    /// Calls `action` for each message that the connection discards because of its size, including earlier ones.
    func reportDiscarded(to action: @escaping (DiscardedMessage) -> Void)
    /// Handles a possible change of the machine's addresses. A connection continues from another address if its
    /// protocol supports that.
    func networkChanged()
    /// Reads what has arrived and not been read, and returns the signs of life. Call this before a decision whether the
    /// peer is alive.
    func readSignsOfLife() -> SignsOfLife
    /// Sends the close frame and ends the connection without waiting for an answer.
    func abandon(_ reason: CloseReason)
}

extension LocalConnection {
    /// By default, there is no address.
    package var peerNetwork: UInt64? { nil }
    /// By default, does nothing.
    package func confirmByHand() {}
    /// By default, does nothing.
    package func confirm(_: Int) {}
    /// By default, does nothing.
    package func confirmTaken() {}
    /// By default, does nothing, because the connection discards no message.
    package func reportDiscarded(to _: @escaping (DiscardedMessage) -> Void) {}
    /// By default, does nothing.
    package func networkChanged() {}
    /// By default, there are none except the connection's events.
    package func readSignsOfLife() -> SignsOfLife { SignsOfLife() }
}

/// Receives the message that it requested from a connection (``LocalConnection/receiveNow(orTell:)``).
package protocol ConnectionReceiver: AnyObject {
    /// A message has come, or the end as ``Connection/receive()`` reports it.
    func receive(_ arrival: Result<Payload?, TransportError>)
}

extension Connection {
    /// The connection for direct calls, if it is one of this package and the caller runs on its loop.
    var here: (any LocalConnection)? {
        guard let local = self as? any LocalConnection, local.isHere else { return nil }
        return local
    }
}

/// What a listener of this package's own event loops offers beyond ``Listener``.
package protocol LocalListener: Listener {
    /// Counts the bytes that its connections buffer towards `total` from now on, if the listener lives on the same runtime.
    func join(_ total: RuntimeBound<BufferedTotal>)
}
