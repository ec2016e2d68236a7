/// The limits of transfers. Each side has its own.
public struct TransferConfiguration: Sendable, Hashable {
    /// The largest transfer that is received, in bytes. A larger one is refused before bytes flow, and one that does not say
    /// how large it is when it has become larger. Default 100 MiB.
    public var maximumSize: UInt64 = 100 << 20
    /// How many transfers are received at the same time. More are refused. Default 4.
    public var maximumIncoming = 4
    /// How many transfers are sent or wait for that. Default 64.
    public var maximumOutgoing = 64
    /// How many transfers are sent at the same time; the others wait. Default 2.
    public var concurrentOutgoing = 2
    /// How many bytes of a transfer may be unacknowledged, which is also how much memory a received one takes. Default 1 MiB.
    public var window = 1 << 20
    /// How long an offer that the peer has got waits for an answer, and how long a received transfer may stand still
    /// before it is ended. Default 60 s.
    public var stallTimeout: Duration = .seconds(60)
    /// How much a transfer may delay the other messages of the connection, as far as its own bytes are the cause. A smaller
    /// value makes it slower. Default 25 ms.
    public var targetDelay: Duration = .milliseconds(25)

    /// Makes the defaults.
    public init() {}
}
