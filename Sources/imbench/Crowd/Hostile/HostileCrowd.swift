import SocketIO

/// Many hostile clients of one kind, on a thread of their own. Whoever is hung up on comes back.
final class HostileCrowd: Sendable {
    /// How long a client stays away that was hung up on, in nanoseconds.
    private static let absence: Int64 = 50_000_000

    private let isStopped = Locked(false)
    private let counts = Locked(Counts())

    /// What they have done and were told.
    struct Counts: Sendable {
        /// How often any of them has connected.
        var connections = 0
        /// How many subscriptions were refused.
        var refusals = 0
        /// How often an address from which a session was spoken in was asked to prove itself.
        var questions = 0
        /// Whether an address that had proved nothing was sent more than three times what came from there.
        var wasAmplified = false
    }

    var soFar: Counts { counts.withLock { $0 } }

    func stop() {
        isStopped.withLock { $0 = true }
    }

    /// Does its worst until it is stopped, with a rest in milliseconds after each round of all clients.
    func run(_ plan: AttackPlan, clients: Int, port: UInt16, rest: Int32 = 0) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        guard !plan.scripts.isEmpty else { return flood(plan.kind, clients, port, rest, buffer) }
        var attackers = (0..<clients).map { HostileClient(plan.scripts[$0 % plan.scripts.count], number: $0) }
        var polled: [pollfd] = []
        while !isStopped.withLock({ $0 }) {
            let now = Clocks.monotonic()
            polled.removeAll(keepingCapacity: true)
            for index in attackers.indices {
                if attackers[index].connectIfDue(port, now) { counts.withLock { $0.connections += 1 } }
                polled.append(attackers[index].interest(now))
            }
            _ = poll(&polled, nfds_t(polled.count), 5)
            let later = Clocks.monotonic()
            for index in attackers.indices where polled[index].revents != 0 {
                let isThere = attackers[index].work(polled[index].revents, buffer, later)
                let refusals = attackers[index].takeRefusals()
                if refusals > 0 { counts.withLock { $0.refusals += refusals } }
                if !isThere { attackers[index].hangUp(until: later + Self.absence) }
            }
            if rest > 0 { _ = poll(nil, 0, rest) }
        }
        for index in attackers.indices { attackers[index].hangUp(until: .max) }
    }

    /// The same with datagrams, for which the kernel always has room.
    private func flood(
        _ kind: HostileKind,
        _ clients: Int,
        _ port: UInt16,
        _ rest: Int32,
        _ buffer: UnsafeMutableRawBufferPointer
    ) {
        var attackers = (0..<clients).map { HostileDatagrams(kind, number: $0) }
        while !isStopped.withLock({ $0 }) {
            let now = Clocks.monotonic()
            for index in attackers.indices {
                let before = attackers[index].questions
                let connected = attackers[index].work(port, buffer, now)
                let (isAmplified, questions) = (attackers[index].wasAmplified, attackers[index].questions - before)
                guard connected > 0 || isAmplified || questions > 0 else { continue }
                counts.withLock {
                    $0.connections += connected
                    $0.questions += questions
                    $0.wasAmplified = $0.wasAmplified || isAmplified
                }
            }
            if attackers.allSatisfy(\.isAway) { _ = poll(nil, 0, 5) } else if rest > 0 { _ = poll(nil, 0, rest) }
        }
        for index in attackers.indices { attackers[index].hangUp() }
    }
}
