import SocketIO
import TransportAPI

/// Serves all clients of one UDP socket: asks the listener core about each datagram, and hands it to its session. Lives on
/// its loop.
///
/// What belongs to sessions is served as it comes, for a share of each turn. Requests for sessions wait in the line of the
/// busy, so that a flood of them holds up nobody who has one.
final class UDPAcceptor: PollHandler, ShareHandler, LinkOwner, Acceptor {
    /// How many datagrams of unknown sessions are answered in one share.
    private static let refusalsInARow = 16

    /// How many shares of a turn emptying a queue that is about to be full may take, since what is not taken out is lost.
    private static let sharesToEmpty: Int64 = 10

    let loop: EventLoop
    let socket: DatagramSocket
    let limits: LinkLimits
    let handler: any LinkHandler
    let queue: AcceptQueue
    var core: UDPListenerCore
    private let batch: DatagramBatch
    private var random = RandomSource.system()
    private var reply = ByteBuffer()
    private var requests = WaitingRequests()
    private var backlog = Backlog()
    private var refusalsLeft = 0
    private var isGoingOn = false
    private var isWaitingForShare = false
    var sessions: [UInt64: (driver: LinkDriver, channel: UDPSessionChannel)] = [:]
    /// What all sessions keep in memory, in bytes.
    var heldBytes = 0
    var meter = NoteMeter()
    var noteTimer: UInt64?
    /// A session is being ended for a newcomer.
    var isDisplacing = false
    private var blocked: [UDPSessionChannel] = []
    var isClosed = false

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

    // MARK: Reading

    private func readAll() {
        var input = ByteBuffer(adopting: loop.scratch.take(), capacity: ScratchPool.blockSize)
        let start = MonotonicClock.now()
        refusalsLeft = Self.refusalsInARow
        while !isClosed || !sessions.isEmpty {
            guard case .bytes = socket.receive(into: batch) else {
                backlog.emptied()
                break
            }
            while batch.takeNext({ input.append(contentsOf: $0) }) != nil {
                if let sender = batch.lastSender, !input.isEmpty { sort(&input, from: sender) }
                input.removeAll()
            }
            if batch.wasLast {
                backlog.emptied()
                break
            }
            let taken = MonotonicClock.now() - start
            guard taken >= EventLoop.share else { continue }
            if !backlog.isOverdue { backlog.left(isFilling: socket.isHalfFull) }
            if !backlog.isOverdue || taken >= Self.sharesToEmpty * EventLoop.share {
                goOnLater()
                break
            }
        }
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

    /// Serves what belongs to a session, and lets requests for one wait.
    private func sort(_ input: inout ByteBuffer, from sender: SocketAddress) {
        guard !core.isPlain, Datagram.isRequest(input) else { return serve(&input, from: sender) }
        guard !backlog.isOverdue, requests.append(input, from: sender) else { return note(.overload, sender) }
        guard !isWaitingForShare else { return }
        isWaitingForShare = true
        loop.runLater(self)
    }

    /// It is the turn of the requests.
    func shareBegins() {
        isWaitingForShare = false
        var input = ByteBuffer(adopting: loop.scratch.take(), capacity: ScratchPool.blockSize)
        let end = MonotonicClock.now() + EventLoop.share
        while let sender = requests.takeFirst(into: &input) {
            serve(&input, from: sender)
            input.removeAll()
            guard MonotonicClock.now() < end else { break }
        }
        if let block = input.surrender(size: ScratchPool.blockSize) { loop.scratch.give(block) }
        guard requests.count > 0 else { return }
        isWaitingForShare = true
        loop.runLater(self)
    }

    private func serve(_ input: inout ByteBuffer, from sender: SocketAddress) {
        switch decision(input, sender) {
        case .session(let id):
            guard let session = sessions[id] else { break }
            guard backlog.serves(&session.channel.part) else { return note(.overload, sender) }
            session.driver.deliver(datagram: &input, from: sender, to: session.channel)
        case .accept(let session): accept(session, &input, from: sender)
        case .reply(let reason):
            if let reason { note(reason, sender) }
            guard !isClosed else { break }
            if reason == .unknownSession {
                guard refusalsLeft > 0, !backlog.isOverdue else { break }
                refusalsLeft -= 1
            }
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
