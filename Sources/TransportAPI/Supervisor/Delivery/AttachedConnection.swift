/// The connection that carries a conversation now. After its end, its form is known until the next one is attached.
package struct AttachedConnection: Sendable {
    /// The number of the open connection; 0 if there is none.
    private(set) var number = 0
    private(set) var style = Delivery.Style.plain
    /// Whether it loses messages, so that they must be sent again on it.
    private(set) var isLossy = false
    /// Whether it completes messages that the one before it has left (``Capabilities/completesSends``).
    private(set) var completesSends = false
    /// In a session, the largest message that the peer accepts, in bytes of its payload.
    private(set) var peerLimit = Int.max
    /// The largest message that the connection itself carries, in bytes of its payload.
    private var ownLimit = Int.max

    var isOpen: Bool { number != 0 }
    /// Whether messages that it loses are sent again by this side.
    var repeatsLosses: Bool { isLossy && style == .session }

    /// Attaches a connection.
    mutating func open(_ number: Int, _ style: Delivery.Style, _ capabilities: Capabilities, peerLimit: Int) {
        self.number = number
        self.style = style
        isLossy = !capabilities.isReliable
        completesSends = capabilities.completesSends
        self.peerLimit = peerLimit
        ownLimit = capabilities.maximumMessageSize - (style == .plain ? 0 : SessionFrame.overhead)
    }

    /// Records its end.
    mutating func close() {
        number = 0
    }

    /// The largest message that can be sent, in bytes of its payload.
    var messageLimit: Int { max(1, min(peerLimit, ownLimit)) }

    /// Whether the peer would end the open connection because of a message of this many bytes.
    func isTooLarge(_ size: Int) -> Bool {
        isOpen && style == .session && size > peerLimit
    }
}
