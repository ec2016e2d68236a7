import Protocols
import SocketIO
import TransportAPI

/// The part of the loop's time that one connection uses.
struct TimeShare {
    /// When the current time budget ends, in nanoseconds of ``MonotonicClock``; 0 until the clock was read.
    var end: Int64 = 0
    /// Until when the connection counts as busy, because it has used a whole budget.
    var busyUntil: Int64 = 0
    /// Whether the connection runs now as one of the deferred handlers.
    var isRunning = false
}

/// The input of a connection, and whether it may be read.
struct ReadState: ~Copyable {
    /// Why no events are taken from the core.
    struct Pauses: OptionSet {
        let rawValue: UInt8
        /// The inbox is full.
        static let fullInbox = Pauses(rawValue: 1)
        /// The peer does not read, and so much output waits for it that it may not send more.
        static let fullOutput = Pauses(rawValue: 2)
        /// The handler processes a message of the peer.
        static let handler = Pauses(rawValue: 4)
    }

    /// Received bytes that the core has not consumed.
    var input = ByteBuffer()
    /// The channel can have more to read.
    var isReadable = false
    /// How much is read at a time, in bytes. It is doubled, up to a block of 64 KiB, while a read is processed within a
    /// quarter of a time budget. It is halved, down to 1 KiB, while this takes longer than a whole budget.
    var size = 16 << 10
    /// When bytes were last received; 0 before the first.
    var lastHeard: Int64 = 0
    /// How many bytes the channel had received by then. More of them are a part of a TLS record.
    var heardBytes: UInt64 = 0
    /// Whether bytes were received since the connection opened.
    var hasReceivedBytes = false
    var pauses: Pauses = []
    /// Whether the connection is broken, so that this is the last input.
    var isLast = false
    /// Whether events are being taken from the core.
    var isPumping = false
    /// Whether the last event was much work, so that the clock is read before the next one.
    var mustCheckTime = false
    var controlRate = ControlRateMeter()
}

// One loop serves many connections. A connection that has little to read is served at once. One that fills a whole
// read, or exceeds its time budget, is busy for a while. It continues together with the other busy connections
// (``LoopQueue/deferred``). The first bytes of a server's clients are deferred too, because their load is not known
// yet.
extension ConnectionDriver {
    private static let leastReadSize = 1 << 10
    /// How long a server processes the input of a broken connection, in nanoseconds.
    private static let brokenInputTime: Int64 = 1_000_000
    /// How long a connection stays busy, in nanoseconds.
    private static let busyTime: Int64 = 100_000_000

    /// Runs as one of the deferred handlers until their time budget is used up.
    func runShare() {
        share.end = loop.deferredEnd
        share.isRunning = true
        pump()
        readWhilePossible()
        share.isRunning = false
        if writing.flush != .none { flushIfRequested() }
    }

    /// Whether input is processed with the deferred handlers. This applies to busy connections, and to clients of a
    /// server that have not sent anything since they opened, or that have ended.
    var mustDefer: Bool { isBusy || owner != nil && (!reading.hasReceivedBytes || phase == .draining) }

    /// Whether the peer has not completed its handshake, or has sent nothing at all.
    var isNew: Bool { isOpening || phase == .open && reading.lastHeard == 0 }

    var isBusy: Bool { loop.now < share.busyUntil }

    /// Continues in the next tick, with the other deferred handlers.
    func deferWork() {
        loop.add(self, to: .deferred)
    }

    /// Whether the connection is queued as a deferred handler.
    var isDeferred: Bool { schedule.contains(.deferred) }

    /// Defers the rest. The connection becomes busy, unless it only had what other handlers left of the shared budget,
    /// because that does not show that it has much to process.
    private func yield(at time: Int64 = .max) {
        if !share.isRunning || time - loop.now >= EventLoop.timeBudget / 2 {
            share.busyUntil = loop.now + Self.busyTime
        }
        deferWork()
    }

    /// Yields if this connection has exceeded its time budget. Outside the deferred handlers, the first reading of the
    /// clock starts the budget, so a connection with little work does not read the clock.
    private func yieldIfBudgetIsOver() {
        let time = MonotonicClock.now()
        if share.end == 0 { share.end = time + EventLoop.timeBudget }
        if time >= share.end { yield(at: time) }
    }

