import SocketIO
import TransportAPI

/// Serves all clients of one UDP socket: asks the listener core about each datagram, and hands it to its session. Lives on
/// its loop.
final class UDPAcceptor: PollHandler, LinkOwner, Acceptor {
    private let loop: EventLoop
    private let socket: DatagramSocket
    private let limits: LinkLimits
    private let handler: any LinkHandler
    private let queue: AcceptQueue
    private var core: UDPListenerCore
    private let batch: DatagramBatch
    private var random = RandomSource.system()
    private var sessions: [UInt64: (driver: LinkDriver, channel: UDPSessionChannel)] = [:]
    private var blocked: [UDPSessionChannel] = []
    private var isClosed = false

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

    private func readAll() {
        var input = ByteBuffer(adopting: loop.scratch.take(), capacity: ScratchPool.blockSize)
        var reply = ByteBuffer()
        while !isClosed || !sessions.isEmpty, case .bytes = socket.receive(into: batch) {
            while batch.takeNext({ input.append(contentsOf: $0) }) != nil {
                if let sender = batch.lastSender, !input.isEmpty { take(&input, from: sender, reply: &reply) }
                input.removeAll()
            }
            if batch.wasLast { break }
        }
        if let block = input.surrender(size: ScratchPool.blockSize) { loop.scratch.give(block) }
    }

    private func take(_ input: inout ByteBuffer, from sender: SocketAddress, reply: inout ByteBuffer) {
        let now = Instant(nanoseconds: loop.now)
        let decision = sender.withIdentity { identity in
            core.receive(input, from: identity, now: now, random: &random, reply: &reply)
        }
        switch decision {
        case .session(let id):
            if let session = sessions[id] {
                session.driver.deliver(datagram: &input, from: sender, to: session.channel)
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
        let channel = UDPSessionChannel(self, sender)
        let driver = LinkDriver(session, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        sessions[id] = (driver, channel)
        driver.start()
        driver.deliver(datagram: &input, from: sender, to: channel)
    }

    func ended(_ driver: LinkDriver, _ reason: CloseReason, wasOpen: Bool) {
        queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
    }

    func closed(_ driver: LinkDriver) {
        if let core = driver.core as? UDPCore { forget(core.connectionID) }
    }

    private func forget(_ id: UInt64) {
        sessions[id] = nil
        core.remove(id, now: Instant(nanoseconds: loop.now))
        if isClosed && sessions.isEmpty { socket.close() }
    }

    /// Sends for one session; one that finds the socket full is told when it has room again.
    fileprivate func send(_ bytes: UnsafeRawBufferPointer, for channel: UDPSessionChannel) -> IOResult {
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

/// One session's part of a shared socket.
final class UDPSessionChannel: LinkChannel {
    private let acceptor: UDPAcceptor
    /// Where the session's datagrams came from last.
    private(set) var address: SocketAddress
    /// Whether that has proved to receive what is sent there.
    private var path = PathValidation()
    /// The last address that has.
    private var provedAddress: SocketAddress
    /// The session's driver, until it closes the channel.
    private var handler: (any PollHandler)?
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private var datagramsSent: UInt64 = 0
    private var datagramsReceived: UInt64 = 0

    init(_ acceptor: UDPAcceptor, _ address: SocketAddress) {
        self.acceptor = acceptor
        self.address = address
        provedAddress = address
    }

    /// A datagram of the session has come; answers go where it came from.
    func heard(
        _ datagram: borrowing ByteBuffer,
        from sender: SocketAddress,
        now: Instant,
        random: inout RandomSource
    ) {
        bytesReceived += UInt64(datagram.count)
        datagramsReceived += 1
        if sender != address {
            address = sender
            if sender == provedAddress {
                path = PathValidation()
            } else {
                path.changed(now, &random)
            }
        }
        guard !path.isValidated else { return }
        if Datagram.kind(of: datagram) == .pong, path.answered(Datagram.number(of: datagram)) { provedAddress = sender }
        guard let token = path.received(datagram.count, now), let identifier = Datagram.identifier(of: datagram) else {
            return
        }
        var ping = ByteBuffer(capacity: Datagram.pairSize)
        Datagram.append(.ping, identifier, token, to: &ping)
        _ = ping.withUnsafeReadableBytes { send($0) }
    }

    var isDatagram: Bool { true }
    var roundTripsToConnect: Int { 0 }
    var peer: SocketAddress? { address }

    var segmentCounts: SegmentCounts? {
        let headers: UInt64 = address.isIPv6 ? 48 : 28
        return SegmentCounts(
            sent: datagramsSent,
            received: datagramsReceived,
            headerBytes: (datagramsSent + datagramsReceived) * headers
        )
    }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
    }

    func writable() {
        handler?.ready(.write)
    }

    func note(_: Readiness) {}

    /// Datagrams are handed in by the acceptor.
    func read(into _: inout ByteBuffer, atMost _: Int) -> IOResult { .wouldBlock }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { true }

    func flush(_ context: inout CoreContext) -> IOResult {
        DatagramOutput.flush(&context) { datagram in
            // Lost, as the network might have lost it.
            path.maySend(datagram.count) ? send(datagram) : .bytes(0)
        }
    }

    private func send(_ datagram: UnsafeRawBufferPointer) -> IOResult {
        let result = acceptor.send(datagram, for: self)
        if case .bytes(let count) = result {
            bytesSent += UInt64(count)
            datagramsSent += 1
        }
        return result
    }

    func shutdownWriting() -> Bool { false }

    func close(abort _: Bool) {
        handler = nil
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
