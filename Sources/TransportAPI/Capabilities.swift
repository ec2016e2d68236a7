/// What a transport can do. The supervisor, the contract tests and imbench ask here and never for a transport's name.
public struct Capabilities: Sendable, Hashable {
    /// Whether messages arrive as long as the connection lives.
    public var isReliable: Bool
    /// Whether messages arrive in the order in which they were sent.
    public var isOrdered: Bool
    /// Whether the protocol has a ping of its own (``Connection/ping()``).
    public var hasNativePing: Bool
    /// Whether the peer acknowledges each message, so that sending ends in ``SendOutcome/acknowledged``.
    public var acknowledgesMessages: Bool
    /// Whether the next connection of the same transport completes what this one has sent and not seen acknowledged,
    /// such as in a session of MQTT that the broker keeps. ``Connection/send(_:as:isRepeated:)`` waits for that.
    public var completesSends: Bool
    /// Whether messages carry a topic by which the peer routes them.
    public var routesByTopic: Bool
    /// Whether text and binary are told apart on the wire.
    public var distinguishesText: Bool
    /// The largest message that can be sent, in bytes of payload.
    public var maximumMessageSize: Int
    /// How long a connection may be silent before a supervisor or session server asks for a sign of life, unless
    /// ``KeepaliveConfiguration/interval`` says otherwise: what lies on the transport's paths forgets connections that are
    /// silent for longer (Docs/supervisor.md). Default 60 s.
    public var keepaliveInterval: Duration
    /// Whether a connection asks its peer by itself after ``keepaliveInterval`` of silence in either direction, and
    /// ends when no answer comes (MQTT). A supervisor leaves it to the connection then, unless it is to ask more often.
    /// Default `false`.
    public var keepsItselfAlive: Bool

    /// Capabilities spelled out one by one. The defaults are those of a framed byte stream.
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
