import SocketIO

#if os(Linux)
import CSocketIO
#endif

/// Many hostile clients of one kind, on a thread of their own. Whoever is hung up on comes back.
///
/// On Linux this one runs only where a processor has nothing else to do (SCHED_IDLE, sched(7)): hostile clients have machines of
/// their own, and what is asked is what they cost the server, not what their own work costs this machine.
final class HostileCrowd: Sendable {
    /// How long a client stays away that was hung up on, in nanoseconds.
    private static let absence: Int64 = 50_000_000

    private let isStopped = Locked(false)
    private let count = Locked(0)

    /// How often any of them has connected.
    var connections: Int { count.withLock { $0 } }

    func stop() {
        isStopped.withLock { $0 = true }
    }

    /// Does its worst until it is stopped.
    func run(_ script: HostileScript, clients: Int, port: UInt16) {
        #if os(Linux)
        // Not the lowest of the ordinary priorities: with that a thread still keeps a processor for its slice of milliseconds.
        _ = csocketio_set_idle_priority()
        #endif
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        if let kind = script.datagrams { return flood(kind, clients, port, buffer) }
        var attackers = Array(repeating: Attacker(), count: clients)
        var polled: [pollfd] = []
        while !isStopped.withLock({ $0 }) {
            let now = Clocks.monotonic()
            polled.removeAll(keepingCapacity: true)
            for index in attackers.indices {
                if attackers[index].connection == nil, attackers[index].due <= now {
                    attackers[index].connect(port)
                    if attackers[index].connection != nil { count.withLock { $0 += 1 } }
                }
                polled.append(attackers[index].interest(script, now))
            }
            _ = poll(&polled, nfds_t(polled.count), 5)
            let later = Clocks.monotonic()
            for index in attackers.indices where polled[index].revents != 0 {
                guard !attackers[index].work(script, polled[index].revents, buffer, later) else { continue }
                attackers[index].hangUp(until: later + Self.absence)
            }
        }
        for index in attackers.indices { attackers[index].hangUp(until: .max) }
    }

    /// The same with datagrams, for which the kernel always has room.
    private func flood(_ kind: HostileKind, _ clients: Int, _ port: UInt16, _ buffer: UnsafeMutableRawBufferPointer) {
        var attackers = (0..<clients).map { HostileDatagrams(kind, number: $0) }
        while !isStopped.withLock({ $0 }) {
            let now = Clocks.monotonic()
            for index in attackers.indices {
                let connected = attackers[index].work(port, buffer, now)
                if connected > 0 { count.withLock { $0 += connected } }
            }
            if attackers.allSatisfy(\.isAway) { _ = poll(nil, 0, 5) }
        }
        for index in attackers.indices { attackers[index].hangUp() }
    }
}

/// One of them.
private struct Attacker {
    var connection: RawConnection?
    /// When it connects again, or sends its next load.
    var due: Int64 = 0
    /// How much of the opening and the present load is sent.
    private var sent = 0
    private var isOpened = false

    mutating func connect(_ port: UInt16) {
        do throws(SystemFailure) {
            connection = try RawConnection(port: port)
        } catch {
            due = Clocks.monotonic() + 50_000_000
        }
        (sent, isOpened) = (0, false)
    }

    mutating func hangUp(until time: Int64) {
        connection?.close()
        connection = nil
        due = time
    }

    /// What it waits for.
    func interest(_ script: HostileScript, _ now: Int64) -> pollfd {
        var events: Int16 = script.reads ? Int16(POLLIN) : 0
        let hasMore = !isOpened ? !script.opening.isEmpty : !script.load.isEmpty && due <= now
        if hasMore || !isOpened { events |= Int16(POLLOUT) }
        return pollfd(fd: connection?.socket ?? -1, events: events, revents: 0)
    }

    /// Sends and reads once; `false` once the server has hung up.
    mutating func work(
        _ script: HostileScript,
        _ events: Int16,
        _ buffer: UnsafeMutableRawBufferPointer,
        _ now: Int64
    ) -> Bool {
        guard let connection else { return true }
        if events & Int16(POLLERR) != 0 { return false }
        if events & Int16(POLLIN | POLLHUP) != 0, !connection.drain(buffer) { return false }
        guard events & Int16(POLLOUT) != 0 else { return true }
        let bytes = isOpened ? script.load : script.opening
        let count = bytes.isEmpty ? 0 : connection.send(bytes[sent...])
        guard count >= 0 else { return false }
        sent += count
        if sent == bytes.count {
            if isOpened { due = now + script.pace }
            (sent, isOpened) = (0, true)
        }
        return true
    }
}
