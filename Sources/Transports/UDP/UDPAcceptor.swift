import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Serves all clients of one UDP socket. For each datagram, the listener core decides what to do, and the session's
/// driver processes it. Lives on its loop.
///
/// The socket is emptied in every tick. A single datagram is processed at once. Otherwise datagrams wait in the queues
/// of their sessions (``FlowQueues``), and requests for sessions wait in another queue. Both are processed within time
/// budgets. The exception is a session that had nothing waiting, which is served before the next batch is received
/// (``ReadBudget``).
final class UDPAcceptor: PollHandler, ScheduledHandler, DriverOwner, Acceptor, BufferKeeper {
    /// The datagrams that were received and wait to be processed.
    private struct ReadState {
        /// The requests of clients that have no session yet.
        var requests = WaitingRequests()
        /// The datagrams of sessions.
        var flows = FlowQueues<(bytes: [UInt8], sender: SocketAddress)>()
        /// Whether datagrams of the socket are being processed.
        var isRunning = false
        /// Whether the next tick continues to empty the socket.
        var continuesLater = false

        /// Whether nothing waits.
        var isEmpty: Bool { flows.isEmpty && requests.count == 0 }
    }

    /// The room of the socket.
    private struct WriteState {
        /// Whether the socket has no room. The loop reports when it has, and nothing is sent before.
        var isFull = false
        /// The channels that wait for room.
        var blocked: [UDPSessionChannel] = []
    }

    let loop: EventLoop
    let socket: DatagramSocket
    let limits: ConnectionLimits
    let handler: any ConnectionHandler
    let queue: AcceptQueue
    // Exclusivity is unchecked because a core calls no other code, and other calls during a change access other
    // properties.
    @exclusivity(unchecked) var core: UDPListenerCore
    private let batch: DatagramBatch
    @exclusivity(unchecked) private var reading = ReadState()
    @exclusivity(unchecked) private var random = RandomSource.system()
    @exclusivity(unchecked) private var reply = ByteBuffer()
    @exclusivity(unchecked) private var refusals = ReplyRateLimiter()
    @exclusivity(unchecked) private var writing = WriteState()
    /// The encryption between the socket and the sessions; `nil` if the server is not encrypted.
    let dtls: DTLSServer?
    private let tls: ServerTLS?
    @exclusivity(unchecked) var schedule = ScheduleEntry()
    @exclusivity(unchecked) var sessions: [UInt64: (driver: ConnectionDriver, channel: UDPSessionChannel)] = [:]
    /// The memory of all sessions, in bytes.
    @exclusivity(unchecked) var bufferedBytes = 0
    /// The total of the sessions and other parts of the server, if there are other parts.
    @exclusivity(unchecked) var total: BufferedTotal?
    private let events: LimitedEvents
    /// Whether a session is being ended to make room for a new one.
    private var isDisplacing = false
    @exclusivity(unchecked) var isClosed = false
    var emptyWaiters = Waiters<Void>()

