import TransportAPI

/// What one server over byte streams lets its clients take together; Docs/limits.md has all limits. Those of one link are
/// ``LinkLimits``.
public struct ServerLimits: Sendable, Hashable {
    /// How many clients may be connected at once; 65,536 by default. Beyond it a newcomer takes the place of the client that
    /// has been connected longest without a word; if there is none, newcomers wait in the kernel.
    public var maximumConnections = 65_536
    /// How many of them may come from one IPv4 address or one IPv6 network of 64 bits; no limit by default, since whole
    /// companies and all clients of a load balancer come from one address. Further ones are hung up on.
    public var maximumPerAddress: Int?
    /// How many clients may be within their handshake; 1,024 by default. Beyond it the one that has been for longest is hung
    /// up on.
    public var maximumHandshakes = 1024
    /// How many bytes all links together may keep of messages that have not arrived whole and of output that clients have not
    /// taken, and for compression; 512 MiB by default. Beyond it the link that keeps most is hung up on.
    public var maximumBuffered = 512 << 20
    /// How long an open link may bring nothing; 1 h by default. It is longer than any keepalive, and ends links of clients that
    /// have vanished.
    public var idleTimeout: Duration = .seconds(3600)
    /// How long the far side may take nothing of what waits for it; 30 s by default.
    public var stallTimeout: Duration = .seconds(30)

    /// The defaults.
    public init() {}
}

extension OptionReader {
    /// The bounds of a server, from the common options.
    package func serverLimits() throws(TransportError) -> ServerLimits {
        var limits = ServerLimits()
        let counts = 1...1 << 20
        limits.maximumConnections = try integer("max-connections", in: counts) ?? limits.maximumConnections
        limits.maximumPerAddress = try integer("max-per-address", in: counts)
        limits.maximumHandshakes = try integer("max-handshakes", in: counts) ?? limits.maximumHandshakes
        limits.maximumBuffered = try integer("max-buffered", in: 1...1 << 40) ?? limits.maximumBuffered
        limits.idleTimeout = try positive("idle-timeout") ?? limits.idleTimeout
        limits.stallTimeout = try positive("stall-timeout") ?? limits.stallTimeout
        return limits
    }

    /// A length of time above zero.
    package func positive(_ name: String) throws(TransportError) -> Duration? {
        guard let duration = try duration(name) else { return nil }
        guard duration > .zero else { throw .configuration(name, "must be longer than zero") }
        return duration
    }
}

extension TransportError {
    /// Too many at a time, whichever bound that is.
    static func tooMany(_ sentence: String, _ phase: Phase) -> TransportError {
        TransportError(.tooManyRequests, phase, sentence)
    }
}
