/// The capabilities of a transport. The supervisor, the contract tests and imbench use these and never a transport's
/// name.
public struct Capabilities: Sendable, Hashable {
    /// Whether messages arrive while the connection is alive.
    public var isReliable: Bool
    /// Whether messages arrive in the order in which they were sent.
    public var isOrdered: Bool
    /// Whether the protocol has its own ping (``Connection/ping()``).
    public var hasNativePing: Bool
    /// Whether the peer acknowledges each message, so that sending ends in ``SendOutcome/acknowledged``.
    public var acknowledgesMessages: Bool
    /// Whether the next connection of the same transport completes messages that this one has sent without an
    /// acknowledgement, such as in a persistent session of MQTT. ``Connection/send(_:as:isRepeated:)`` waits for that.
    public var completesSends: Bool
    /// Whether messages carry a topic by which the peer routes them.
    public var routesByTopic: Bool
    /// Whether text and binary messages differ on the wire.
    public var distinguishesText: Bool
    /// The largest message that can be sent, in bytes of payload.
    public var maximumMessageSize: Int
    /// How long a connection may be silent before a supervisor or session server probes it, unless
    /// ``KeepaliveConfiguration/interval`` sets another time. Devices on the transport's paths forget connections that
    /// are silent for longer (Docs/reference/supervisor.md). Default 60 s.
    public var keepaliveInterval: Duration
    /// Whether a connection probes its peer itself after ``keepaliveInterval`` of silence in either direction, and ends
    /// when no answer comes (MQTT). Then a supervisor does not probe, unless it is configured to probe more often.
    /// Default `false`.
    public var keepsItselfAlive: Bool

    /// Creates capabilities one by one. The defaults are those of a framed byte stream.
    public init(
        isReliable: Bool = true,
        isOrdered: Bool = true,
        hasNativePing: Bool = true,
        acknowledgesMessages: Bool = false,
        completesSends: Bool = false,
        routesByTopic: Bool = false,
        distinguishesText: Bool = false,
        maximumMessageSize: Int,
        keepaliveInterval: Duration = .seconds(60),
        keepsItselfAlive: Bool = false
    ) {
        self.isReliable = isReliable
        self.isOrdered = isOrdered
        self.hasNativePing = hasNativePing
        self.acknowledgesMessages = acknowledgesMessages
        self.completesSends = completesSends
        self.routesByTopic = routesByTopic
        self.distinguishesText = distinguishesText
        self.maximumMessageSize = maximumMessageSize
        self.keepaliveInterval = keepaliveInterval
        self.keepsItselfAlive = keepsItselfAlive
    }
}
