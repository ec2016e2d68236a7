import TransportAPI

/// The bounds of one connection.
package struct ConnectionLimits: Sendable, Hashable {
    /// How many received messages may wait for their consumer before reading stops; 1024 by default.
    package var inboxMessages = 1024
    /// How many bytes of received messages may wait before reading stops; 4 MiB by default.
    package var inboxBytes = 4 << 20
    /// How many bytes may wait for the kernel before senders do; 1 MiB by default.
    package var writeBuffer = 1 << 20
    /// How many frames without a message (pings, subscriptions, empty fragments) the peer may send in a second before the
    /// connection is ended; 1,000 by default.
    package var controlRate = 1000
    /// Servers: whether a peer that does not read its answers is not read from either, at twice ``writeBuffer``. Two sides
    /// that both did so could wait for each other.
    package var readsOnlyWhileRead = false
    /// How long a close may take after the peer last took bytes; 5 s by default. The time starts again whenever the peer takes
    /// some. Then the connection is closed, and `close` reports how much was not delivered.
    package var closeTimeout: Duration = .seconds(5)
    /// How long a close may take in all, however slowly the peer reads; 60 s by default.
    package var closeTotal: Duration = .seconds(60)
    /// How long a connection that this side did not close, but the peer, an error or a limit has ended, may take to
    /// hand its last bytes over; 2 s by default.
    package var linger: Duration = .seconds(2)
    /// How long the connection may be silent before a supervisor asks for a sign of life; `nil`, the default: as long
    /// as the core's capabilities say.
    package var keepaliveInterval: Duration?

    /// The defaults.
    package init() {}

    /// What a connection within these limits can do, whose core can do that.
    package func describe(_ capabilities: Capabilities) -> Capabilities {
        var capabilities = capabilities
        // A core that has a rhythm of its own knows it best.
        if let keepaliveInterval, !capabilities.keepsItselfAlive { capabilities.keepaliveInterval = keepaliveInterval }
        return capabilities
    }
}

extension TransportError {
    /// A limit on the number of connections is reached.
    package static func tooMany(_ sentence: String, _ phase: Phase) -> TransportError {
        TransportError(.tooManyRequests, phase, sentence)
    }
}
