import CommandSupport
import Foundation
import Measuring
import SocketIO

/// Many hostile clients of one kind, on one thread. A client whose connection ends connects again.
final class HostileCrowd: Sendable {
    /// The pause before a client connects again, in nanoseconds.
    private static let absence: Int64 = 50_000_000

    private let isStopped = Locked(false)
    private let counts = Locked(Counts())

    /// The counts of all clients.
    struct Counts: Sendable {
        /// How often they have connected.
        var connections = 0
        /// How many subscriptions were refused.
        var refusals = 0
        /// How often the server has tried to validate an address of a session.
        var questions = 0
        /// Whether an address that was not validated was sent more than three times as much as it has sent.
        var wasAmplified = false
        /// What they have found in answers over HTTP.
        var answers = HostileAnswers()
    }

    var soFar: Counts { counts.withLock { $0 } }

    func stop() {
        isStopped.withLock { $0 = true }
    }

    /// Attacks until it is stopped, with a pause in milliseconds after each round of all clients.
    ///
    /// - Parameter scripts: the scripts in place of those of the plan.
    func run(_ plan: AttackPlan, scripts: [HostileScript]? = nil, clients: Int, port: UInt16, rest: Int32 = 0) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        let scripts = scripts ?? plan.scripts
        guard !scripts.isEmpty else { return flood(plan.kind, clients, port, rest, buffer) }
        var attackers = (0..<clients).map { HostileClient(scripts[$0 % scripts.count], number: $0, of: clients) }
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
                let answers = attackers[index].takeAnswers()
                if !answers.isEmpty { counts.withLock { $0.answers.add(answers) } }
                if !isThere { attackers[index].disconnect(until: later + Self.absence) }
            }
            if rest > 0 { _ = poll(nil, 0, rest) }
        }
        for index in attackers.indices { attackers[index].disconnect(until: .max) }
    }

    /// The same over UDP, where the kernel always accepts a datagram.
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
        for index in attackers.indices { attackers[index].disconnect() }
    }
}

/// A hostile client over a stream.
struct HostileClient {
    private let script: HostileScript
    private let number: Int
    private var connection: RawConnection?
    /// The time at which it connects again, or sends its next load.
    private var due: Int64 = 0
    /// The present output, and how much of it is sent.
    private var bytes: [UInt8] = []
    private var sent = 0
    private var isOpened = false
    /// How many loads it has begun, over all of its connections, and over the present one.
    private var (round, loadNumber) = (0, 0)
    /// How often it has connected.
    private var visits = 0
    private var refusals = 0
    private var answers = HostileAnswers()
    private var learned: [UInt8]?
    /// The token of its session over HTTP, once it is known.
    private var token: String?
    private var handshake: HostileHandshake?
    /// At a fixed rate, when it connects next, and the time between two connections, in nanoseconds.
    private var visit: (next: Int64, period: Int64)?

    init(_ script: HostileScript, number: Int, of clients: Int) {
        (self.script, self.number) = (script, number)
        guard let rate = script.rate else { return }
        let period = Int64(clients) * 1_000_000_000 / Int64(rate)
        // The clients connect one after the other.
        due = Clocks.monotonic() + period * Int64(number) / Int64(clients)
        visit = (due, period)
    }

    /// Connects if it has no connection, and the pause is over or the time of a fixed rate has come. Returns whether it did.
    mutating func connectIfDue(_ port: UInt16, _ now: Int64) -> Bool {
        guard connection == nil, due <= now else { return false }
        if let (next, period) = visit { visit = (max(next + period, now), period) }
        do throws(SystemFailure) {
            connection = try RawConnection(port: port, reads: script.reads && !script.isDeafInSession)
        } catch {
            due = now + 50_000_000
            return false
        }
        handshake = script.handshake?()
        bytes = handshake?.answer([]) ?? script.freshOpening?(number, visits) ?? script.opening
        (sent, isOpened, loadNumber, visits) = (0, false, 0, visits + 1)
        return true
    }

    mutating func disconnect(until time: Int64) {
        connection?.close()
        (connection, handshake, token, bytes, due) = (nil, nil, nil, [], visit?.next ?? time)
    }

    /// The events that it waits for.
    func interest(_ now: Int64) -> pollfd {
        let reads = script.reads && !(script.isDeafInSession && token != nil)
        var events: Int16 = reads ? Int16(POLLIN) : 0
        if !isOpened || sent < bytes.count || hasLoad && due <= now { events |= Int16(POLLOUT) }
        return pollfd(fd: connection?.socket ?? -1, events: events, revents: 0)
    }