    /// Whether events may be taken from the core. While this side closes, a full inbox must not keep the answer to the
    /// close frame from being read. Messages that come then are dropped and counted, as over datagrams.
    var mayRead: Bool {
        (inboxHasRoom && !reading.pauses.contains(.fullOutput) || isClosing || isDatagram) && !isDeferred
            && !reading.pauses.contains(.handler)
    }

    /// Whether another message may be read.
    ///
    /// An app can wait for an acknowledgement before it takes the next message. It must get the acknowledgement even if
    /// messages come before it. In a persistent session their receipts are withheld meanwhile, so a broker soon sends
    /// no more. It also gets the last messages of a broken connection.
    var inboxHasRoom: Bool {
        receiving.inbox.hasRoom || (isAwaitingAcknowledgement || reading.isLast) && receiving.inbox.hasExcessRoom
    }

    private var isAwaitingAcknowledgement: Bool {
        acknowledges && !isDatagram
            && (isAwaitingAnswer || !(waiting.unacknowledged.isEmpty && waiting.blocked.isEmpty))
    }

    /// Continues reading that a full inbox had stopped, because a send now waits for its acknowledgement.
    func readForAcknowledgement() {
        if reading.pauses.contains(.fullInbox), isAwaitingAcknowledgement { deferWork() }
    }

    /// Reads and delivers until the channel is empty, the time budget is used up, or the inbox is full.
    func readWhilePossible() {
        guard !reading.isPumping, !isDeferred else { return }
        // Received messages are delivered before an end that can follow them.
        if reading.pauses.contains(.fullInbox), mayRead {
            resume(.fullInbox)
            pump()
        }
        reads: while reading.isReadable, phase != .closed, mayRead || phase == .draining && !isDeferred {
            if phase == .draining { reading.input.removeAll() }
            reading.input.borrowInput(of: loop)
            let room = min(reading.input.writableCount, reading.size)
            switch readOnce() {
            case .bytes(let count):
                (reading.lastHeard, reading.heardBytes) = (loop.now, channel.bytesReceived)
                if phase == .opening { countRoundTrip() } else { reading.hasReceivedBytes = true }
                if channel.isDrained(afterReading: count, of: room) {
                    reading.isReadable = false
                    if phase != .draining { pump() }
                } else if channel.mayLookLater {
                    if phase != .draining { pump() }
                    runAtLowPriority()
                    break reads
                } else if isBusy || isDatagram {
                    // A second datagram does not make a connection busy.
                    pumpMuch()
                } else {
                    yield()
                }
            case .wouldBlock:
                reading.isReadable = false
            case .end where isDatagram && !channel.hasEnded:
                continue
            case .end:
                reading.isReadable = false
                inputEnded()
            case .failed(let error):
                reading.isReadable = false
                readFailed(error)
            case .insecure(let failure):
                reading.isReadable = false
                brokenByTLS(failure)
            }
        }
        reading.input.returnBlock(to: loop)
        reportBufferedBytes()
    }

    /// Reads once and appends to the input: at most ``ReadState/size`` bytes of a stream, or one whole datagram.
    private func readOnce() -> IOResult {
        var result = IOResult.wouldBlock
        let (least, most) = isDatagram ? (DatagramOutput.largest, .max) : (1, reading.size)
        _ = reading.input.write(minimum: least) { [channel] target in
            let count = min(target.count, most)
            result = channel.read(into: UnsafeMutableRawBufferPointer(start: target.baseAddress, count: count))
            guard case .bytes(let count) = result else { return 0 }
            return count
        }
        return result
    }

    /// Reads and processes input whose turn has not come, because a deadline is about to be checked. After a process was
    /// stopped, the peer's answer has often arrived and was not read.
    func readBeforeDeadline() {
        guard phase == .opening || phase == .open, reading.isReadable || isDeferred else { return }
        let wasDeferred = isDeferred
        schedule.remove(.deferred)
        share.end = 0
        pump()
        readWhilePossible()
        if wasDeferred, writing.flush != .none { flushIfRequested() }
    }

