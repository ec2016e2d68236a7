import Protocols
import SocketIO
import TransportAPI

/// Runs one protocol core over one channel: moves bytes between them, keeps the core's deadline, delivers its events, and
/// lets every waiting operation end exactly once. Lives on its loop; ``CoreConnection`` is its face for everybody else.
package final class ConnectionDriver: PollHandler, DeferredHandler, TickEndHandler, LowPriorityHandler {
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
    @exclusivity(unchecked) var input = ByteBuffer()
    let channel: any ByteChannel
    let limits: ConnectionLimits
    @exclusivity(unchecked) var phase = Phase.opening
    /// Why the connection ended, once it has.
    @exclusivity(unchecked) package var reason: CloseReason?
    /// Receives events in place of the inbox, for servers.
    @exclusivity(unchecked) var handler: (any ConnectionHandler)?
    /// Who keeps this driver, for servers; `nil` once the channel is closed.
    @exclusivity(unchecked) var owner: (any ConnectionOwner)?
    /// The handler is to be told, once, when little of the output is left.
    @exclusivity(unchecked) package var wantsRoom = false
    /// Is told what only this connection's protocol has, beside the handler.
    @exclusivity(unchecked) var onSignal: ((any CoreSignal) -> Void)?
    /// Is told of messages that were passed over because of their size.
    @exclusivity(unchecked) var onDiscard: ((DiscardedMessage) -> Void)?
    /// Those of them that were before it was.
    @exclusivity(unchecked) var unreported: [DiscardedMessage] = []

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

    @exclusivity(unchecked) var isReadable = false
    /// This connection has had its share of a turn, and waits for the next one.
    @exclusivity(unchecked) var isWaitingForShare = false
    /// When the present share ends; 0 until somebody has looked at the clock, outside of the line.
    @exclusivity(unchecked) var shareEnd: Int64 = 0
    /// Until when this connection counts as busy, because it has had much to say.
    @exclusivity(unchecked) var busyUntil: Int64 = 0
    /// How much is read at a time: less while what is read takes long to work off.
    @exclusivity(unchecked) var readSize = ConnectionDriver.firstReadSize
    /// When the connection brought something last; 0 before it has.
    @exclusivity(unchecked) var lastHeard: Int64 = 0
    /// Since when the far side has taken nothing of what waits for it; 0 while nothing waits.
    @exclusivity(unchecked) var stuckSince: Int64 = 0 {
        didSet { if stuckSince != 0 || oldValue != 0 { context.outputMoved = Instant(nanoseconds: loop.now) } }
    }
    @exclusivity(unchecked) var controlWork = ControlRateMeter()
    /// What the owner was last told of this connection's memory, in bytes.
    @exclusivity(unchecked) var bufferedBytes = 0
    /// Something has come since the connection was open.
    @exclusivity(unchecked) var hasSpoken = false
    /// How far the close has come that this side has begun; `nil` before.
    @exclusivity(unchecked) var closing: CloseProgress?
    /// How many bytes were accepted and not delivered, once the connection has ended.
    @exclusivity(unchecked) var undeliveredAtEnd = 0
    /// A full inbox has stopped the reading.
    @exclusivity(unchecked) var isStalled = false {
        didSet { if !isStalled { noteUnread() } }
    }
    /// Too much output that the far side does not read has.
    @exclusivity(unchecked) var isPausedForWrites = false {
        didSet { if !isPausedForWrites { noteUnread() } }
    }
    /// The handler has stopped the reading.
    @exclusivity(unchecked) var isHeld = false
    @exclusivity(unchecked) var isPumping = false
    /// What was delivered last was much work.
    @exclusivity(unchecked) var isMuchWork = false
    /// Something has been sent since something was read; counts round trips until the connection is open.
    @exclusivity(unchecked) var isWaitingForAnswer = false
    @exclusivity(unchecked) var flushRequested = false
    /// The memory is to be told when this turn ends, though nothing is flushed then.
    @exclusivity(unchecked) var isTellRequested = false
    /// How much output has left before its turn was over (``flushAhead()``), in bytes.
    @exclusivity(unchecked) var sentAhead = 0
    /// The output that is to be flushed may wait for that of others.
    @exclusivity(unchecked) var isFlushPatient = false
    @exclusivity(unchecked) var isInPatientLine = false
    /// The connection has its share of the turn just now.
    @exclusivity(unchecked) var isInShare = false
    @exclusivity(unchecked) private var timer: (id: UInt64, deadline: Int64)?
    @exclusivity(unchecked) var ownDeadline: Int64?

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
            isReadable = true
            if mustStandInLine {
                waitForShare()
            } else {
                shareEnd = 0
                readWhilePossible()
            }
        }
        if readiness.contains(.write), !context.output.isEmpty { requestFlush() }
    }

    package func tickEnded() {
        // It may have been done in the meantime, more urgently.
        guard flushRequested || isTellRequested else { return }
        isTellRequested = false
        if flushRequested {
            flushRequested = false
            sentAhead = 0
            flush()
        }
        tellMemory()
    }

    // MARK: Deadlines

    private var deadline: Int64? {
        guard phase == .opening || phase == .open, let core = core.deadline?.nanoseconds else { return ownDeadline }
        return ownDeadline.map { min($0, core) } ?? core
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
        if !isCoreDue, let ownDeadline, ownDeadline <= loop.now { ownDeadlineReached() }
        if isCoreDue {
            enterCore()
            if isReadable || isStalled || !mayRead { noteUnread() }
            do throws(TransportError) {
                try core.deadlineReached(&context)
            } catch {
                end(error)
            }
            pump()
        }
        armTimer()
    }

    /// Until now, what the far side has said may not have been read.
    private func noteUnread() {
        context.unreadUntil = Instant(nanoseconds: loop.now)
    }

    private func ownDeadlineReached() {
        switch phase {
        case .opening: end(TransportError(.timedOut, .handshake, "the handshake was not complete in time"), abort: true)
        case .open where isClosing, .draining where isClosing: closeTimerFired()
        case .draining: close(abort: true)
        case .open, .closed: ownDeadline = nil
        }
    }
}
