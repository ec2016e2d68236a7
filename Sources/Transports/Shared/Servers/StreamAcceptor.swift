import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Accepts TCP connections and runs a server core over each, within the limits of ``ServerLimits``. Lives on its loop.
package final class StreamAcceptor: PollHandler, ScheduledHandler, DriverOwner, Acceptor, BufferKeeper {
    /// The approximate number of connections that may wait in the kernel to be accepted.
    private static let backlog = 1024

    private let loop: EventLoop
    private let socket: ListeningSocket
    private var limits: ConnectionLimits
    let bounds: ServerLimits
    private let tls: ServerTLS?
    private let makeCore: (AcceptedClient) -> any PackageCore
    private let handler: any ConnectionHandler
    private let queue: AcceptQueue
    var live: [UInt64: ConnectionDriver] = [:]
    /// The clients that have sent nothing, or are in their handshake.
    private var silentClients = ClientQueue { $0.isNew }
    private var clientsInHandshake = ClientQueue { !$0.wasOpened }
    /// How many clients are in their handshake, or still read the answer that has ended it: a page or a refusal.
    private var handshakes = 0
    /// The number of the client that came last.
    private var newest: UInt64 = 0
    /// How far the server is with the clients in their handshake, while no other client is accepted; `nil` otherwise.
    private var catchUp: CatchUp?
    /// The input of clients up to this number was processed before the server judged that they are too many.
    private var lastProcessed: UInt64 = 0
    /// How many clients each network has, if that is limited.
    private var perAddress: [SocketAddress.Network: Int] = [:]
    /// How much memory all connections buffer, in bytes.
    private var bufferedBytes = 0
    /// The buffered memory of the connections and of other parts of the server together.
    private var total = BufferedTotal()
    private var isClosed = false
    package var emptyWaiters = Waiters<Void>()
    /// Called when the last connection is closed.
    var onEmpty: (() -> Void)?
    package var schedule = ScheduleEntry()
    private var retry: UInt64?
    var isSweeping = false

    package init(
        _ address: SocketAddress,
        _ queue: AcceptQueue,
        on loop: EventLoop,
        limits: ConnectionLimits,
        bounds: ServerLimits = ServerLimits(),
        tls: ServerTLS? = nil,
        handler: any ConnectionHandler,
        makeCore: @escaping (AcceptedClient) -> any PackageCore
    ) throws(SystemError) {
        socket = try ListeningSocket(boundTo: address, on: loop)
        self.loop = loop
        self.limits = limits
        self.limits.readsOnlyWhileRead = true
        self.bounds = bounds
        self.handler = handler
        self.queue = queue
        self.makeCore = makeCore
        self.tls = tls
        try socket.attach(self)
        total.add(self, keeping: 0, limit: bounds.maximumBuffered)
        queue.onRoom = { [self] in deferRest() }
        tls?.onFailure = { [queue] in queue.note(nil, CloseReason($0), wasOpen: false, count: 0) }
    }

    package var port: UInt16? { socket.local?.port }

    package func ready(_: Readiness) {
        deferRest()
    }

    /// Defers accepting, so that new clients do not delay existing connections.
    private func deferRest() {
        if !isClosed { loop.add(self, to: .deferred) }
    }

    package func run(_ queue: LoopQueue) {
        guard let catchUp else { return acceptWhilePossible() }
        continueCatchUp(catchUp, queue)
    }

    // MARK: New clients

    private func acceptWhilePossible() {
        let end = loop.budgetEnd
        while !isClosed {
            // Ending a connection is as much work as accepting one, so the clock is read after each.
            if handshakes > bounds.maximumHandshakes, let oldest = clientsInHandshake.oldest(among: live) {
                guard oldest.number <= lastProcessed else { return beginCatchUp() }
                hangUp(oldest)
            } else if !acceptNext() {
                return
            }
            guard MonotonicClock.now() < end else { return deferRest() }
        }
    }

    /// Accepts the next connection. Returns `false` if there is none, or no room.
    private func acceptNext() -> Bool {
        guard queue.hasRoom else { return false }
        guard live.count < bounds.maximumConnections || makeRoom() else {
            if silentClients.oldest(among: live) != nil { retryLater() }
            return false
        }
        do throws(SystemError) {
            guard let stream = try socket.accept() else { return false }
            adopt(stream)
            return true
        } catch {
            // Most likely, the process is out of descriptors.
            if makeRoom() { return true }
            retryLater()
            return false
        }
    }

    private func adopt(_ stream: StreamSocket) {
        if let most = bounds.maximumPerAddress, let peer = stream.peer {
            guard perAddress[peer.network, default: 0] < most else {
                stream.close(abort: true)
                let error = TransportError.tooMany("there are \(most) clients from this address already", .connect)
                return queue.note(peer, CloseReason(error), wasOpen: false)
            }
            perAddress[peer.network, default: 0] += 1
        }
        guard let channel = protect(stream) else {
            stream.close(abort: true)
            leave(stream.peer)
            return queue.note(stream.peer, CloseReason(.noEngine), wasOpen: false)
        }
        let driver = ConnectionDriver(makeCore(AcceptedClient(stream)), over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        live[driver.number] = driver
        newest = driver.number
        silentClients.append(driver, among: live)
        clientsInHandshake.append(driver, among: live)
        handshakes += 1
        driver.start()
        if !isSweeping { sweepLater(loop) }
    }

    /// Returns TLS over the stream if the server is encrypted. Returns `nil` without memory.
    private func protect(_ stream: StreamSocket) -> (any ByteChannel)? {
        guard let tls else { return stream }
        return tls.protect(stream)
    }

    /// Ends the client that has been in its handshake longest, because there are too many.
    private func hangUp(_ oldest: ConnectionDriver) {
        let sentence = "more than \(bounds.maximumHandshakes) clients are in their handshake; this is the oldest"
        oldest.end(.tooMany(sentence, .handshake), abort: true)
    }

    /// There are too many clients in their handshake, but the oldest may only wait for this server: for the bytes that it
    /// has sent to be read, or for its turn among the steps of TLS handshakes. So the server catches up with all of
    /// them once before the oldest is ended and another one is accepted.
    private func beginCatchUp() {
        catchUp = CatchUp(newest: newest)
        deferRest()
    }

    private func continueCatchUp(_ now: CatchUp, _ queue: LoopQueue) {
        switch now.stage {
        case .poll:
            catchUp?.stage = .input
            deferRest()
        case .input:
            catchUp?.stage = .handshakes
            loop.add(self, to: .handshake)
        case .handshakes:
            // New clients may have deferred it meanwhile.
            guard queue == .handshake else { return }
            let oldest = clientsInHandshake.oldest(among: live)
            if now.roundsLeft > 0, let oldest, oldest.isDeferred || oldest.schedule.contains(.handshake) {
                catchUp = CatchUp(newest: now.newest, roundsLeft: now.roundsLeft - 1)
            } else {
                (lastProcessed, catchUp) = (now.newest, nil)
            }
            deferRest()
        }
    }

    /// Ends the client that has been connected longest without sending anything, if it has been connected for at
    /// least one second. Returns whether there was one.
    private func makeRoom() -> Bool {
        guard let oldest = silentClients.oldest(among: live), oldest.started < loop.now - 1_000_000_000 else {
            return false
        }
        let phase: TransportError.Phase = oldest.phase == .open ? .open : .handshake
        oldest.end(.tooMany("the server is full, and this client has sent nothing", phase), abort: true)
        return true
    }

    /// Tries again after 100 ms, because the poller does not report the waiting connection again.
    private func retryLater() {
        guard retry == nil else { return }
        retry = loop.schedule(at: loop.now + 100_000_000) { [self] in
            retry = nil
            deferRest()
        }
    }

    // MARK: From drivers

    func opened(_: ConnectionDriver) {
        handshakes -= 1
    }

    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool) {
        // Clients end connections that carry requests as often as they like. Only a mistake of theirs is an event.
        if wasOpen, driver.core.isCarrier, reason.error?.fault != .peer { return }
        queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
    }

    func memoryChanged(by bytes: Int) {
        bufferedBytes += bytes
        total.changed(by: bytes)
    }

    package func join(_ total: BufferedTotal) {
        self.total = total
        total.add(self, keeping: bufferedBytes, limit: bounds.maximumBuffered)
    }

    package var largestBuffered: Int { live.values.reduce(0) { max($0, $1.bufferedBytes) } }

    package func endLargest(_ limit: Int) {
        guard let largest = live.values.max(by: { $0.bufferedBytes < $1.bufferedBytes }) else { return }
        let sentence =
            "the server buffers more than \(limit) bytes, and the most for this connection: \(largest.bufferedBytes)"
        largest.abandonAtOnce(
            TransportError(.resourcesExhausted, largest.isOpening ? .handshake : .open, sentence)
        )
    }

    func closed(_ driver: ConnectionDriver) {
        let wasFull = live.count >= bounds.maximumConnections
        live[driver.number] = nil
        if !driver.wasOpened { handshakes -= 1 }
        leave(driver.channel.peer)
        // Deferred, because this can be called from an event of this connection or another one.
        if wasFull { deferRest() }
        guard live.isEmpty else { return }
        emptyWaiters.resumeAll(returning: ())
        onEmpty?()
    }

    /// Counts one client of this address less.
    private func leave(_ peer: SocketAddress?) {
        guard bounds.maximumPerAddress != nil, let network = peer?.network else { return }
        let left = perAddress[network, default: 1] - 1
        perAddress[network] = left > 0 ? left : nil
    }

    package var isEmpty: Bool { live.isEmpty }

    package func close(endConnections: Bool) {
        guard !isClosed else { return }
        // Clients that are connected but not accepted get a close frame too, unless they connect at this moment.
        var unaccepted = endConnections ? Self.backlog : 0
        while unaccepted > 0, let stream = try? socket.accept() {
            adopt(stream)
            unaccepted -= 1
        }
        isClosed = true
        tls?.onFailure = nil
        queue.onRoom = nil
        if let retry { loop.cancel(timer: retry) }
        socket.close()
        guard endConnections else { return }
        for driver in live.values { driver.beginClose(.user) }
    }
}

