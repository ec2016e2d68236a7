import Protocols
import SocketIO
import TransportAPI

/// Runs one protocol core over one channel: moves bytes between them, keeps the core's deadline, delivers its events, and
/// lets every waiting operation end exactly once. Lives on its loop; ``CoreConnection`` is its face for everybody else.
package final class ConnectionDriver: PollHandler, ScheduledHandler {
    /// The life of a connection. It only ever moves down this list.
    enum Phase {
        /// The handshake is under way.
        case opening
        case open
        /// The connection has ended for its users; its last bytes are being handed over.
        case draining
        case closed
    }

    // All state is touched on the loop only, and no core calls back while it runs, so that overlapping accesses
    // can't happen; looking for them took a tenth of the time of a message. Nothing refers to a driver weakly, for the side
    // table that the first weak reference makes slows every later retain; ``close(abort:)`` cuts the cycles instead.
    package let loop: EventLoop
    /// Tells it from all others of its loop.
    package let number: UInt64
    @exclusivity(unchecked) var core: any ProtocolCore
    @exclusivity(unchecked) var context: CoreContext
    let channel: any ByteChannel
    let limits: ConnectionLimits
    @exclusivity(unchecked) var phase = Phase.opening
    /// Why the connection ended, once it has.
    @exclusivity(unchecked) package var reason: CloseReason?
    /// Receives events in place of the inbox, for servers.
    @exclusivity(unchecked) var handler: (any ConnectionHandler)?
    /// Who keeps this driver, for servers; `nil` once the channel is closed.
    @exclusivity(unchecked) var owner: (any DriverOwner)?
    /// Is told what only this connection's protocol has, beside the handler.
    @exclusivity(unchecked) var onSignal: ((any CoreSignal) -> Void)?
    @exclusivity(unchecked) var discards = DiscardedMessages()

    @exclusivity(unchecked) var inbox: Inbox
    @exclusivity(unchecked) var waiting = PendingOperations()
    @exclusivity(unchecked) var statistics = ConnectionStatistics()
    let started: Int64
    let confirmsReceipt: Bool
    /// Whether messages may be acknowledged (``ProtocolCore/acknowledges``).
    let acknowledges: Bool
    /// How many messages were given to the receiver, who is not known to be done with them; see
    /// ``ProtocolCore/confirmReceipt(_:)``.
    @exclusivity(unchecked) var unconfirmed = 0
    /// Whether the receiver says when it is done with a message (``confirm(_:)``), and not by asking for the next one.
    @exclusivity(unchecked) var isConfirmedByHand = false

    @exclusivity(unchecked) package var schedule = ScheduleEntry()
    @exclusivity(unchecked) var share = TimeShare()
    @exclusivity(unchecked) var reading = ReadState()
    @exclusivity(unchecked) var writing = WriteState()
    @exclusivity(unchecked) var closing = CloseState()
    /// The memory that the owner was last notified of, in bytes.
    @exclusivity(unchecked) var bufferedBytes = 0
    @exclusivity(unchecked) private var timer: (id: UInt64, deadline: Int64)?
    /// The deadline of the phase itself: for the handshake, the close, and the last bytes.
    @exclusivity(unchecked) var phaseDeadline: Int64?

    init(
        _ core: any ProtocolCore,
        over channel: any ByteChannel,
        on loop: EventLoop,
        limits: ConnectionLimits = ConnectionLimits(),
        started: Int64 = MonotonicClock.now()
    ) {
        self.loop = loop
        number = loop.newNumber()
        self.core = core
        self.channel = channel
        self.limits = limits
        self.started = started
        confirmsReceipt = core.confirmsReceipt
        acknowledges = core.acknowledges
        inbox = Inbox(limits)
        context = CoreContext(now: Instant(nanoseconds: loop.now), random: .system())
    }

    // MARK: From the loop

    /// Registers with the loop and lets the core begin.
    func start() {
        do {
            try channel.attach(self)
        } catch {
            return end(TransportError(error, .connect), abort: true)
        }
        enterCore()
        core.start(&context)
        pump()
    }

    package func ready(_ readiness: Readiness) {
        channel.note(readiness)
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
    }

    package func run(_ queue: LoopQueue) {
        switch queue {
        case .tickEnd: flushIfRequested()
        case .lowPriority:
            flushIfRequested()
            // A datagram that came alone is answered by now. One that has come meanwhile is not.
            if reading.isReadable, channel.isDatagram { readWhilePossible() }
        case .deferred: runShare()
        }
    }

    // MARK: Deadlines

    private var deadline: Int64? {
        guard phase == .opening || phase == .open, let core = core.deadline?.nanoseconds else { return phaseDeadline }
        return phaseDeadline.map { min($0, core) } ?? core
    }

    /// Keeps one timer, at or before the earliest deadline: one that moved away is noticed when the timer fires.
    func armTimer() {
        guard phase != .closed, let deadline else { return }
        if let timer {
            guard deadline < timer.deadline else { return }
            loop.cancel(timer: timer.id)
        }
        timer = (loop.schedule(at: deadline) { [self] in timerFired() }, deadline)
    }

    func cancelTimer() {
        if let timer { loop.cancel(timer: timer.id) }
        timer = nil
    }

    private func timerFired() {
        timer = nil
        guard phase != .closed else { return }
        // What the peer has taken by now counts for the core's deadline as well.
        lookAfterClose()
        let isCoreDue =
            (phase == .opening || phase == .open) && core.deadline.map { $0.nanoseconds <= loop.now } ?? false
        if !isCoreDue, let phaseDeadline, phaseDeadline <= loop.now { phaseDeadlineReached() }
        if isCoreDue {
            enterCore()
            if reading.isReadable || reading.pauses.contains(.fullInbox) || !mayRead { noteUnread() }
            do throws(TransportError) {
                try core.deadlineReached(&context)
            } catch {
                end(error)
            }
            pump()
        }
        armTimer()
    }

    /// Until now, received bytes may not have been read.
    func noteUnread() {
        context.unreadUntil = Instant(nanoseconds: loop.now)
    }

    private func phaseDeadlineReached() {
        switch phase {
        case .opening: end(TransportError(.timedOut, .handshake, "the handshake was not complete in time"), abort: true)
        case .open where isClosing, .draining where isClosing: closeTimerFired()
        case .draining: close(abort: true)
        case .open, .closed: phaseDeadline = nil
        }
    }
}