    /// Processes a read that did not empty the channel, measures the time, and adapts the size of the next read.
    private func pumpMuch() {
        let start = MonotonicClock.now()
        if share.end == 0 { share.end = start + EventLoop.timeBudget }
        if phase != .draining { pump() }
        let taken = MonotonicClock.now() - start
        if taken > EventLoop.timeBudget {
            reading.size = max(reading.size / 2, Self.leastReadSize)
        } else if taken < EventLoop.timeBudget / 4 {
            reading.size = min(reading.size * 2, ScratchPool.blockSize)
        }
        if start + taken >= share.end, phase != .closed { yield(at: start + taken) }
    }

    /// Takes events from the core until it has no more, the time budget is used up, or the inbox is full.
    func pump() {
        guard !reading.isPumping, !isDeferred, isAlive else { return }
        reading.isPumping = true
        enterCore()
        var events = 0
        let asked = context.counters.controlWork
        do throws(TransportError) {
            while isAlive, mayRead {
                guard let event = try core.next(&reading.input, &context) else { break }
                deliver(event)
                if reading.mustCheckTime {
                    reading.mustCheckTime = false
                    events |= 3
                }
                events &+= 1
                guard events & 3 == 0, !isDatagram else { continue }
                // A peer that exceeds its control rate is ended now, and not at the end of its time budget.
                if context.counters.controlWork != reading.controlRate.seen { limitControlRate() }
                if owner != nil, !share.isRunning, context.counters.controlWork - asked >= Self.controlWorkAtOnce {
                    yield()
                } else {
                    yieldIfBudgetIsOver()
                }
            }
        } catch {
            end(error)
        }
        reading.isPumping = false
        if context.counters.controlWork != reading.controlRate.seen { limitControlRate() }
        if !inboxHasRoom { reading.pauses.insert(.fullInbox) }
        if limits.readsOnlyWhileRead, context.output.count / 2 >= limits.writeBuffer {
            reading.pauses.insert(.fullOutput)
        }
        if isDatagram { reading.input.removeAll() }
        leaveCore()
    }

    /// Takes no more events until ``release()``, because the handler still processes the last one, which is much work.
    package func hold() {
        reading.pauses.insert(.handler)
        if !share.isRunning { share.busyUntil = loop.now + Self.busyTime }
    }

    /// Continues after the other deferred handlers.
    package func release() {
        guard reading.pauses.contains(.handler) else { return }
        reading.pauses.remove(.handler)
        deferWork()
    }

    /// Ends a pause. Until now, received bytes may not have been read.
    func resume(_ pause: ReadState.Pauses) {
        reading.pauses.remove(pause)
        noteUnread()
    }

    /// Notes that the last event was much work, even if it brought no message. The clock is read before the next event.
    package func noteMuchWork() {
        reading.mustCheckTime = true
    }

    private func countRoundTrip() {
        if writing.isUnanswered { statistics.handshakeRoundTrips += 1 }
        writing.isUnanswered = false
    }

    /// Handles the end of the peer's output.
    func inputEnded() {
        if phase == .draining {
            // The flush that `end` has requested sends the last bytes, or TLS does, which has taken them. Then
            // `finishDraining` reads this end again.
            let isSent = writing.flush == .none && context.output.isEmpty && !channel.holdsOutput
            return isSent ? close(abort: false) : allowTimeForRest()
        }
        guard phase != .closed else { return }
        enterCore()
        do throws(TransportError) {
            deliver(try core.inputEnded(&context))
        } catch {
            end(error)
        }
        leaveCore()
        // Over encrypted datagrams, messages may still be given out before the end.
        if isDatagram { pump() } else if phase == .draining { allowTimeForRest() }
    }

    /// Ends the connection after TLS has. An end without close_notify after the protocol's own close is no error.
    func brokenByTLS(_ failure: TLSFailure) {
        guard isAlive else { return close(abort: false) }
        let reason = closeReasonSoFar() ?? CloseReason(TransportError(failure, wasOpen: phase == .open))
        let left = context.output.count
        end(reason)
        // Nothing more can be sent, except the alert that TLS has written.
        closing.undelivered += left
        context.output.removeAll()
        context.datagramEnds.removeAll()
    }

    private func readFailed(_ error: SystemError) {
        let isTransient = isDatagram && error.number != ECONNREFUSED
        if !isTransient { broken(by: error) }
    }