    init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: ConnectionLimits,
        handler: any ConnectionHandler,
        core: UDPListenerCore,
        tls: ServerTLS? = nil,
        dtlsLimits: DTLSServer.Limits? = nil
    ) throws(SystemError) {
        socket = try DatagramSocket(boundTo: address, on: loop)
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.queue = queue
        events = LimitedEvents(to: queue, on: loop)
        self.core = core
        self.tls = tls
        if let tls, let dtlsLimits {
            let largestMessage = core.largestDatagram
            dtls = DTLSServer(
                dtlsLimits,
                on: loop,
                makeEngine: { tls.datagramEngine(largest: largestMessage) },
                transmit: { [socket] in socket.send($0, to: $1) }
            )
            let largest = max(core.largestDatagram + DTLS.overhead, DTLS.largestHandshakeDatagram)
            batch = DatagramBatch(largest: largest, memory: 4 * DatagramBatch.usualMemory)
        } else {
            dtls = nil
            batch = DatagramBatch(largest: core.largestDatagram)
        }
        try socket.attach(self)
        guard let dtls else { return }
        tls?.onFailure = { [queue] in queue.note(nil, CloseReason($0), wasOpen: false, count: 0) }
        dtls.onDatagram = { [self] in
            sort(&$0, from: $1.address, $2, $1)
            // A step of a handshake can contain the first datagrams of a client.
            if !reading.isRunning, !reading.isEmpty { deferRest() }
        }
        dtls.onRefusal = { [self] in
            events.note(.sessions($1.code), EventRateLimiter.Event(client: $0, reason: CloseReason($1)))
        }
        dtls.onEnd = { [self] in associationEnded($0, $1) }
    }

    var port: UInt16? { socket.local?.port }

    func ready(_ readiness: Readiness) {
        if readiness.contains(.write) {
            let channels = writing.blocked
            writing = WriteState()
            // The first channel has filled the socket, so it is notified last. Otherwise the others would never find
            // room.
            for channel in channels.dropFirst() + channels.prefix(1) {
                channel.isBlocked = false
                channel.writable()
                sessions[channel.identifier]?.driver.flushIfRequested()
            }
        }
        // During a longer emptying, new datagrams wait for its next step.
        if readiness.contains(.read), !reading.continuesLater { readAll() }
    }

    // MARK: Reading

    private func readAll() {
        reading.isRunning = true
        defer { reading.isRunning = false }
        var input = ByteBuffer(blockOf: loop)
        var turn = ReadBudget(MonotonicClock.now())
        while !isClosed || !sessions.isEmpty {
            guard case .bytes(let count) = socket.receive(into: batch) else { break }
            // The datagram is single as far as is known: no datagram waits before it, and the socket is checked for
            // more after it is answered.
            let isSingle = count == 1 && (batch.wasFirst || batch.wasLast) && reading.flows.isEmpty
            while batch.takeNext({ input.append(contentsOf: $0) }) != nil {
                if let sender = batch.lastSender, !input.isEmpty {
                    if let dtls {
                        dtls.receive(input, from: sender, isSingle)
                    } else {
                        sort(&input, from: sender, isSingle, nil)
                    }
                }
                input.removeAll()
            }
            if reading.flows.hasFresh { serveFresh(&input, &turn) }
            if batch.wasLast { break }
            if turn.isOver(MonotonicClock.now()) {
                continueInNextTick()
                break
            }
        }
        input.returnBlock(to: loop)
        if !reading.isEmpty { deferRest() }
    }

    /// Continues in the next tick. This work does not wait behind busy connections, because datagrams would be lost
    /// when the kernel's queue is full.
    private func continueInNextTick() {
        guard !reading.continuesLater else { return }
        reading.continuesLater = true
        _ = loop.schedule(at: loop.now + 1) { [self] in
            reading.continuesLater = false
            readAll()
        }
    }

    /// Processes a datagram, or queues it.
    private func sort(
        _ input: inout ByteBuffer,
        from sender: SocketAddress,
        _ isSingle: Bool,
        _ client: DTLSClient?
    ) {
        if !core.isPlain, Datagram.isRequest(input) {
            if !reading.requests.append(input, from: sender) { note(.overload, sender) }
            return
        }
        switch decision(input, sender) {
        // A session belongs to the association in which it was opened, and so to its certificate.
        case .session(let id) where sessions[id]?.channel.client !== client: note(.unknownSession, sender)
        case .session(let id) where !isSingle:
            let size = input.count
            // The datagram is copied only if there is room.
            let datagram = (input.bytes(at: 0, count: size) ?? [], sender)
            let isTaken = reading.flows.append(datagram, size: size, of: id) { note(.overload, $0.sender) }
            if !isTaken { note(.overload, sender) }
        case let decision: carryOut(decision, &input, from: sender)
        }
    }

    private func deferRest() {
        loop.add(self, to: .deferred)
    }

    /// Serves sessions that had nothing waiting, before more datagrams are received.
    private func serveFresh(_ input: inout ByteBuffer, _ turn: inout ReadBudget) {
        var now = MonotonicClock.now()
        let end = turn.beginServing(now)
        while now < end, let (id, datagram) = reading.flows.popFresh() {
            serve(id, datagram, &input)
            now = MonotonicClock.now()
        }
        turn.endServing(now)
    }

    private func serve(_ id: UInt64, _ datagram: (bytes: [UInt8], sender: SocketAddress), _ input: inout ByteBuffer) {
        guard let session = sessions[id] else { return }
        input.append(contentsOf: datagram.bytes)
        session.driver.deliver(datagram: &input, from: datagram.sender, to: session.channel, andFlush: true)
        input.removeAll()
    }

    /// Serves waiting datagrams and requests alternately, within the time budget. Datagrams that arrive meanwhile wait
    /// in the kernel's queue. A session that sends more than is processed loses datagrams of its own queue.
    func run(_: LoopQueue) {
        var input = ByteBuffer(blockOf: loop)
        let end = loop.budgetEnd
        repeat {
            if let (id, datagram) = reading.flows.popFirst() { serve(id, datagram, &input) }
            if let sender = reading.requests.takeFirst(into: &input) {
                // The association may have ended meanwhile.
                if dtls != nil, dtls?.client(at: sender) == nil {
                    input.removeAll()
                    continue
                }
                carryOut(decision(input, sender), &input, from: sender)
                input.removeAll()
            }
        } while !reading.isEmpty && MonotonicClock.now() < end
        input.returnBlock(to: loop)
        if !reading.isEmpty { deferRest() }
    }

    private func carryOut(_ decision: UDPListenerCore.Decision, _ input: inout ByteBuffer, from sender: SocketAddress) {
        switch decision {
        case .session(let id):
            guard let session = sessions[id] else { break }
            session.driver.deliver(datagram: &input, from: sender, to: session.channel, andFlush: true)
        case .accept(let session): accept(session, &input, from: sender)
        case .reply(let reason):
            if let reason { note(reason, sender) }
            guard !isClosed, reason != .unknownSession && reason != .encrypted || refusals.take(loop.now) else { break }
            // There are few of these replies. A client that requests a session must not wait for sessions that send
            // much.
            _ = reply.withUnsafeReadableBytes { bytes in
                guard let dtls else { return socket.send(bytes, to: sender) }
                return dtls.client(at: sender)?.association?.write(bytes) ?? .end
            }
        case .drop(let reason): note(reason, sender)
        }
    }

    /// Returns the decision about a datagram, after making room for a new session if possible.
    private func decision(_ input: borrowing ByteBuffer, _ sender: SocketAddress) -> UDPListenerCore.Decision {
        let first = ask(input, sender)
        switch first {
        case .reply(.full?), .drop(.full):
            guard !isClosed, let id = core.mostSilent(Instant(nanoseconds: loop.now)) else { return first }
            displace(id)
            return ask(input, sender)
        default: return first
        }
    }

    private func ask(_ input: borrowing ByteBuffer, _ sender: SocketAddress) -> UDPListenerCore.Decision {
        core.hasRoom = queue.hasRoom
        return sender.withIdentity { identity in
            core.receive(
                input,
                from: identity,
                network: sender.network.hashValue,
                now: Instant(nanoseconds: loop.now),
                random: &random,
                reply: &reply
            )
        }
    }

    // MARK: Sending

    /// Sends for one session. If the socket is full, the session is notified when there is room again.
    func send(_ bytes: UnsafeRawBufferPointer, for channel: UDPSessionChannel) -> IOResult {
        let result = writing.isFull ? .wouldBlock : transmit(bytes, for: channel)
        writing.isFull = result == .wouldBlock
        if result == .wouldBlock, !channel.isBlocked {
            channel.isBlocked = true
            writing.blocked.append(channel)
        }
        return result
    }

    private func transmit(_ bytes: UnsafeRawBufferPointer, for channel: UDPSessionChannel) -> IOResult {
        guard let client = channel.client else { return socket.send(bytes, to: channel.address) }
        return client.association?.write(bytes) ?? .end
    }

    /// Closes the acceptor. The sessions share the socket, so it stays open until the last of them has ended. New
    /// sessions are not accepted any more.
    func close(endConnections: Bool) {
        guard !isClosed else { return }
        if endConnections {
            for session in sessions.values { session.driver.beginClose(.user) }
        }
        isClosed = true
        tls?.onFailure = nil
        dtls?.isClosed = true
        for session in sessions.values where session.driver.phase == .draining { session.driver.flushIfRequested() }
        closeIfOver()
    }

    func closeIfOver() {
        guard isClosed, sessions.isEmpty else { return }
        writing.blocked = []
        dtls?.close()
        socket.close()
        emptyWaiters.resumeAll(returning: ())
    }

    var isEmpty: Bool { sessions.isEmpty }
}

