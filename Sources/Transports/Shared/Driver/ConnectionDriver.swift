import Protocols
import SocketIO
import TransportAPI

/// Runs one protocol core over one channel. It moves bytes between them, schedules the core's deadline, delivers its
/// events, and ends every waiting operation exactly once. Lives on its loop. Callers on other threads use
/// ``CoreConnection``.
package final class ConnectionDriver: PollHandler, ScheduledHandler {
    /// The phases of a connection. A connection moves through this list in order, and can skip phases.
    enum Phase {
        /// The channel's own handshake is in progress, such as that of TLS.
        case securing
        /// The core was started, and its handshake is in progress.
        case opening
        /// The handshake is complete, and messages are sent and received.
        case open
        /// The connection has ended for its users. Its last bytes are being passed to the kernel.
        case draining
        /// The channel is closed.
        case closed
    }

    /// The deadlines of a connection, and the timer for the earliest one.
    struct DeadlineState {
        /// The deadline of the phase itself: for the handshake, the close, and the last bytes.
        var phase: Int64?
        /// At a client, when the whole attempt ends.
        var attempt: Int64?
        fileprivate var timer: (id: UInt64, deadline: Int64)?
        fileprivate var grace = GracePeriod()
        fileprivate var last = LastDeadline()
    }

    /// The consequences if the connection ends before the peer has sent anything.
    struct UnansweredState {
        /// Called unless this side has ended the connection.
        var action: (() -> Void)?
        /// At a client over streams, what to add to the error.
        var hint: UnansweredHint?
    }

    // All state is accessed on the loop only, and no core calls back while it runs. So accesses never overlap, and a
    // check for overlaps would take a tenth of the time of a message. There are no weak references to a driver, because
    // the side table of the first weak reference slows every later retain. ``close(abort:)`` breaks the reference
    // cycles instead.
    package let loop: EventLoop
    /// Identifies the connection among all others of its loop.
    package let number: UInt64
    @exclusivity(unchecked) package internal(set) var core: any PackageCore
    @exclusivity(unchecked) var context: CoreContext
    let channel: any ByteChannel
    /// Whether the channel carries datagrams.
    let isDatagram: Bool
    let limits: ConnectionLimits
    @exclusivity(unchecked) var phase = Phase.securing
    /// Whether the connection is or was open.
    @exclusivity(unchecked) var wasOpened = false
    /// The reason of the end; `nil` before the end.
    @exclusivity(unchecked) package var reason: CloseReason?
    /// Receives events in place of the inbox, for servers.
    @exclusivity(unchecked) var handler: (any ConnectionHandler)?
    /// The object that keeps this driver alive, for servers; `nil` once the channel is closed.
    @exclusivity(unchecked) var owner: (any DriverOwner)?
    /// Receives events that only this connection's protocol has, in addition to the handler.
    @exclusivity(unchecked) var onSignal: ((any CoreSignal) -> Void)?
    /// Whether a request of the owner other than a message waits for its answer, which may come after messages.
    @exclusivity(unchecked) var isAwaitingAnswer = false

    @exclusivity(unchecked) var waiting = PendingOperations()
    @exclusivity(unchecked) var statistics = ConnectionStatistics()
    let started: Int64
    /// Whether the core can acknowledge messages (``ProtocolCore/acknowledges``).
    let acknowledges: Bool

    @exclusivity(unchecked) package var schedule = ScheduleEntry()
    @exclusivity(unchecked) var share = TimeShare()
    @exclusivity(unchecked) var reading = ReadState()
    @exclusivity(unchecked) var receiving: ReceiveState
    @exclusivity(unchecked) var writing = WriteState()
    @exclusivity(unchecked) var closing = CloseState()
    @exclusivity(unchecked) var deadlines = DeadlineState()
    @exclusivity(unchecked) var unanswered = UnansweredState()
    /// The memory that the owner was last notified of, in bytes.
    @exclusivity(unchecked) var bufferedBytes = 0

    package init(
        _ core: any PackageCore,
        over channel: any ByteChannel,
        on loop: EventLoop,
        limits: ConnectionLimits = ConnectionLimits(),
        started: Int64 = MonotonicClock.now()
    ) {
        self.loop = loop
        number = loop.newNumber()
        self.core = core
        self.channel = channel
        isDatagram = channel.isDatagram
        self.limits = limits
        self.started = started
        acknowledges = core.acknowledges
        receiving = ReceiveState(inbox: Inbox(limits), receipts: Receipts(areSent: core.confirmsReceipt))
        context = CoreContext(now: Instant(nanoseconds: loop.now), random: .system())
        context.unixTime = WallClock.unixTime()
    }

    /// Whether the connection is not open yet.
    var isOpening: Bool { phase == .securing || phase == .opening }
    /// Whether the connection is open or may become so.
    var isAlive: Bool { isOpening || phase == .open }
    /// Whether the receiver confirms messages (``ProtocolCore/confirmsReceipt``).
    var confirmsReceipt: Bool { receiving.receipts.areSent }

    // MARK: From the loop

    /// Registers with the loop, and starts the core once the channel's own handshake is complete.
    func start() {
        do {
            try channel.attach(self)
        } catch {
            return end(TransportError(error, .connect), abort: true)
        }
        secure()
    }

    /// Takes one step of the channel's own handshake. After the last one, starts the core.
    private func secure() {
        switch channel.advance() {
        case .ready: break
        case .again:
            beginSecureTimeout()
            return loop.add(self, to: .handshake)
        case .waiting: return beginSecureTimeout()
        case .failed(.insecure(let failure)): return end(TransportError(failure, wasOpen: false))
        case .failed(.failed(let error)):
            let place = channel.peer?.description
            return end(TransportError(error, .secure, at: place, isDatagram: isDatagram), abort: true)
        case .failed: return end(TransportError(.connectionLost, .secure, "the connection ended"), abort: true)
        }
        phase = .opening
        context.isEncrypted = channel.encryption != nil
        // The memory of the handshake is free again.
        reportBufferedBytes()
        if let certificate = channel.encryption?.peer { core.clientCertificate = certificate }
        // A client's deadline is for its whole attempt. The handshake of a server's core has its own.
        if owner != nil { deadlines.phase = nil }
        enterCore()
        core.start(&context)
        pump()
        // A session of a shared socket is given its datagrams.
        guard channel.encryption != nil, owner == nil || !isDatagram else { return }
        // The edge of bytes behind the handshake can have been reported already.
        reading.isReadable = true
        if mustDefer { deferWork() } else { readWhilePossible() }
    }

    /// The identity of a client that has sent a certificate. Only a server that requests certificates has such clients.
    var certificateIdentity: Identity? {
        guard owner != nil, let certificate = channel.encryption?.peer else { return nil }
        return certificate.identity
    }

    /// Limits the time of the TLS handshake. At a client, the deadline of the whole attempt is set already.
    private func beginSecureTimeout() {
        if owner != nil, deadlines.phase == nil {
            deadlines.phase = Instant(nanoseconds: started).advanced(by: limits.secureTimeout).nanoseconds
        }
        armTimer()
        reportBufferedBytes()
    }

    package func ready(_ readiness: Readiness) {
        let heldOutput = phase == .draining && channel.holdsOutput
        channel.note(readiness)
        if phase == .securing { return loop.add(self, to: .handshake) }
        if readiness.contains(.read) {
            reading.isReadable = true
            if mustDefer {
                deferWork()
            } else {
                share.end = 0
                readWhilePossible()
            }
        }
        if readiness.contains(.write), !context.output.isEmpty { requestFlush() }
        if heldOutput, phase == .draining, context.output.isEmpty, !channel.holdsOutput { finishDraining() }
    }

    package func run(_ queue: LoopQueue) {
        switch queue {
        case .tickEnd: flushIfRequested()
        case .lowPriority:
            flushIfRequested()
            // The previous datagram is answered by now. A datagram that has come since is read here.
            if reading.isReadable, isDatagram { readWhilePossible() }
        case .deferred: runShare()
        case .handshake: if phase == .securing { secure() }
        }
    }

    // MARK: Deadlines

    private var deadline: Int64? {
        guard isAlive, let core = core.deadline?.nanoseconds else { return deadlines.phase }
        return deadlines.phase.map { min($0, core) } ?? core
    }

    /// Keeps one timer, at or before the earliest deadline. A deadline that moved to a later time is noticed when the
    /// timer fires.
    func armTimer() {
        guard phase != .closed, let deadline else { return }
        if let timer = deadlines.timer {
            guard deadline < timer.deadline else { return }
            loop.cancel(timer: timer.id)
        }
        deadlines.timer = (loop.schedule(at: deadline) { [self] in timerFired() }, deadline)
    }

    func cancelTimer() {
        if let timer = deadlines.timer.take() { loop.cancel(timer: timer.id) }
    }

    private func timerFired() {
        deadlines.timer = nil
        if let deadline, deadline <= loop.now { readBeforeDeadline() }
        guard phase != .closed else { return }
        // Bytes that the peer has taken by now count for the core's deadline too.
        updateCloseProgress()
        let isCoreDue =
            isAlive && core.deadline.map { $0.nanoseconds <= loop.now } ?? false
        if !isCoreDue, let deadline = deadlines.phase, deadline <= loop.now { phaseDeadlineReached() }
        if isCoreDue {
            compareWithLastDeadline()
            enterCore()
            if hasUnread || hasNotRun { noteUnread() }
            do throws(TransportError) {
                try core.deadlineReached(&context)
            } catch {
                end(error)
            }
            pump()
        }
        armTimer()
    }

    /// Finds signs of life that the core does not know, before its deadline is judged.
    ///
    /// Output that was in flight at the last deadline has reached the peer since. Later output does not count: the system
    /// of a peer that answers nothing may acknowledge it for ever. For a client, a part of a TLS record counts too, because
    /// it may contain the answer. A server must not wait for a client that sends its records byte by byte.
    func compareWithLastDeadline() {
        guard !isDatagram else { return }
        let last = deadlines.last
        let this = LastDeadline(
            received: channel.bytesReceived,
            acknowledged: channel.bytesAcknowledged,
            left: context.output.count + channel.unacknowledgedBytes
        )
        deadlines.last = this
        if last.acknowledged < min(this.acknowledged, last.end) {
            context.outputMoved = Instant(nanoseconds: loop.now)
        }
        if owner == nil, this.received > max(last.received, reading.heardBytes) { noteUnread() }
    }

    /// Whether bytes may have arrived that were not read. Datagrams are read even if there is no room for their messages.
    private var hasUnread: Bool {
        reading.isReadable || !mayRead || reading.pauses.contains(.fullInbox) && !isDatagram
    }

    /// Whether the core's deadline is checked so late that this process was stopped, and the peer therefore gets more
    /// time. Its answer may still be in flight.
    private var hasNotRun: Bool {
        guard let due = core.deadline else { return false }
        let lastReceived = Instant(nanoseconds: reading.lastHeard)
        return deadlines.grace.give(due, lastReceived: lastReceived, at: Instant(nanoseconds: loop.now))
    }

    /// Informs the core that received bytes may have been left unread until now.
    func noteUnread() {
        context.unreadUntil = Instant(nanoseconds: loop.now)
    }

    /// Whether anything was received after the channel's own handshake.
    var hasHeard: Bool { reading.lastHeard != 0 }

    private func phaseDeadlineReached() {
        switch phase {
        // The time of a silent peer is over, but this one has sent something.
        case .securing where hasLongerAttempt, .opening where hasLongerAttempt: deadlines.phase = deadlines.attempt
        case .securing:
            // At a client, a failure that was found just before is the reason. At a server, the next step may wait.
            if owner == nil || schedule.contains(.handshake) { secure() }
            guard phase == .securing else { return }
            let sentence = channel.lateHandshake ?? "the TLS handshake was not complete in time"
            end(TransportError(.timedOut, .secure, sentence), abort: true)
        case .opening:
            end(TransportError(.timedOut, .handshake, core.lateHandshake), abort: true)
        case .open where isClosing, .draining where isClosing: closeTimerFired()
        case .draining: close(abort: true)
        case .open, .closed: deadlines.phase = nil
        }
    }

    /// Whether the peer, which has sent something, has until the end of the attempt.
    private var hasLongerAttempt: Bool { hasHeard && (deadlines.attempt ?? .min) > loop.now }
}

/// The numbers of bytes that a stream had received and sent at the last deadline of the core.
private struct LastDeadline {
    var received: UInt64 = 0
    /// How many bytes the peer's kernel had acknowledged, and that number once it has acknowledged all output until then.
    var acknowledged: UInt64 = 0
    var end: UInt64 = 0

    init() {}

    init(received: UInt64, acknowledged: UInt64, left: Int) {
        (self.received, self.acknowledged) = (received, acknowledged)
        end = acknowledged + UInt64(left)
    }
}