    private var hasLoad: Bool {
        if script.sessionLoad != nil { return token != nil }
        return script.freshLoad != nil || script.numberedLoad != nil || !(learned ?? script.load).isEmpty
    }

    /// Sends and reads once. Returns `false` once the connection has ended.
    mutating func work(_ events: Int16, _ buffer: UnsafeMutableRawBufferPointer, _ now: Int64) -> Bool {
        guard let connection else { return true }
        if events & Int16(POLLERR) != 0 { return false }
        if events & Int16(POLLIN | POLLHUP) != 0 {
            let count = connection.read(buffer)
            guard count >= 0 else { return false }
            if script.awaitsAnswers, count > 0 { due = now + script.pace }
            if let learns = script.learns { learned = learns(Array(buffer[..<count])) ?? learned }
            if count > 0, script.leaves?(visits - 1) == true { return false }
            if let handshake, count > 0 {
                bytes = bytes[sent...] + handshake.answer(buffer[..<count])
                sent = 0
            }
            if script.readsAnswers, !take(buffer[..<count]) { return false }
            if script.countsRefusals { refusals += buffer[..<count].count { $0 == 0x80 } }
        }
        guard events & Int16(POLLOUT) != 0 else { return true }
        if isOpened, sent == bytes.count {
            bytes = nextLoad
            (sent, round, loadNumber) = (0, round + 1, loadNumber + 1)
        }
        let count = bytes.isEmpty ? 0 : connection.send(bytes[sent...])
        guard count >= 0 else { return false }
        sent += count
        guard sent == bytes.count else { return true }
        if isOpened { due = script.awaitsAnswers ? .max : now + script.pace }
        isOpened = true
        return true
    }

    private var nextLoad: [UInt8] {
        if let token, let load = script.sessionLoad { return load(token, loadNumber) }
        return script.numberedLoad?(loadNumber) ?? script.freshLoad?(number, round) ?? learned ?? script.load
    }

    /// Looks at answers over HTTP. Returns `false` once the session has ended.
    private mutating func take(_ received: some Collection<UInt8>) -> Bool {
        answers.add(received, forbidden: script.forbidden)
        guard script.sessionLoad != nil else { return true }
        token = token ?? HostileAnswers.token(received)
        return answers.refusals[404] == nil
    }

    /// What it has found in answers since the last call.
    mutating func takeAnswers() -> HostileAnswers {
        defer { answers = HostileAnswers() }
        return answers
    }

    /// How many refusals it has read since the last call.
    mutating func takeRefusals() -> Int {
        defer { refusals = 0 }
        return refusals
    }
}

/// A TCP connection that uses only system calls.
struct RawConnection: Sendable {
    let socket: Int32

    /// The buffers of a client that does not read, and its largest segment, in bytes.
    private static let (smallBuffer, usualSegment): (Int32, Int32) = (4096, 1448)

    /// Begins to connect to a port of 127.0.0.1, and does not wait.
    ///
    /// - Parameter reads: whether the client reads. If not, its buffers in the kernel are small. Over loopback the sender's
    ///   thread puts its bytes into the receiver's queue, and compacts that queue once it is full (tcp_collapse in Linux). Across
    ///   a network this is the receiver's work, but here it would count as the server's. With the segments of a network the
    ///   kernel also sizes the server's send buffer as it does there. Loopback's segments of 64 KiB make it buffer 2.5 MiB
    ///   before the server notices.
    init(port: UInt16, reads: Bool = true) throws(SystemFailure) {
        socket = try BareSocket.open(BareSocket.stream, isBlocking: false)
        if !reads {
            // Both sides negotiate the window's scale and their segments while connecting (tcp(7)).
            BareSocket.set(socket, SOL_SOCKET, SO_RCVBUF, Self.smallBuffer)
            BareSocket.set(socket, SOL_SOCKET, SO_SNDBUF, Self.smallBuffer)
            BareSocket.set(socket, Int32(IPPROTO_TCP), TCP_MAXSEG, Self.usualSegment)
        }
        do throws(SystemFailure) {
            try BareSocket.connect(socket, port: port)
        } catch {
            close()
            throw error
        }
    }

    /// Sends as much as the kernel takes. Returns the number of bytes, or -1 once the connection is gone.
    func send(_ bytes: ArraySlice<UInt8>) -> Int {
        let count = bytes.withUnsafeBytes { Foundation.send(socket, $0.baseAddress, $0.count, BareSocket.noSignal) }
        if count >= 0 { return count }
        return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -1
    }

    /// Reads the available bytes. Returns their number, or -1 once the connection is gone.
    func read(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = recv(socket, buffer.baseAddress, buffer.count, 0)
        if count > 0 { return count }
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1
    }

    func close() {
        _ = Foundation.close(socket)
    }
}
