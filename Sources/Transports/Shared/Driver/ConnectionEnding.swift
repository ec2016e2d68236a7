import Protocols
import SocketIO
import TransportAPI

/// The progress of a close that this side has begun, or of the last output to a peer that has ended its side. Its time limit
/// starts again whenever the peer takes bytes.
struct CloseProgress {
    /// When the close began, in nanoseconds of ``MonotonicClock``.
    let began: Int64
    /// When the peer last took bytes. At first, when the close began.
    private(set) var movedAt: Int64
    /// How many bytes the peer had not taken at the last update.
    private var left: Int
    /// The earliest deadline.
    private let earliest: Int64

    init(now: Int64, left: Int, earliest: Int64 = .min) {
        (began, movedAt, self.left, self.earliest) = (now, now, left, earliest)
    }

    /// Compares `left` with the previous value. Returns whether the peer has taken bytes since.
    mutating func update(left: Int, now: Int64) -> Bool {
        defer { self.left = left }
        guard left < self.left else { return false }
        movedAt = now
        return true
    }

    /// When the close takes too long, counted from the last bytes that the peer took and from the beginning of the
    /// close.
    func deadline(_ limits: ConnectionLimits) -> Int64 {
        let deadline = min(
            Instant(nanoseconds: movedAt).advanced(by: limits.closeTimeout).nanoseconds,
            Instant(nanoseconds: began).advanced(by: limits.closeTotal).nanoseconds
        )
        return max(deadline, earliest)
    }
}

/// The state of the close of a connection.
struct CloseState {
    /// The close that this side has begun, or the last output to a peer that has ended its side; `nil` before.
    var progress: CloseProgress?
    /// How many bytes were accepted and not delivered, once the connection has ended.
    var undelivered = 0
}

extension ConnectionDriver {
    // MARK: Closing

    /// Begins the protocol's close handshake. The core reports the end when the handshake is complete. Messages that
    /// were written before are still sent. Messages that wait for room end as `rejected`.
    package func beginClose(_ reason: CloseReason) {
        guard phase == .open else {
            return end(reason, abort: isOpening)
        }
        guard closing.progress == nil else { return }
        closing.progress = CloseProgress(now: loop.now, left: undelivered)
        waiting.rejectBlocked(reason.sendError)
        enterCore()
        core.close(reason, &context)
        updateCloseProgress()
        leaveCore()
        pump()
        readWhilePossible()
    }

    /// Whether the end is in progress: this side has begun the close handshake, or a failure has left input or an answer
    /// that it still waits for. The time is limited.
    var isClosing: Bool { closing.progress != nil }

    /// Writes a close frame and ends the connection without waiting for the answer.
    package func abandon(_ reason: CloseReason) {
        if phase == .open {
            enterCore()
            core.close(reason, &context)
            leaveCore()
        }
        end(reason, abort: isOpening)
    }

    /// How many bytes of the output count as having left when the rest is discarded. If the next connection completes
    /// messages, it sends all of them. A connection that repeats datagrams itself does not count them here.
    private var leftBytes: UInt64 {
        isDatagram || core.capabilities.completesSends ? .max : writing.flushed
    }

    /// How many accepted bytes the peer is not known to have received: the bytes in the output, the bytes in the
    /// kernel, and the bytes that the protocol would repeat.
    var undelivered: Int {
        let repeated = phase == .closed ? 0 : core.unacknowledgedBytes
        // The bytes that a core repeats can be in the output as well.
        return repeated > 0 ? repeated : context.output.count + channel.unacknowledgedBytes
    }

    /// Resumes `continuation` when the connection is closed, with the number of undelivered bytes.
    func awaitClosed(_ id: UInt64, _ continuation: UnsafeContinuation<Int, Never>) {
        if phase == .closed {
            continuation.resume(returning: closing.undelivered)
        } else {
            waiting.closing.append(id, continuation)
        }
    }

    /// Stops the caller's wait. The connection still closes.
    func cancelClosed(_ id: UInt64) {
        waiting.closing.resume(id, returning: undelivered)
    }

    /// Resumes `continuation` when the connection has ended, with the reason.
    func awaitEnd(_ id: UInt64, _ continuation: UnsafeContinuation<CloseReason?, Never>) {
        if let reason { continuation.resume(returning: reason) } else { waiting.closers.append(id, continuation) }
    }

    /// Stops the caller's wait for the end.
    func cancelEnd(_ id: UInt64) {
        waiting.closers.resume(id, returning: nil)
    }

