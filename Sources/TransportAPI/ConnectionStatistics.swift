/// A message that was larger than allowed, and of which nothing was kept but this.
public struct DiscardedMessage: Sendable, Hashable {
    /// Its topic, where the transport has topics.
    public var topic: String?
    /// The bytes of its payload.
    public var size: Int

    /// A message of this topic and size.
    public init(topic: String?, size: Int) {
        self.topic = topic
        self.size = size
    }
}

/// What one connection has sent and received, counted where it was written and read.
public struct ConnectionStatistics: Sendable, Hashable {
    /// Bytes handed to the socket, framing and handshake included, below which only TCP or UDP and IP headers come.
    public var bytesSent: UInt64 = 0
    /// Bytes read from the socket.
    public var bytesReceived: UInt64 = 0
    /// Messages of the user sent.
    public var messagesSent: UInt64 = 0
    /// Messages of the user received.
    public var messagesReceived: UInt64 = 0
    /// Pings, pongs, acknowledgements and other frames without a user's message, sent and received.
    public var controlFrames: UInt64 = 0
    /// Acknowledgements of what was not in flight, which were ignored (MQTT: PUBACK and PUBCOMP).
    public var unexpectedAcknowledgements: UInt64 = 0
    /// Messages that arrived again and were dropped.
    public var duplicates: UInt64 = 0
    /// Messages that arrived after a later one.
    public var reordered: UInt64 = 0
    /// Messages that arrived but were dropped because nobody consumed them (unreliable transports only; a reliable one
    /// stops reading instead).
    public var overflowed: UInt64 = 0
    /// Messages larger than allowed that were passed over, in a session of MQTT whose broker would send them again for ever.
    public var discarded: UInt64 = 0
    /// The last of them.
    public var lastDiscarded: DiscardedMessage?
    /// Bytes sent and received until the connection was open.
    public var handshakeBytes: UInt64 = 0
    /// How often this side waited for the other until the connection was open, TCP's own handshake included.
    public var handshakeRoundTrips = 0
    /// The time from the start of the attempt to the open connection, name resolution included.
    public var handshakeDuration: Duration = .zero
    /// IP packets sent, retransmissions included; `nil` where the kernel does not tell.
    public var segmentsSent: UInt64?
    /// IP packets received; `nil` where the kernel does not tell.
    public var segmentsReceived: UInt64?
    /// Bytes of TCP and IP headers that went with the segments sent and received; `nil` where the kernel does not tell.
    public var headerBytes: UInt64?

    /// All counts at zero.
    public init() {}
}