/// How far an acceptor has caught up with its clients in their handshake.
private struct CatchUp {
    enum Stage {
        /// Waits for the tick in which the loop learns who has sent something.
        case poll
        /// Waits behind the first input of these clients (``LoopQueue/deferred``).
        case input
        /// Waits behind the steps of their TLS handshakes (``LoopQueue/handshake``).
        case handshakes
    }

    var stage = Stage.poll
    /// The number of the client that came last before it began.
    let newest: UInt64
    /// How often it begins again if the oldest client is not done with what it has sent. That is limited, because a client
    /// may send bytes one by one.
    var roundsLeft = 2
}

/// Some clients of an acceptor, in the order in which they connected. A client that does not belong to them any more never
/// belongs to them again.
struct ClientQueue {
    private let belongs: (ConnectionDriver) -> Bool
    private var numbers = Deque<UInt64>()

    /// Creates an empty queue of the clients for which `belongs` is true.
    init(_ belongs: @escaping (ConnectionDriver) -> Bool) {
        self.belongs = belongs
    }

    /// Adds a client. Removes clients that no longer belong to the queue, once these are the majority.
    mutating func append(_ driver: ConnectionDriver, among live: [UInt64: ConnectionDriver]) {
        if numbers.count > 2 * live.count + 64 { numbers = Deque(numbers.filter { live[$0].map(belongs) ?? false }) }
        numbers.append(driver.number)
    }

