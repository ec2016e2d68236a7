import Protocols
import TransportAPI

/// The limits of a server over byte streams for all its clients together. Those of one connection are
/// ``ConnectionLimits``. Docs/reference/limits.md lists all limits.
package struct ServerLimits: Sendable, Hashable {
    /// How many clients may be connected at once; 65,536 by default. Beyond it, a new client replaces the one that has
    /// been connected longest without sending anything. If there is none, new clients wait in the kernel.
    package var maximumConnections = 65_536
    /// How many of them may have one IPv4 address or one IPv6 network of 64 bits. Further connections are closed. There
    /// is no limit by default, because a company, or all clients of a load balancer, can have one address.
    package var maximumPerAddress: Int?
    /// How many clients may be in their handshake; 1,024 by default. Beyond it, the oldest handshake is closed.
    package var maximumHandshakes = 1024
    /// How many bytes all connections together may buffer: incomplete messages, output that clients have not read, and
    /// compression; 512 MiB by default. Beyond it, the connection that buffers most is closed.
    package var maximumBuffered = 512 << 20
    /// How long an open connection may receive nothing; 1 h by default. It is longer than any keepalive interval, and
    /// ends connections of clients that have disappeared.
    package var idleTimeout: Duration = .seconds(3600)
    /// How long the peer may read nothing while output waits for it; 30 s by default.
    package var stallTimeout: Duration = .seconds(30)

    /// Creates the default limits.
    package init() {}
}

extension OptionReader {
    /// The limits of a server, from the common options.
    package func serverLimits() throws(TransportError) -> ServerLimits {
        var limits = ServerLimits()
        let counts = 1...1 << 20
        limits.maximumConnections = try integer("max-connections", in: counts) ?? limits.maximumConnections
        limits.maximumPerAddress = try integer("max-per-address", in: counts)
        limits.maximumHandshakes = try integer("max-handshakes", in: counts) ?? limits.maximumHandshakes
        limits.maximumBuffered = try bytes("max-buffered", in: 1...1 << 40) ?? limits.maximumBuffered
        limits.idleTimeout = try duration("idle-timeout") ?? limits.idleTimeout
        limits.stallTimeout = try duration("stall-timeout") ?? limits.stallTimeout
        return limits
    }
}
