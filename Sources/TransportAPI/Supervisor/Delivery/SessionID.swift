/// Identifies one client across all its connections. It is random, so that only a client that has seen it can resume
/// the session.
public struct SessionID: Sendable, Hashable, Codable {
    /// The first eight bytes.
    public var high: UInt64
    /// The last eight bytes.
    public var low: UInt64

    /// Creates an identifier from its two halves. They are sent in network byte order.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates a random identifier.
    public init(using random: inout some RandomNumberGenerator) {
        self.init(high: random.next(), low: random.next())
    }

    /// Creates the public identifier of the sender of messages. The identifier by which a client continues its session is another
    /// one, and a secret.
    init(public sender: UInt64) {
        self.init(high: 0, low: sender)
    }
}