    /// Returns the client that connected first.
    mutating func oldest(among live: [UInt64: ConnectionDriver]) -> ConnectionDriver? {
        while let number = numbers.first {
            if let driver = live[number], belongs(driver) { return driver }
            _ = numbers.popFirst()
        }
        return nil
    }
}

extension ConnectionDriver {
    /// Ends the connection and frees its memory, even during its close handshake.
    func abandonAtOnce(_ error: TransportError) {
        if phase == .draining { close(abort: true) } else { end(error, abort: true) }
    }
}

// Ends connections that receive nothing, or whose peers read nothing. All connections share one timer, because a timer
// for each would take too much memory.
extension StreamAcceptor {
    /// Checks all connections again after a quarter of the shorter timeout.
    func sweepLater(_ loop: EventLoop) {
        isSweeping = true
        let timeout = min(bounds.idleTimeout.wholeNanoseconds, bounds.stallTimeout.wholeNanoseconds)
        _ = loop.schedule(at: loop.now + max(timeout / 4, 10_000_000)) { [self] in
            loop.add(Sweep(self, loop), to: .deferred)
        }
    }

    fileprivate func swept(_ loop: EventLoop) {
        isSweeping = false
        if !live.isEmpty { sweepLater(loop) }
    }
}

/// One check of all connections of an acceptor, within the time budgets of several ticks. If many connections went
/// silent together, they are overdue together.
private final class Sweep: ScheduledHandler {
    var schedule = ScheduleEntry()
    /// The number of connections after which the clock is read, if none of them was overdue.
    private static let stretch = 64

