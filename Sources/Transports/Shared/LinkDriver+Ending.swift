import SocketIO
import TransportAPI

extension LinkDriver {
    /// Says goodbye in the protocol's way; the core reports the end when it has come.
    package func beginClose(_ reason: CloseReason) {
        guard phase == .open else {
            return end(reason, abort: phase == .opening)
        }
        isClosing = true
        enterCore()
        core.close(reason, &context)
        leaveCore()
        pump()
        readWhilePossible()
    }

    /// Says goodbye and ends the link without waiting for the answer.
    func abandon(_ reason: CloseReason) {
        if phase == .open {
            enterCore()
            core.close(reason, &context)
            leaveCore()
        }
        end(reason, abort: phase == .opening)
    }

    /// Ends the link for its users through `error`.
    func end(_ error: TransportError, abort: Bool = false) {
        end(CloseReason(error), abort: abort)
    }

    /// Ends the link for its users: every operation that waits is told. What the core has written last, which may say why,
    /// still goes to the far side, unless `abort` says that there is no point.
    func end(_ reason: CloseReason, abort: Bool = false) {
        guard phase == .opening || phase == .open else {
            if abort { close(abort: true) }
            return
        }
        let wasOpen = phase == .open
        phase = .draining
        self.reason = reason
        letGoOfParts()
        ownDeadline = Instant(nanoseconds: loop.now).advanced(by: limits.linger).nanoseconds
        waiting.receiver.take()?.take(reason.receiveResult)
        waiting.finish(reason)
        handler?.ended(self, reason)
        handler = nil
        owner?.ended(self, reason, wasOpen: wasOpen)
        onSignal = nil
        guard !abort else { return close(abort: true) }
        requestFlush()
        armTimer()
    }

    /// The last byte is with the kernel. Over TCP, closing now could destroy it on its way (a reset answers whatever
    /// arrives later; RFC 9112, section 9.6), so this side only ends its half and reads on until the far side ends its own.
    func finishDraining() {
        guard channel.shutdownWriting() else { return close(abort: false) }
        readWhilePossible()
    }

    func close(abort: Bool) {
        guard phase != .closed else { return }
        if phase != .draining { end(CloseReason(.network)) }
        phase = .closed
        cancelTimer()
        // Nobody can ask a link that never was open.
        if statistics.handshakeDuration != .zero { statistics.add(channel.segmentCounts) }
        channel.close(abort: abort)
        input = ByteBuffer()
        context.output = ByteBuffer()
        tellMemory()
        owner.take()?.closed(self)
    }
}

extension LinkStatistics {
    mutating func add(_ counts: SegmentCounts?) {
        segmentsSent = counts?.sent
        segmentsReceived = counts?.received
        headerBytes = counts?.headerBytes
    }
}
