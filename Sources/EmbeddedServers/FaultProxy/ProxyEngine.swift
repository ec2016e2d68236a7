import SocketIO
import TransportAPI

/// What carries the traffic of a ``FaultProxy``: connections or datagrams. Lives on its loop.
protocol ProxyEngine: AnyObject {
    /// The path whose faults it applies.
    var path: ProxyPath { get }
    /// Where clients reach it; the port stays the same for its life.
    var address: SocketAddress { get }
    /// How many clients it has, and how many bytes it holds for them.
    var load: (clients: Int, bytesHeld: Int) { get }

    /// The faults of the path are others now.
    func faultsChanged()
    func cut(_ how: FaultProxy.Cut)
    func refuse(_ on: Bool) throws(SystemError)
    func rebindClients()
    func stop()
}

/// What all connections of one proxy share. Lives on its loop.
final class ProxyPath {
    let loop: EventLoop
    private let seed: UInt64
    var faults = PathFaults.none
    var statistics = FaultStatistics()

    init(seed: UInt64, on loop: EventLoop) {
        self.seed = seed
        self.loop = loop
    }

    /// The random numbers for one way of the connection of this number: always the same for the same seed.
    func random(connection: UInt64, _ way: PathWay) -> RandomSource {
        // An odd factor far from the step of the generator keeps the sequences of neighbours apart.
        .seeded(seed &+ (connection &* 2 &+ way.rawValue) &* 0xd134_2543_de82_ef95)
    }
}

/// A timer that is moved as often as its owner likes. Lives on its loop.
struct WakeUp {
    private var timer: (id: UInt64, deadline: Int64)?

    /// Calls `action` at `deadline`, and no longer at the one before; at none if it is `nil`.
    mutating func set(_ deadline: Int64?, on loop: EventLoop, _ action: @escaping () -> Void) {
        // A deadline that has come rings in the next turn: others have theirs in between.
        let deadline = deadline.map { max($0, loop.now + 1) }
        guard timer?.deadline != deadline else { return }
        cancel(on: loop)
        if let deadline { timer = (loop.schedule(at: deadline, action), deadline) }
    }

    mutating func cancel(on loop: EventLoop) {
        if let timer { loop.cancel(timer: timer.id) }
        timer = nil
    }

    /// To be called first of all in the action.
    mutating func rang() {
        timer = nil
    }
}
