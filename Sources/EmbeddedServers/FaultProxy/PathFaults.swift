import TransportAPI

/// All that can be wrong with a network path. Values outside their range count as the nearest one within it.
public struct PathFaults: Sendable, Hashable {
    /// How long everything is on its way, each way; none by default, at most an hour.
    public var delay: Duration
    /// Up to so much is added to the delay, evenly spread; none by default, at most an hour. Datagrams may overtake each
    /// other by it, the bytes of a stream do not.
    public var jitter: Duration
    /// Bytes per second, each way of each connection; `nil`, the default, is without limit. At least 1.
    public var bytesPerSecond: Int?
    /// Nothing gets from the client to the server any more, and nobody is told. Datagrams are lost. The bytes of a stream
    /// wait, as those that nobody acknowledges do: some in the proxy, up to its bound, the others with the client, and
    /// all arrive in their order when the path heals. So do the end of a stream and a reset.
    public var blackHoleToServer: Bool
    /// The same from the server to the client.
    public var blackHoleToClient: Bool
    /// The share of datagrams that get lost, each way, from 0 to 1. The network below a stream loses too, but repeats.
    public var loss: Double
    /// The share of datagrams that arrive twice, each way, from 0 to 1.
    public var duplication: Double
    /// The share of datagrams that arrive behind the one that was sent after them, each way, from 0 to 1.
    public var reordering: Double

    /// A path with nothing wrong but what is named.
    public init(
        delay: Duration = .zero,
        jitter: Duration = .zero,
        bytesPerSecond: Int? = nil,
        blackHoleToServer: Bool = false,
        blackHoleToClient: Bool = false,
        loss: Double = 0,
        duplication: Double = 0,
        reordering: Double = 0
    ) {
        self.delay = delay
        self.jitter = jitter
        self.bytesPerSecond = bytesPerSecond
        self.blackHoleToServer = blackHoleToServer
        self.blackHoleToClient = blackHoleToClient
        self.loss = loss
        self.duplication = duplication
        self.reordering = reordering
    }

    /// A good path.
    public static let none = PathFaults()
    /// A dead path: nothing arrives, either way.
    public static let dead = PathFaults(blackHoleToServer: true, blackHoleToClient: true)

    /// These faults with each value moved into its range.
    var bounded: PathFaults {
        var faults = self
        faults.delay = min(max(delay, .zero), .seconds(3600))
        faults.jitter = min(max(jitter, .zero), .seconds(3600))
        faults.bytesPerSecond = bytesPerSecond.map { max(1, $0) }
        faults.loss = Self.share(loss)
        faults.duplication = Self.share(duplication)
        faults.reordering = Self.share(reordering)
        return faults
    }

    /// How long something is on its way, in nanoseconds; `spread`, from 0 to 1, is its part of the jitter.
    func transit(_ spread: Double) -> Int64 {
        delay.wholeNanoseconds + Int64(Double(jitter.wholeNanoseconds) * spread)
    }

    func isBlackHole(_ way: PathWay) -> Bool {
        way == .toServer ? blackHoleToServer : blackHoleToClient
    }

    private static func share(_ value: Double) -> Double {
        value.isNaN ? 0 : min(max(value, 0), 1)
    }
}

/// One of the two ways of a path.
enum PathWay: UInt64 {
    case toServer, toClient
}