// The beginning and the end of sessions of a shared socket, and their limit on memory.

extension UDPAcceptor {
    func accept(_ session: UDPCore, _ input: inout ByteBuffer, from sender: SocketAddress) {
        let id = session.connectionID
        let client = dtls?.client(at: sender)
        guard !isClosed, queue.hasRoom, dtls == nil || client != nil else {
            return core.remove(id, now: Instant(nanoseconds: loop.now))
        }
        let channel = UDPSessionChannel(self, sender, session, client)
        if let client { dtls?.opened(id, of: client) }
        let driver = ConnectionDriver(session, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        sessions[id] = (driver, channel)
        driver.start()
        driver.deliver(datagram: &input, from: sender, to: channel)
    }

    /// Ends the sessions of an association that has ended.
    func associationEnded(_ client: DTLSClient, _ failure: TLSFailure?) {
        for id in client.sessions {
            guard let driver = sessions[id]?.driver else { continue }
            if let failure { driver.brokenByTLS(failure) } else { driver.inputEnded() }
        }
    }

    /// Ends a session at once to make room for a new one.
    func displace(_ id: UInt64) {
        core.remove(id, now: Instant(nanoseconds: loop.now))
        guard let driver = sessions[id]?.driver else { return }
        let error = TransportError.tooMany("the server is full, and this client was silent longest", .open)
        isDisplacing = true
        driver.abandon(CloseReason(.user, code: ClosePayload.tryAgainLater, text: error.reason, error: error))
        isDisplacing = false
        // The close frame is sent now, because the channel is closed in the next line.
        driver.flushIfRequested()
        driver.close(abort: true)
    }

    /// Beyond the limit on the memory of all sessions, ends the sessions with the most memory until an eighth of the
    /// limit is free.
    func memoryChanged(by bytes: Int) {
        bufferedBytes += bytes
        total?.changed(by: bytes)
        guard bytes > 0, bufferedBytes > core.maximumHeld else { return }
        // Sessions with less than half of the average have less than half of all memory together.
        let much = bufferedBytes / max(1, sessions.count) / 2
        var most: [ConnectionDriver] = []
        for session in sessions.values where session.driver.bufferedBytes >= much { most.append(session.driver) }
        most.sort { $0.bufferedBytes > $1.bufferedBytes }
        for driver in most where bufferedBytes > core.maximumHeld / 8 * 7 { relieve(of: driver) }
    }

    private func relieve(of driver: ConnectionDriver) {
        let sentence = "the server buffers too much, and the most for this client"
        let error = TransportError(.resourcesExhausted, .open, sentence)
        if driver.phase == .draining {
            driver.close(abort: true)
        } else {
            driver.abandon(CloseReason(.user, code: ClosePayload.tryAgainLater, text: error.reason, error: error))
            driver.reportBufferedBytes()
        }
    }

    func join(_ total: BufferedTotal) {
        self.total = total
        total.add(self, keeping: bufferedBytes, limit: core.maximumHeld)
    }

    var largestBuffered: Int { sessions.values.reduce(0) { max($0, $1.driver.bufferedBytes) } }

    func endLargest(_: Int) {
        if let largest = sessions.values.max(by: { $0.driver.bufferedBytes < $1.driver.bufferedBytes }) {
            relieve(of: largest.driver)
        }
    }

    func closed(_ driver: ConnectionDriver) {
        guard let session = driver.core as? UDPCore else { return }
        let ended = sessions.removeValue(forKey: session.connectionID)
        core.remove(session.connectionID, now: Instant(nanoseconds: loop.now))
        if let client = ended?.channel.client { dtls?.closed(session.connectionID, of: client) }
        closeIfOver()
    }

    // MARK: Events for the owner

    /// Reports the end of a session. A client with forged addresses can open and leave plain sessions as often as it
    /// likes, and can displace sessions, so events of both kinds are limited.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool) {
        // If this was the last session of a closed socket, the caller may bind its address again. So the close frame is
        // sent before the caller continues.
        if isClosed { loop.execute { [driver = LoopBound(driver, to: loop)] in driver.value.flushIfRequested() } }
        guard core.isPlain || isDisplacing, let code = reason.error?.code else {
            return queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
        }
        events.note(
            .sessions(code),
            EventRateLimiter.Event(client: driver.channel.peer, reason: reason, wasOpen: wasOpen)
        )
    }

    /// Reports a datagram that was refused.
    func note(_ reason: UDPListenerCore.DropReason, _ sender: SocketAddress) {
        events.note(.datagrams(reason), EventRateLimiter.Event(client: sender, reason: CloseReason(reason.error)))
    }
}