    /// Handles a failed write. The peer can have sent the reason before, so received input is processed first, for a
    /// limited time.
    func writeFailed(_ error: SystemError) {
        if !isDatagram {
            // A broken connection is not deferred any more; only the clock ends this loop. The buffered input gets more
            // time than the input in the kernel. A client processes all input from its server.
            share.isRunning = true
            reading.isLast = true
            reading.pauses.remove(.fullOutput)
            let end = MonotonicClock.now() + Self.brokenInputTime
            repeat {
                schedule.remove(.deferred)
                share.end = 0
                pump()
            } while isDeferred && phase == .open && (owner == nil || MonotonicClock.now() < end)
            schedule.remove(.deferred)
            share.end = 0
            while isAlive, mayRead {
                reading.input.borrowInput(of: loop)
                let result = readOnce()
                if case .insecure(let failure) = result { brokenByTLS(failure) }
                guard case .bytes = result else { break }
                pumpMuch()
            }
            share.isRunning = false
        }
        broken(by: error)
    }

    /// Ends the connection after an I/O error. A peer that closes while bytes of this side are unread resets the
    /// connection after its close frame. Then the close frame is the reason, not the reset (RFC 6455, section 7.1.5).
    private func broken(by error: SystemError) {
        let ofSystem = TransportError(
            error,
            isOpening ? .handshake : .open,
            at: channel.peer?.description,
            isDatagram: isDatagram
        )
        let failure = CloseReason(channel.failure as? TransportError ?? ofSystem)
        end(closeReasonSoFar() ?? failure, abort: true)
    }

    /// Why the connection ends, if this side has closed it or the peer has sent a close frame with a code. A protocol
    /// that closes by just ending the connection (plain framing, an MQTT broker) has no reason after a reset.
    func closeReasonSoFar() -> CloseReason? {
        guard phase == .open, !isDatagram else { return nil }
        enterCore()
        guard case .closed(let reason)? = try? core.inputEnded(&context) else { return nil }
        return isClosing || reason.code != nil ? reason : nil
    }
}

// Work that a peer requests and that delivers no message: pings, subscriptions, repetitions, empty frames.
extension ConnectionDriver {
    /// How much control work, in one batch of input, defers a client of a server. So clients that reconnect for each
    /// flood do not get a new time budget each time, and they are ended among the deferred handlers.
    static let controlWorkAtOnce: UInt64 = 4

    /// Counts work that the peer has requested, in addition to the count of its core (``CoreCounters/controlWork``).
    package func charge(_ controlWork: UInt64) {
        context.counters.controlWork &+= controlWork
        if !reading.isPumping { limitControlRate() }
    }

    /// Ends a connection whose peer causes too much control work.
    func limitControlRate() {
        // Anyone can send datagrams to the address of a handshake.
        guard reading.controlRate.count(context.counters.controlWork, now: loop.now) > limits.controlRate,
            phase == .open || phase == .opening && !isDatagram
        else {
            return
        }
        let error = TransportError.tooMany(
            "more than \(limits.controlRate) pings, subscriptions, repetitions and empty frames came within a second",
            isOpening ? .handshake : .open
        )
        abandon(CloseReason(.protocolError, code: ClosePayload.policyViolation, text: error.reason, error: error))
    }
}

// MARK: Memory

extension ConnectionDriver {
    /// Frees partial input, since nothing more is read. The input of a session over a shared socket belongs to the
    /// socket, and the session has it for one datagram only.
    func releaseInput() {
        core.connectionEnded()
        guard !isDatagram else { return }
        reading.input.removeAll()
        reading.input.returnBlock(to: loop)
    }

    /// Notifies the owner of the memory that this connection uses for partial input, for output, and for messages in
    /// the inbox.
    func reportBufferedBytes() {
        guard let owner else { return }
        let held =
            (isAlive ? core.bufferedBytes : 0) + reading.input.ownMemory + context.output.ownMemory
            + (phase == .closed ? 0 : channel.bufferedBytes)
            + (phase == .closed ? 0 : receiving.inbox.bufferedBytes)
        guard held != bufferedBytes else { return }
        let change = held - bufferedBytes
        bufferedBytes = held
        owner.memoryChanged(by: change)
    }
}
