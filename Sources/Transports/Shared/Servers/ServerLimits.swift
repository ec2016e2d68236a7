import Protocols
import TransportAPI

/// The limits of a server over byte streams for all its clients together. Those of one connection are
/// ``ConnectionLimits``. Docs/reference/limits.md lists all limits.
package struct ServerLimits: Sendable, Hashable {
    /// The maximum number of clients at a time. Default 65,536. Beyond it, a new client replaces the one that has been
    /// connected longest without sending anything. If there is none, new clients wait in the kernel.
    package var maximumConnections = 65_536
    /// The maximum number of clients with one IPv4 address or one IPv6 network of 64 bits. Further connections are
    /// closed. There is no limit by default, because a company, or all clients of a load balancer, can have one
    /// address.
    package var maximumPerAddress: Int?
    /// The maximum number of clients in their handshake. Default 1,024. Beyond it, the oldest handshake is closed, once
    /// what its client had sent was processed.
    package var maximumHandshakes = 1024
    /// The maximum number of bytes that all connections together buffer for incomplete messages, output that clients
    /// have not read, and compression. Default 512 MiB. Beyond it, the connection that buffers most is closed.
    package var maximumBuffered = 512 << 20
    /// The time for which an open connection may receive nothing. Default 1 h. It is longer than any keepalive
    /// interval, and ends connections of clients that have disappeared.
    package var idleTimeout: Duration = .seconds(3600)
    /// The time for which the peer may read nothing while output waits for it. Default 30 s.
    package var stallTimeout: Duration = .seconds(30)

    /// Creates the default limits.
    package init() {}
}

extension ServerLimits {
    /// The settings of a server.
    static let settings = SettingList(
        ServerLimits(),
        [
            .init("max-connections", .count, \.maximumConnections, "clients at a time"),
            .init(
                "max-per-address",
                SettingFormat.count.orAbsent("no limit"),
                \.maximumPerAddress,
                "clients of one address at a time"
            ),
            .init(
                "max-handshakes",
                .count,
                \.maximumHandshakes,
                "clients in their handshake, or reading its refusal"
            ),
            .init(
                "max-buffered",
                .bytes(1...1 << 40),
                \.maximumBuffered,
                "unfinished messages, unread output and compression of all clients"
            ),
            .init("idle-timeout", .duration(), \.idleTimeout, "how long a server keeps a silent client"),
            .init(
                "stall-timeout",
                .duration(),
                \.stallTimeout,
                "how long a client may read nothing while output waits"
            ),
        ]
    )
}
