import TransportAPI

/// The limits of one connection.
package struct ConnectionLimits: Sendable, Hashable {
    /// How many received messages may wait for their consumer before reading stops; 1,024 by default.
    package var inboxMessages = 1024
    /// How many bytes of received messages may wait for their consumer before reading stops; 4 MiB by default.
    package var inboxBytes = 4 << 20
    /// How many bytes may be queued for the kernel before senders wait; 1 MiB by default.
    package var writeBuffer = 1 << 20
    /// How many frames without a message (pings, subscriptions, empty fragments) the peer may send per second; 1,000 by
    /// default. Beyond this rate, the connection ends.
    package var controlRate = 1000
    /// For servers: whether reading stops while the peer does not read its answers, at twice ``writeBuffer``. `false`
    /// by default, because two sides that both stop reading could block each other.
    package var readsOnlyWhileRead = false
    /// How long a close may take after the peer last took bytes; 5 s by default. The time starts again whenever the
    /// peer takes some. Afterwards the connection is closed, and `close` reports how much was not delivered.
    package var closeTimeout: Duration = .seconds(5)
    /// How long a close may take in total, however slowly the peer reads; 60 s by default.
    package var closeTotal: Duration = .seconds(60)
    /// How long a connection may take to write its last bytes after an error or a limit has ended it; 2 s by default. After
    /// the peer has ended its side, the limits of a close apply, but it is never shorter than this.
    package var linger: Duration = .seconds(2)
    /// How long the TLS handshake of a client may take at a server; 10 s by default. A client's own time limit is that
    /// of its attempt.
    package var secureTimeout: Duration = .seconds(10)
    /// How long the connection may be silent before the supervisor checks that the peer is alive. `nil`, the default:
    /// the interval in the core's capabilities.
    package var keepaliveInterval: Duration?
    /// For clients: whether a supervisor may log in over a connection that is not encrypted. `false` by default.
    package var allowsInsecureCredentials = false

    /// Creates the default limits.
    package init() {}

    /// Returns the capabilities of a connection that has these limits and a core with `capabilities`.
    package func describe(_ capabilities: Capabilities) -> Capabilities {
        var capabilities = capabilities
        // A core that keeps its connection alive by itself determines the interval.
        if let keepaliveInterval, !capabilities.keepsItselfAlive { capabilities.keepaliveInterval = keepaliveInterval }
        return capabilities
    }
}

extension TransportError {
    /// Returns the error for a limit on the number of connections. `sentence` says which limit is reached.
    package static func tooMany(_ sentence: String, _ phase: Phase) -> TransportError {
        TransportError(.tooManyRequests, phase, sentence)
    }

    /// Returns the error for a message that cannot be sent because the connection is not open.
    ///
    /// - Parameter isOver: whether it is closed. Otherwise its handshake is not complete.
    static func notOpen(isOver: Bool) -> TransportError {
        isOver
            ? TransportError(.closedByUser, .closing, "the connection is closed")
            : TransportError(.wouldBlock, .handshake, "the handshake is not complete")
    }
}
