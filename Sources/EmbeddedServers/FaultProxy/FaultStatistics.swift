/// What a ``FaultProxy`` has done so far.
public struct FaultStatistics: Sendable, Hashable {
    /// Connections accepted; over UDP, addresses of clients that were heard of.
    public var connections: UInt64 = 0
    /// Those of them that there are now.
    public var openConnections = 0
    /// Connections whose server could not be reached; their clients were reset.
    public var failedConnections: UInt64 = 0
    /// Bytes handed on.
    public var bytesToServer: UInt64 = 0
    /// Bytes handed on.
    public var bytesToClient: UInt64 = 0
    /// Datagrams handed on, duplicates included.
    public var datagramsToServer: UInt64 = 0
    /// Datagrams handed on, duplicates included.
    public var datagramsToClient: UInt64 = 0
    /// Datagrams lost by chance.
    public var lost: UInt64 = 0
    /// Datagrams that were handed on twice.
    public var duplicated: UInt64 = 0
    /// Datagrams held back until the next one.
    public var reordered: UInt64 = 0
    /// Datagrams lost in a black hole.
    public var swallowed: UInt64 = 0
    /// Datagrams lost because too many waited, or the kernel took no more.
    public var overflowed: UInt64 = 0
    /// Bytes that are on their way inside the proxy now.
    public var bytesHeld = 0

    /// Nothing done yet.
    public init() {}

    mutating func delivered(_ bytes: Int, _ way: PathWay) {
        switch way {
        case .toServer: bytesToServer += UInt64(bytes)
        case .toClient: bytesToClient += UInt64(bytes)
        }
    }
}
