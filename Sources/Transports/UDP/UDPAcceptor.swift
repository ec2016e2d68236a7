import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Serves all clients of one UDP socket: asks the listener core about each datagram, and hands it to its session. Lives on
/// its loop.
///
/// The socket is emptied in every tick. What comes alone is served at once; otherwise it waits in the sessions' own
/// lines (``FlowQueues``), and requests for sessions in another, which are served in shares of a tick: but for who had
/// nothing waiting, who is served before the next batch is taken (``ReadBudget``).
final class UDPAcceptor: PollHandler, ScheduledHandler, DriverOwner, Acceptor, BufferKeeper {
    let loop: EventLoop
    let socket: DatagramSocket
    let limits: ConnectionLimits
    let handler: any ConnectionHandler
    let queue: AcceptQueue
    // Unchecked exclusivity, because a core calls nobody, and what else is called while one of these changes touches another.
    @exclusivity(unchecked) var core: UDPListenerCore
    private let batch: DatagramBatch
    @exclusivity(unchecked) private var random = RandomSource.system()
    @exclusivity(unchecked) private var reply = ByteBuffer()
    @exclusivity(unchecked) private var requests = WaitingRequests()
    @exclusivity(unchecked) private var waiting = FlowQueues<(bytes: [UInt8], sender: SocketAddress)>()
    @exclusivity(unchecked) private var refusals = ReplyRateLimiter()
    @exclusivity(unchecked) private var isGoingOn = false
    @exclusivity(unchecked) var schedule = ScheduleEntry()
    @exclusivity(unchecked) var sessions: [UInt64: (driver: ConnectionDriver, channel: UDPSessionChannel)] = [:]
    /// What all sessions keep in memory, in bytes.
    @exclusivity(unchecked) var bufferedBytes = 0
    /// What the sessions keep together with other parts of the server, where there are some.
    @exclusivity(unchecked) var total: BufferedTotal?
    var meter = EventRateLimiter()
    var noteTimer: UInt64?
    /// A session is being ended for a newcomer.
    var isDisplacing = false
    /// Who is to be told when the socket has room again.
    private var blocked: [UDPSessionChannel] = []
    /// The socket has no room, of which the loop will tell: nothing is tried until then.
    @exclusivity(unchecked) private var isFull = false
    @exclusivity(unchecked) var isClosed = false
    var emptyWaiters = Waiters<Void>()

