/// The counters of a ``FaultProxy``.
public struct FaultStatistics: Sendable, Hashable {
    /// Accepted connections. Over UDP, addresses of clients that have sent a datagram.
    public var connections: UInt64 = 0
    /// How many of them are open now.
    public var openConnections = 0
    /// Connections whose server could not be reached. Their clients were reset.
    public var failedConnections: UInt64 = 0
    /// Bytes that were sent to the server.
    public var bytesToServer: UInt64 = 0
    /// Bytes that were sent to clients.
    public var bytesToClient: UInt64 = 0
    /// Datagrams that were sent to the server, duplicates included.
    public var datagramsToServer: UInt64 = 0
    /// Datagrams that were sent to clients, duplicates included.
    public var datagramsToClient: UInt64 = 0
    /// Datagrams that were lost at random.
    public var lost: UInt64 = 0
    /// Datagrams that were sent twice.
    public var duplicated: UInt64 = 0
    /// Datagrams that were delayed until the next one.
    public var reordered: UInt64 = 0
    /// Datagrams that were lost in a black hole.
    public var swallowed: UInt64 = 0
    /// Datagrams that were lost because too many were buffered or the kernel took no more.
    public var overflowed: UInt64 = 0
    /// Bytes that are buffered in the proxy now.
    public var bufferedBytes = 0

    /// Creates counters that are all zero.
    public init() {}

    mutating func delivered(_ bytes: Int, _ way: PathWay) {
        switch way {
        case .toServer: bytesToServer += UInt64(bytes)
        case .toClient: bytesToClient += UInt64(bytes)
        }
    }
}
