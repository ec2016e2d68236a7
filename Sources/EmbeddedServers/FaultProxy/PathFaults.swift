import Primitives
import TransportAPI

/// The faults of a network path. A value outside its range counts as the nearest one in the range.
public struct PathFaults: Sendable, Hashable {
    /// The delay in each direction; none by default, at most an hour.
    public var delay: Duration
    /// The largest random addition to the delay, evenly distributed; none by default, at most an hour. It can reorder
    /// datagrams, but not the bytes of a stream.
    public var jitter: Duration
    /// Bytes per second in each direction of each connection, at least 1. `nil`, the default: no limit. Bytes that cannot be
    /// delivered, because the receiver takes none or because of a black hole, have passed this limit and arrive at once later.
    public var bytesPerSecond: Int?
    /// Whether nothing reaches the server, without any error; `false` by default. Datagrams are lost. The bytes of a
    /// stream wait like unacknowledged bytes: in the proxy up to its limit, and otherwise with the client. All arrive
    /// in their order after this becomes `false`. The same applies to the end of a stream and to a reset.
    public var blackHoleToServer: Bool
    /// Whether nothing reaches the clients; otherwise like ``blackHoleToServer``.
    public var blackHoleToClient: Bool
    /// The fraction of datagrams that are lost in each direction, from 0 to 1; 0 by default. It does not apply to
    /// streams, because TCP repeats lost bytes.
    public var loss: Double
    /// The fraction of datagrams that arrive twice in each direction, from 0 to 1; 0 by default.
    public var duplication: Double
    /// The fraction of datagrams that arrive after the next one in each direction, from 0 to 1; 0 by default. One waits for
    /// the next one for at most 20 ms.
    public var reordering: Double

    /// Creates faults. By default, the path has none.
    ///
    /// - Parameters:
    ///   - delay: the delay in each direction.
    ///   - jitter: the largest random addition to the delay.
    ///   - bytesPerSecond: the rate in each direction of each connection, or `nil` for no limit.
    ///   - blackHoleToServer: whether nothing reaches the server.
    ///   - blackHoleToClient: whether nothing reaches the clients.
    ///   - loss: the fraction of datagrams that are lost.
    ///   - duplication: the fraction of datagrams that arrive twice.
    ///   - reordering: the fraction of datagrams that arrive after the next one.
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

    /// A path without faults.
    public static let none = PathFaults()
    /// A dead path, on which nothing arrives in either direction.
    public static let dead = PathFaults(blackHoleToServer: true, blackHoleToClient: true)

    /// These faults, with each value moved into its range.
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

    /// The path of datagrams, which may overtake each other. A reordered one waits for the next one for at most 20 ms.
    var datagrams: PathModel.Parameters {
        var path = stream
        (path.loss, path.duplication, path.reordering) = (loss, duplication, reordering)
        (path.lateness, path.keepsOrder) = (20_000_000, false)
        return path
    }

    /// The path of the bytes of a stream, which keep their order.
    var stream: PathModel.Parameters {
        var path = PathModel.Parameters()
        path.delay = delay.wholeNanoseconds
        path.jitter = 0...jitter.wholeNanoseconds
        path.bytesPerSecond = bytesPerSecond.map(Double.init)
        return path
    }

    func isBlackHole(_ way: PathWay) -> Bool {
        way == .toServer ? blackHoleToServer : blackHoleToClient
    }

    private static func share(_ value: Double) -> Double {
        value.isNaN ? 0 : min(max(value, 0), 1)
    }
}

/// A direction of a path.
enum PathWay: UInt64 {
    /// From the client to the server, and from the server to the client.
    case toServer, toClient
}
