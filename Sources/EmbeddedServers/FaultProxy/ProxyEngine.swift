import SocketIO
import TransportAPI

/// Carries the traffic of a ``FaultProxy``: connections or datagrams. It is used on its loop only.
protocol ProxyEngine: AnyObject {
    /// The path whose faults it applies.
    var path: ProxyPath { get }
    /// The address for clients. Its port never changes.
    var address: SocketAddress { get }
    /// How many clients there are, and how many bytes are buffered for them.
    var load: (clients: Int, bufferedBytes: Int) { get }

    /// Applies the faults of the path after a change.
    func faultsChanged()
    func cut(_ how: FaultProxy.Cut)
    func refuse(_ on: Bool) throws(SystemError)
    func rebindClients()
    func stop()
}

/// The state that all connections of one proxy share. It is used on its loop only.
final class ProxyPath {
    let loop: EventLoop
    private let seed: UInt64
    var faults = PathFaults.none
    var statistics = FaultStatistics()

    init(seed: UInt64, on loop: EventLoop) {
        self.seed = seed
        self.loop = loop
    }

    /// Returns the random numbers for one direction of a connection. They depend only on the seed and the connection's
    /// number.
    func random(connection: UInt64, _ way: PathWay) -> RandomSource {
        // An odd factor far from the step of the generator separates the sequences of neighbours.
        .seeded(seed &+ (connection &* 2 &+ way.rawValue) &* 0xd134_2543_de82_ef95)
    }
}

/// A timer that can be moved often. It is used on its loop only.
struct WakeUp {
    private var timer: (id: UInt64, deadline: Int64)?

    /// Whether an action is waiting for its deadline.
    var isSet: Bool { timer != nil }

    /// Calls `action` at `deadline`, and no longer at the earlier deadline. With `nil`, it is not called.
    mutating func set(_ deadline: Int64?, on loop: EventLoop, _ action: @escaping () -> Void) {
        // A deadline that has passed fires in the next tick, so that other handlers run in between.
        let deadline = deadline.map { max($0, loop.now + 1) }
        guard timer?.deadline != deadline else { return }
        cancel(on: loop)
        if let deadline { timer = (loop.schedule(at: deadline, action), deadline) }
    }

    mutating func cancel(on loop: EventLoop) {
        if let timer { loop.cancel(timer: timer.id) }
        timer = nil
    }

    /// Marks the timer as fired. The action must call this first.
    mutating func rang() {
        timer = nil
    }
}
