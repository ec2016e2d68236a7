import SocketIO
import TransportAPI

/// Serves all clients of one UDP socket: asks the listener core about each datagram, and hands it to its session. Lives on
/// its loop.
final class UDPAcceptor: PollHandler, LinkOwner, Acceptor {
    /// How many datagrams are taken in a row, so that in a flood answers still leave and timers still ring.
    private static let datagramsInARow = 128

    private let loop: EventLoop
    private let socket: DatagramSocket
    private let limits: LinkLimits
    private let handler: any LinkHandler
    private let queue: AcceptQueue
    private var core: UDPListenerCore
    private let batch: DatagramBatch
    private var random = RandomSource.system()
    private var sessions: [UInt64: (driver: LinkDriver, channel: UDPSessionChannel)] = [:]
    private var memory: SessionMemory
    private var blocked: [UDPSessionChannel] = []
    private var isClosed = false
    private var isGoingOn = false

    init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: LinkLimits,
        handler: any LinkHandler,
        core: UDPListenerCore
    ) throws(SystemError) {
        socket = try DatagramSocket(boundTo: address, on: loop)
        self.loop = loop
        self.limits = limits
        self.handler = handler
        self.queue = queue
        self.core = core
        batch = DatagramBatch(largest: core.largestDatagram)
        memory = SessionMemory(limit: core.maximumHeld)
        try socket.attach(self)
    }

    var port: UInt16? { socket.local?.port }

    func ready(_ readiness: Readiness) {
        if readiness.contains(.write) {
            let waiting = blocked
            blocked = []
            for channel in waiting { channel.writable() }
        }
        if readiness.contains(.read) { readAll() }
    }

    private func readAll() {
        var input = ByteBuffer(adopting: loop.scratch.take(), capacity: ScratchPool.blockSize)
        var reply = ByteBuffer()
        var left = Self.datagramsInARow
        while left > 0, !isClosed || !sessions.isEmpty, case .bytes = socket.receive(into: batch) {
            while batch.takeNext({ input.append(contentsOf: $0) }) != nil {
                if let sender = batch.lastSender, !input.isEmpty { take(&input, from: sender, reply: &reply) }
                input.removeAll()
                left -= 1
            }
            if batch.wasLast { break }
        }
        if left <= 0 { goOnLater() }
        if let block = input.surrender(size: ScratchPool.blockSize) { loop.scratch.give(block) }
    }

    /// A timer, unlike a job, leaves the turn to the others first.
    private func goOnLater() {
        guard !isGoingOn else { return }
        isGoingOn = true
        _ = loop.schedule(at: loop.now) { [self] in
            isGoingOn = false
            readAll()
        }
    }

    private func take(_ input: inout ByteBuffer, from sender: SocketAddress, reply: inout ByteBuffer) {
        let now = Instant(nanoseconds: loop.now)
        core.hasRoom = queue.hasRoom
        let decision = sender.withIdentity { identity in
            core.receive(input, from: identity, now: now, random: &random, reply: &reply)
        }
        switch decision {
        case .session(let id):
            if let session = sessions[id] {
                session.driver.deliver(datagram: &input, from: sender, to: session.channel)
                if session.channel.isReliable { account(id) }
            }
        case .accept(let session): accept(session, &input, from: sender)
        case .reply where isClosed: break
        case .reply: _ = reply.withUnsafeReadableBytes { socket.send($0, to: sender) }
        case .drop: break
        }
    }

    private func accept(_ session: UDPCore, _ input: inout ByteBuffer, from sender: SocketAddress) {
        let id = session.connectionID
        guard !isClosed, queue.hasRoom else { return core.remove(id, now: Instant(nanoseconds: loop.now)) }
        let channel = UDPSessionChannel(self, sender, session)
        let driver = LinkDriver(session, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        sessions[id] = (driver, channel)
        driver.start()
        driver.deliver(datagram: &input, from: sender, to: channel)
    }

    /// Ends those sessions that hold the most if all of them hold too much.
    private func account(_ id: UInt64) {
        memory.set(id, heldBytes(id))
        guard memory.isExceeded else { return }
        for id in memory.excess(heldBytes) {
            let reason = CloseReason(.user, code: Goodbye.tryAgainLater, text: "the server holds too much")
            sessions[id]?.driver.abandon(reason)
        }
    }

    private func heldBytes(_ id: UInt64) -> Int {
        (sessions[id]?.driver.core as? UDPCore)?.reliable?.receiver.held ?? 0
    }

    func ended(_ driver: LinkDriver, _ reason: CloseReason, wasOpen: Bool) {
        queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
    }

    func closed(_ driver: LinkDriver) {
        if let core = driver.core as? UDPCore { forget(core.connectionID) }
    }

    private func forget(_ id: UInt64) {
        sessions[id] = nil
        memory.set(id, 0)
        core.remove(id, now: Instant(nanoseconds: loop.now))
        if isClosed && sessions.isEmpty { socket.close() }
    }

    /// Sends for one session; one that finds the socket full is told when it has room again.
    func send(_ bytes: UnsafeRawBufferPointer, for channel: UDPSessionChannel) -> IOResult {
        let result = socket.send(bytes, to: channel.address)
        if result == .wouldBlock, !blocked.contains(where: { $0 === channel }) { blocked.append(channel) }
        return result
    }

    /// Sessions share the socket, so it is open until the last of them has ended; new ones are no longer answered.
    func close(endLinks: Bool) {
        guard !isClosed else { return }
        if endLinks {
            for session in sessions.values { session.driver.beginClose(.user) }
        }
        isClosed = true
        if sessions.isEmpty { socket.close() }
    }
}

extension LinkDriver {
    /// Takes a datagram of this session from the acceptor, and answers its sender from now on.
    fileprivate func deliver(
        datagram: inout ByteBuffer,
        from sender: SocketAddress,
        to session: UDPSessionChannel
    ) {
        guard phase == .opening || phase == .open else { return }
        session.heard(datagram, from: sender, now: Instant(nanoseconds: loop.now), random: &context.random)
        swap(&input, &datagram)
        pump()
        swap(&input, &datagram)
    }
}
