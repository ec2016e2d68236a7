import Primitives
import SocketIO

/// The poller of a loop that the simulation steps. It behaves like epoll(7) with edges, or like poll(2) with re-arming,
/// and reports ready descriptors in random order.
final class SimulatedPoller: Poller {
    private struct Watch {
        var token: UInt64
        var interest: Readiness
        /// The readiness that is reported next. For a poller with edges this is always the whole interest.
        var armed: Readiness
        var isQueued = false
    }

    private unowned let kernel: SimulatedKernel
    private let hasEdges: Bool
    private var watches: [Int32: Watch] = [:]
    private var ready: [Int32] = []
    private(set) var isWoken = false
    /// Whether a signal interrupts the next wait, as after SIGSTOP and SIGCONT.
    var isInterrupted = false

    init(_ kernel: SimulatedKernel, hasEdges: Bool) {
        self.kernel = kernel
        self.hasEdges = hasEdges
    }

    /// Whether there is anything to report.
    var isReady: Bool { !ready.isEmpty || isWoken }
    /// The number of watched descriptors.
    var count: Int { watches.count }

    func add(_ descriptor: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
        guard watches[descriptor] == nil else { throw SystemError("poll", 17) }
        watches[descriptor] = Watch(token: token, interest: interest, armed: interest)
        kernel.socket(descriptor)?.poller = self
        changed(descriptor)
    }

    func remove(_ descriptor: Int32, token: UInt64) {
        guard watches[descriptor]?.token == token else { return }
        watches[descriptor] = nil
        kernel.socket(descriptor)?.poller = nil
        ready.removeAll { $0 == descriptor }
    }

    func rearm(_ descriptor: Int32, token: UInt64, _ readiness: Readiness) {
        guard var watch = watches[descriptor], watch.token == token else { return }
        // Write readiness without interest in it is reported once. With edges, everything else is reported anyway.
        let isOnce = readiness.contains(.write) && !watch.interest.contains(.write)
        guard !hasEdges || isOnce else { return }
        watch.armed.formUnion(readiness)
        watches[descriptor] = watch
        changed(descriptor)
    }

    /// Queues a descriptor whose readiness may have changed.
    func changed(_ descriptor: Int32) {
        guard var watch = watches[descriptor], !watch.isQueued, !report(descriptor, watch).isEmpty else { return }
        watch.isQueued = true
        watches[descriptor] = watch
        ready.append(descriptor)
    }

    private func report(_ descriptor: Int32, _ watch: Watch) -> Readiness {
        guard let socket = kernel.socket(descriptor) else { return [] }
        let level = socket.readiness(tellsHalfClose: hasEdges)
        // A descriptor that is not armed is hidden from poll(2), which then reports no hang-up.
        if level.contains(.hangUp), hasEdges || !watch.armed.isEmpty { return [.read, .write, .hangUp] }
        return level.intersection(watch.armed)
    }

    func prepare(until _: Int64?) {}

    func block() {}

    func collect(into events: inout Deque<PollEvent>) -> Bool {
        if isInterrupted {
            isInterrupted = false
            return false
        }
        isWoken = false
        guard !ready.isEmpty else { return true }
        let reported = kernel.takeSome(of: &ready)
        for descriptor in reported {
            guard var watch = watches[descriptor] else { continue }
            let readiness = report(descriptor, watch)
            watch.isQueued = false
            if !hasEdges {
                watch.armed.subtract(readiness)
            } else if readiness.contains(.write) {
                watch.armed = watch.interest
            }
            watches[descriptor] = watch
            guard !readiness.isEmpty else { continue }
            kernel.trace.note(
                1,
                Int(descriptor),
                Int(readiness.rawValue),
                "  ready \(descriptor & 0xffff) \(readiness.rawValue)"
            )
            events.append(PollEvent(token: watch.token, readiness: readiness))
        }
        return reported.count < kernel.conditions.reports
    }

    func lowerDeadline(to _: Int64) {}

    func wake() {
        isWoken = true
    }
}