    init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: ConnectionLimits,
        handler: any ConnectionHandler,
        core: UDPListenerCore
    ) throws(SystemError) {
        socket = try DatagramSocket(boundTo: address, on: loop)
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.queue = queue
        self.core = core
        batch = DatagramBatch(largest: core.largestDatagram)
        try socket.attach(self)
    }

    var port: UInt16? { socket.local?.port }

    func ready(_ readiness: Readiness) {
        if readiness.contains(.write) {
            isFull = false
            let channels = blocked
            blocked = []
            // Who has filled the socket is the first of them, and goes last, or nobody else would ever find room.
            for channel in channels.dropFirst() + channels.prefix(1) {
                channel.isBlocked = false
                channel.writable()
                sessions[channel.identifier]?.driver.flushIfRequested()
            }
        }
        // What comes while it is emptied anyway waits for that.
        if readiness.contains(.read), !isGoingOn { readAll() }
    }

    // MARK: Reading

    private func readAll() {
        var input = borrowInput()
        var turn = ReadBudget(MonotonicClock.now())
        while !isClosed || !sessions.isEmpty {
            guard case .bytes(let count) = socket.receive(into: batch) else { break }
            // It comes alone as far as is known: nothing waits before it, and the look for more comes behind its answer.
            let isLittle = count == 1 && (batch.wasFirst || batch.wasLast) && waiting.isEmpty
            while batch.takeNext({ input.append(contentsOf: $0) }) != nil {
                if let sender = batch.lastSender, !input.isEmpty { sort(&input, from: sender, isLittle) }
                input.removeAll()
            }
            if waiting.hasFresh { serveFresh(&input, &turn) }
            if batch.wasLast { break }
            if turn.isOver(MonotonicClock.now()) {
                goOnLater()
                break
            }
        }
        giveBack(&input)
        if !waiting.isEmpty || requests.count > 0 { deferRest() }
    }

    /// In the next tick: not in the line of the busy, where what the kernel can't hold meanwhile would be lost.
    private func goOnLater() {
        guard !isGoingOn else { return }
        isGoingOn = true
        _ = loop.schedule(at: loop.now + 1) { [self] in
            isGoingOn = false
            readAll()
        }
    }

    /// Finds out what a datagram is, and serves it or lets it wait.
    private func sort(_ input: inout ByteBuffer, from sender: SocketAddress, _ isLittle: Bool) {
        if !core.isPlain, Datagram.isRequest(input) {
            if !requests.append(input, from: sender) { note(.overload, sender) }
            return
        }
        switch decision(input, sender) {
        case .session(let id) where !isLittle:
            let size = input.count
            // Copied only if there is room.
            let isTaken = waiting.append((input.bytes(at: 0, count: size) ?? [], sender), size: size, of: id) { lost in
                note(.overload, lost.sender)
            }
            if !isTaken { note(.overload, sender) }
        case let decision: carryOut(decision, &input, from: sender)
        }
    }

    private func deferRest() {
        loop.add(self, to: .deferred)
    }

    /// Serves who had nothing waiting, before more is taken from the socket.
    private func serveFresh(_ input: inout ByteBuffer, _ turn: inout ReadBudget) {
        var now = MonotonicClock.now()
        let end = turn.beginServing(now)
        while now < end, let (id, datagram) = waiting.popFresh() {
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

    /// Serves what waits, and requests in turn with it. Not for longer than others may, however much waits: what comes
    /// meanwhile has only the kernel's queue, and who sends more than is worked off loses it by its own line.
    func run(_: LoopQueue) {
        var input = borrowInput()
        let end = loop.budgetEnd
        repeat {
            if let (id, datagram) = waiting.popFirst() { serve(id, datagram, &input) }
            if let sender = requests.takeFirst(into: &input) {
                carryOut(decision(input, sender), &input, from: sender)
                input.removeAll()
            }
        } while (!waiting.isEmpty || requests.count > 0) && MonotonicClock.now() < end
        giveBack(&input)
        if !waiting.isEmpty || requests.count > 0 { deferRest() }
    }

    private func borrowInput() -> ByteBuffer {
        ByteBuffer(adopting: loop.takeBlock(), capacity: ScratchPool.blockSize)
    }

    private func giveBack(_ input: inout ByteBuffer) {
        if let block = input.surrender(size: ScratchPool.blockSize) { loop.giveBlock(block) }
    }

    private func carryOut(_ decision: UDPListenerCore.Decision, _ input: inout ByteBuffer, from sender: SocketAddress) {
        switch decision {
        case .session(let id):
            guard let session = sessions[id] else { break }
            session.driver.deliver(datagram: &input, from: sender, to: session.channel, andFlush: true)
        case .accept(let session): accept(session, &input, from: sender)
        case .reply(let reason):
            if let reason { note(reason, sender) }
            guard !isClosed, reason != .unknownSession || refusals.take(loop.now) else { break }
            // There are few of these; who asks for a session must not wait for those that send much.
            _ = reply.withUnsafeReadableBytes { socket.send($0, to: sender) }
        case .drop(let reason): note(reason, sender)
        }
    }

    /// What is to be done with a datagram, once there is room for a newcomer if any can be made.
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

    /// Sends for one session; one that finds the socket full is told when it has room again.
    func send(_ bytes: UnsafeRawBufferPointer, for channel: UDPSessionChannel) -> IOResult {
        let result = isFull ? .wouldBlock : socket.send(bytes, to: channel.address)
        isFull = result == .wouldBlock
        if result == .wouldBlock, !channel.isBlocked {
            channel.isBlocked = true
            blocked.append(channel)
        }
        return result
    }

    /// Sessions share the socket, so it is open until the last of them has ended; new ones are no longer answered.
    func close(endConnections: Bool) {
        guard !isClosed else { return }
        if endConnections {
            for session in sessions.values { session.driver.beginClose(.user) }
        }
        isClosed = true
        for session in sessions.values where session.driver.phase == .draining { session.driver.flushIfRequested() }
        closeIfOver()
    }

    func closeIfOver() {
        guard isClosed, sessions.isEmpty else { return }
        blocked = []
        socket.close()
        emptyWaiters.resumeAll(returning: ())
    }

    var isEmpty: Bool { sessions.isEmpty }
}

// The sessions of a shared socket: their beginning, their end, and what they may keep together.

extension UDPAcceptor {
    func accept(_ session: UDPCore, _ input: inout ByteBuffer, from sender: SocketAddress) {
        let id = session.connectionID
        guard !isClosed, queue.hasRoom else { return core.remove(id, now: Instant(nanoseconds: loop.now)) }
        let channel = UDPSessionChannel(self, sender, session)
        let driver = ConnectionDriver(session, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        sessions[id] = (driver, channel)
        driver.start()
        driver.deliver(datagram: &input, from: sender, to: channel)
    }

    /// Ends a session at once, so that a newcomer has its place.
    func displace(_ id: UInt64) {
        core.remove(id, now: Instant(nanoseconds: loop.now))
        guard let driver = sessions[id]?.driver else { return }
        let error = TransportError.tooMany("the server is full, and this client was silent for longest", .open)
        isDisplacing = true
        driver.abandon(CloseReason(.user, code: ClosePayload.tryAgainLater, text: error.reason, error: error))
        isDisplacing = false
        // Its goodbye leaves now or never.
        driver.flushIfRequested()
        driver.close(abort: true)
    }

    /// Beyond the bound on all of them, the sessions that keep most have to go, until an eighth of it is free.
    func memoryChanged(by bytes: Int) {
        bufferedBytes += bytes
        total?.changed(by: bytes)
        guard bytes > 0, bufferedBytes > core.maximumHeld else { return }
        // Those that hold less than half as much as the average hold less than half of all.
        let much = bufferedBytes / max(1, sessions.count) / 2
        var most: [ConnectionDriver] = []
        for session in sessions.values where session.driver.bufferedBytes >= much { most.append(session.driver) }
        most.sort { $0.bufferedBytes > $1.bufferedBytes }
        for driver in most where bufferedBytes > core.maximumHeld / 8 * 7 { relieve(of: driver) }
    }

    private func relieve(of driver: ConnectionDriver) {
        let sentence = "the server holds too much, and for this client most"
        let error = TransportError(.resourcesExhausted, .open, sentence)
        if driver.phase == .draining {
            driver.close(abort: true)
        } else {
            driver.abandon(CloseReason(.user, code: ClosePayload.tryAgainLater, text: error.reason, error: error))
            driver.tellMemory()
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
        sessions[session.connectionID] = nil
        core.remove(session.connectionID, now: Instant(nanoseconds: loop.now))
        closeIfOver()
    }

    // MARK: What the owner hears

    /// Whoever can forge addresses opens and leaves plain sessions as often as he likes, and so it is with those that give way.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool) {
        // Whoever has ended the last connection of a closed socket may want its address again: its goodbye leaves
        // before he goes on.
        if isClosed { loop.execute { [driver = LoopBound(driver, to: loop)] in driver.value.flushIfRequested() } }
        guard core.isPlain || isDisplacing, let code = reason.error?.code else {
            return queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
        }
        note(.sessions(code), EventRateLimiter.Note(client: driver.channel.peer, reason: reason, wasOpen: wasOpen))
    }

    /// A datagram was turned away.
    func note(_ reason: UDPListenerCore.DropReason, _ sender: SocketAddress) {
        note(.datagrams(reason), EventRateLimiter.Note(client: sender, reason: CloseReason(reason.error)))
    }

    private func note(_ kind: EventRateLimiter.Kind, _ note: @autoclosure () -> EventRateLimiter.Note) {
        guard queue.isObserved else { return }
        if let note = meter.count(kind, note(), now: loop.now) { tell(note) } else { tellLater() }
    }

    private func tellLater() {
        guard noteTimer == nil, let deadline = meter.deadline else { return }
        noteTimer = loop.schedule(at: deadline) { [self] in
            noteTimer = nil
            for note in meter.due(loop.now) { tell(note) }
            tellLater()
        }
    }

    private func tell(_ note: EventRateLimiter.Note) {
        queue.note(note.client, note.reason, wasOpen: note.wasOpen, count: note.count)
    }
}

extension ConnectionDriver {
    /// Takes a datagram of this session from the acceptor, and answers its sender from now on: when the tick ends, or at once.
    func deliver(
        datagram: inout ByteBuffer,
        from sender: SocketAddress,
        to session: UDPSessionChannel,
        andFlush flushesNow: Bool = false
    ) {
        guard phase == .opening || phase == .open else { return }
        share.isRunning = flushesNow
        reading.lastHeard = loop.now
        session.heard(datagram, from: sender, now: Instant(nanoseconds: loop.now), random: &context.random)
        swap(&reading.input, &datagram)
        pump()
        swap(&reading.input, &datagram)
        share.isRunning = false
        if flushesNow { flushIfRequested() } else { tellMemory() }
    }
}
