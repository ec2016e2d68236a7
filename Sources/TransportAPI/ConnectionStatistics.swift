/// A message that was discarded because it was larger than allowed.
public struct DiscardedMessage: Sendable, Hashable {
    /// Its topic, if the transport has topics.
    public var topic: String?
    /// The size of its payload, in bytes.
    public var size: Int

    /// Creates the record of a message of this topic and size.
    public init(topic: String?, size: Int) {
        self.topic = topic
        self.size = size
    }
}

/// Counts of the data that one connection has sent and received, taken where it was written and read.
public struct ConnectionStatistics: Sendable, Hashable {
    /// Bytes passed to the socket, including framing and the handshake. Headers of TCP or UDP and of IP are not
    /// included.
    public var bytesSent: UInt64 = 0
    /// The part of ``bytesSent`` that TLS has added: its handshake, and the headers and tags of its records. 0 without
    /// TLS.
    public var tlsBytesSent: UInt64 = 0
    /// Bytes read from the socket.
    public var bytesReceived: UInt64 = 0
    /// Messages of the user that were sent.
    public var messagesSent: UInt64 = 0
    /// Messages of the user that were received.
    public var messagesReceived: UInt64 = 0
    /// Pings, pongs, acknowledgements and other frames without a user's message, sent and received.
    public var controlFrames: UInt64 = 0
    /// Acknowledgements of messages that were not in flight, which were ignored (MQTT: PUBACK and PUBCOMP).
    public var unexpectedAcknowledgements: UInt64 = 0
    /// Messages that arrived again and were dropped.
    public var duplicates: UInt64 = 0
    /// Messages that arrived after a later one.
    public var reordered: UInt64 = 0
    /// Messages that arrived and were dropped because the inbox was full. A reliable transport stops reading instead,
    /// and drops messages only while it closes.
    public var overflowed: UInt64 = 0
    /// Messages that were discarded because they were larger than allowed, in a session of MQTT whose broker would send
    /// them again forever.
    public var discarded: UInt64 = 0
    /// The last discarded message.
    public var lastDiscarded: DiscardedMessage?
    /// Bytes sent and received until the connection was open.
    public var handshakeBytes: UInt64 = 0
    /// How often this side waited for the peer until the connection was open, including TCP's own handshake.
    public var handshakeRoundTrips = 0
    /// The time from the start of the attempt to the open connection, name resolution included.
    public var handshakeDuration: Duration = .zero
    /// IP packets sent, including retransmissions; `nil` if the kernel does not report it.
    public var segmentsSent: UInt64?
    /// IP packets received; `nil` if the kernel does not report it.
    public var segmentsReceived: UInt64?
    /// Bytes of TCP and IP headers of the segments sent and received; `nil` if the kernel does not report it.
    public var headerBytes: UInt64?

    /// Creates statistics with all counts at zero.
    public init() {}
}