    private let acceptor: StreamAcceptor
    private let loop: EventLoop
    /// The connections that are still to be checked.
    private var left: [UInt64]

    init(_ acceptor: StreamAcceptor, _ loop: EventLoop) {
        (self.acceptor, self.loop) = (acceptor, loop)
        left = Array(acceptor.live.keys)
    }

    func run(_: LoopQueue) {
        let end = loop.budgetEnd
        while let number = left.popLast() {
            let wasOverdue = acceptor.live[number]?.endIfOverdue(acceptor.bounds) ?? false
            guard wasOverdue || left.count % Self.stretch == 0, MonotonicClock.now() >= end else { continue }
            return loop.add(self, to: .deferred)
        }
        acceptor.swept(loop)
    }
}

extension ConnectionDriver {
    /// Ends an open connection that has received nothing, or whose peer has read nothing, for too long. Returns whether
    /// it did.
    fileprivate func endIfOverdue(_ bounds: ServerLimits) -> Bool {
        guard phase == .open else { return false }
        if endIfStalled(bounds.stallTimeout) { return true }
        let now = loop.now
        // While output that had to wait still leaves, the client reads it.
        func isIdle() -> Bool {
            let lastSign = max(reading.lastHeard, started, context.outputMoved.nanoseconds)
            return now - lastSign >= bounds.idleTimeout.wholeNanoseconds
        }
        guard isIdle() else { return false }
        readBeforeDeadline()
        compareWithLastDeadline()
        guard phase == .open, isIdle() else { return false }
        let sentence = "nothing has come from the client in \(bounds.idleTimeout)"
        abandon(CloseReason(TransportError(.keepaliveTimeout, .open, sentence)))
        return true
    }

    /// Ends an open connection whose peer has read nothing for so long, although output waits for it. Returns whether it
    /// did.
    func endIfStalled(_ timeout: Duration) -> Bool {
        guard phase == .open, writing.stuckSince != 0, loop.now - writing.stuckSince >= timeout.wholeNanoseconds else {
            return false
        }
        let sentence = "the client has read nothing for \(timeout) while output waits for it"
        end(TransportError(.timedOut, .open, sentence), abort: true)
        return true
    }
}