    /// Records whether the peer has taken bytes, and sets the time of the next check.
    func updateCloseProgress() {
        guard closing.progress != nil else { return }
        if closing.progress?.update(left: undelivered, now: loop.now) == true {
            context.outputMoved = Instant(nanoseconds: loop.now)
        }
        guard let deadline = closing.progress?.deadline(limits) else { return }
        let soon = Instant(nanoseconds: loop.now).advanced(by: limits.closeTimeout / 4).nanoseconds
        deadlines.phase = min(deadline, max(soon, loop.now + 1_000_000))
    }

    /// A handshake that ends without an error ends with a whole answer, such as a page. The peer may take as long for it
    /// as for a close, because a slow network needs more than ``ConnectionLimits/linger``.
    func allowTimeForAnswer(_ reason: CloseReason) {
        guard isOpening, reason.error == nil, !isDatagram, closing.progress == nil else { return }
        closing.progress = CloseProgress(now: loop.now, left: undelivered)
    }

    /// A peer that has ended its side still reads the output that is left. It may take as long as for a close, and at least
    /// ``ConnectionLimits/linger``.
    func allowTimeForRest() {
        guard closing.progress == nil else { return }
        let earliest = Instant(nanoseconds: loop.now).advanced(by: limits.linger).nanoseconds
        closing.progress = CloseProgress(now: loop.now, left: undelivered, earliest: earliest)
        updateCloseProgress()
        armTimer()
    }

    /// Ends the connection if the peer has taken nothing for too long.
    func closeTimerFired() {
        guard let progress = closing.progress, progress.deadline(limits) <= loop.now else { return }
        guard phase == .open else { return close(abort: undelivered > 0) }
        // Without an answer to the close frame, the reason that this side sent counts.
        end(closeReasonSoFar() ?? .user, abort: undelivered > 0)
    }

    // MARK: The end

    /// Ends the connection for its users through `error`.
    func end(_ error: TransportError, abort: Bool = false) {
        end(CloseReason(error), abort: abort)
    }

    /// Ends the connection for its users, with every operation that waits. The core's last output, which can contain
    /// the reason, is still sent unless `abort` is true.
    func end(_ reason: CloseReason, abort: Bool = false) {
        guard isAlive else {
            if abort { close(abort: true) }
            return
        }
        let wasOpen = phase == .open
        var reason = reason
        if !hasHeard, let error = reason.error, let hint = unanswered.hint {
            reason = CloseReason(hint.added(to: error))
        }
        if let mistake = core.likelyMistake(isEncrypted: context.isEncrypted) { reason.add(mistake) }
        if reason.error?.phase == .open, !core.isAccepted {
            reason.error?.phase = .handshake
        }
        if isOpening, reason.error?.origin == .unstated {
            reason.error?.origin = channel.encryption?.isVerified == true ? .peer : .path
        }
        if !hasHeard, reason.initiator != .user { unanswered.action?() }
        unanswered.action = nil
        phase = .draining
        self.reason = reason
        closing.undelivered = core.unacknowledgedBytes
        releaseInput()
        if isClosing {
            updateCloseProgress()
        } else {
            deadlines.phase = Instant(nanoseconds: loop.now).advanced(by: limits.linger).nanoseconds
        }
        waiting.receiver.take()?.take(reason.receiveResult)
        waiting.finish(reason, left: abort ? leftBytes : .max)
        handler?.ended(self, reason)
        handler = nil
        owner?.ended(self, reason, wasOpen: wasOpen)
        onSignal = nil
        receiving.discards.stop()
        guard !abort else { return close(abort: true) }
        requestFlush()
        armTimer()
    }

    /// Ends this side's half of the connection and reads until the peer ends its own. Called when the kernel has the
    /// last byte. Closing a TCP connection at once could destroy that byte in flight, because a reset answers any bytes
    /// that arrive later (RFC 9112, section 9.6).
    func finishDraining() {
        guard channel.shutdownWriting() else { return close(abort: false) }
        // The peer can have ended its half before. That end was read then, and not every poller reports it again.
        reading.isReadable = true
        readWhilePossible()
    }

    package func close(abort: Bool) {
        guard phase != .closed else { return }
        if phase != .draining { end(CloseReason(.network)) }
        guard phase != .closed else { return }
        closing.undelivered = max(closing.undelivered, context.output.count + channel.unacknowledgedBytes)
        phase = .closed
        cancelTimer()
        // A connection that was never open has no users that can read its statistics.
        if wasOpened { statistics.add(channel.segmentCounts) }
        channel.close(abort: abort)
        reading.input = ByteBuffer()
        context.output = ByteBuffer()
        reportBufferedBytes()
        waiting.closing.resumeAll(returning: closing.undelivered)
        owner.take()?.closed(self)
    }
}

extension CloseReason {
    /// Adds a sentence to the text and to that of the error.
    fileprivate mutating func add(_ sentence: String) {
        text += (text.isEmpty ? "" : "; ") + sentence
        error?.reason += "; \(sentence)"
    }
}
