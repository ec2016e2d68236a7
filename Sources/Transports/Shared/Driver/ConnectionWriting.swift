import Protocols
import SocketIO
import TransportAPI

/// The state of the output that is to be passed to the kernel. The bytes are in ``CoreContext/output``.
struct WriteState {
    /// The kinds of requested flushes.
    enum FlushRequest {
        /// No flush is requested.
        case none
        /// The flush comes after the output of other connections.
        case lowPriority
        /// The flush comes at the end of the tick, or of the time budget of a busy connection.
        case requested
    }

    var flush = FlushRequest.none
    /// The number of bytes of output that were flushed before the end of the current tick.
    var sentAhead = 0
    /// The number of bytes of output that the channel has taken.
    var flushed: UInt64 = 0
    /// The time since which the peer has taken no output; 0 if no output waits for it. A server ends the connection after
    /// its `stallTimeout` (`StreamAcceptor`). At a client, the supervisor's ``Keepalive`` decides.
    var stuckSince: Int64 = 0
    /// Whether to call the handler, once, when little of the output is left.
    var wantsRoom = false
    /// Whether bytes were sent since the last read. This counts round trips until the connection is open.
    var isUnanswered = false
}

extension ConnectionDriver {
    /// The amount of output, in bytes, from which on a flush is no longer low priority.
    private static let lowPriorityOutput = 16 << 10
    /// How many low-priority connections may each keep a whole block for their output.
    private static let lowPriorityBlocks = 64

    /// Requests a flush of the output at the end of the tick, together with everything that is written until then. A
    /// busy connection flushes at the end of its time budget. A server answers the clients that have sent something in
    /// this tick before it flushes to others, unless the output for one of them has reached ``lowPriorityOutput``.
    func requestFlush() {
        guard phase != .closed else { return }
        let isLowPriority =
            owner != nil && phase == .open && !isClosing && reading.lastHeard != loop.now
            && context.output.count < Self.lowPriorityOutput
        switch writing.flush {
        case .none: break
        case .lowPriority where !isLowPriority: break
        case .lowPriority, .requested: return
        }
        if share.isRunning {
            writing.flush = .requested
        } else if isBusy {
            writing.flush = .requested
            deferWork()
        } else if isLowPriority {
            writing.flush = .lowPriority
            runAtLowPriority()
        } else {
            writing.flush = .requested
            loop.add(self, to: .tickEnd)
        }
    }

    /// Continues after the end of the tick.
    func runAtLowPriority() {
        loop.add(self, to: .lowPriority)
    }

    /// Flushes if a flush is requested.
    func flushIfRequested() {
        if writing.flush != .none {
            writing.flush = .none
            writing.sentAhead = 0
            flush()
        }
        reportBufferedBytes()
    }

    func flush() {
        guard phase != .closed else { return }
        writing.isUnanswered = true
        let before = context.output.count
        let result = isDatagram ? writeDatagrams() : writeStream()
        writing.flushed &+= UInt64(clamping: before - context.output.count)
        if result != .wouldBlock { setStuck(since: 0) }
        if isDatagram, channel.takeAddressChange() { reportPathChange() }
        switch result {
        // TLS has ended, and takes no more bytes. A paused reader would never find out why.
        case .end where (phase == .opening || phase == .open) && !isDatagram:
            return writeFailed(SystemError("send", EPIPE))
        case .bytes, .end: context.output.returnBlock(to: loop)
        case .wouldBlock:
            if writing.stuckSince == 0 || context.output.count < before {
                setStuck(since: loop.now)
            }
            context.output.returnBlock(to: loop)
        case .failed(let error): return writeFailed(error)
        case .insecure(let failure): return brokenByTLS(failure)
        }
        if phase == .draining {
            if context.output.isEmpty { finishDraining() }
        } else if context.output.count < limits.writeBuffer {
            if writing.wantsRoom, isNearlyEmpty {
                writing.wantsRoom = false
                handler?.roomMade(self)
            }
            sendBlocked()
            if reading.pauses.contains(.fullOutput) {
                resume(.fullOutput)
                deferWork()
            }
        }
    }

    /// Passes the output to the channel. Returns `.bytes` if the channel took all of it, `.wouldBlock` if some is left.
    private func writeStream() -> IOResult {
        while !context.output.isEmpty {
            let result = context.output.withUnsafeReadableBytes { [channel] in channel.write($0) }
            guard case .bytes(let count) = result else { return result }
            context.output.consume(count)
        }
        return .bytes(0)
    }

    private func writeDatagrams() -> IOResult {
        channel.beginWriting()
        return DatagramOutput.flush(&context) { [channel] in channel.write($0) }
    }

    /// Flushes before the end of the tick once the output is about to outgrow its block, unless the kernel takes
    /// nothing. So a sender of much output in one tick writes all of it to the same memory. The flushed bytes count
    /// against the limit until the end of the tick (``isOutputFull``), because a sender that never waited would block
    /// all other connections. Senders call this; a core and the code that it calls must not.
    func flushAhead() {
        let waiting = context.output.count
        guard waiting > ScratchPool.blockSize - ByteBuffer.leastRoom, writing.flush != .none, writing.stuckSince == 0,
            !reading.isPumping,
            !isDeferred
        else { return }
        flush()
        writing.sentAhead += waiting - context.output.count
        reportBufferedBytes()
    }

    /// Whether senders must wait: for the kernel to take the output, or for the next tick if much was flushed in this
    /// one.
    var isOutputFull: Bool { context.output.count + writing.sentAhead >= limits.writeBuffer }

    func setStuck(since time: Int64) {
        guard time != writing.stuckSince else { return }
        writing.stuckSince = time
        context.outputMoved = Instant(nanoseconds: loop.now)
    }

    // MARK: The core's surroundings

    /// Gives the core the time and memory to write to. Call this before the core.
    func enterCore() {
        context.now = Instant(nanoseconds: loop.now)
        context.output.borrowBlock(of: loop)
    }

    /// Requests a flush of the core's output, and keeps the core's deadline. Call this after the core. While the
    /// channel is full, no flush is requested, because the channel reports when there is room (``ready(_:)``). The
    /// output can grow until then, so a server counts it.
    func leaveCore() {
        if context.output.isEmpty {
            context.output.returnBlock(to: loop)
        } else {
            if writing.stuckSince == 0 {
                requestFlush()
            } else if owner != nil {
                loop.add(self, to: .tickEnd)
            }
            // With a message for thousands of connections, each keeps its copy and not a whole block.
            if writing.flush == .lowPriority, loop.lowPriorityCount > Self.lowPriorityBlocks {
                context.output.returnBlock(to: loop)
            }
        }
        armTimer()
    }

    /// Writes one whole message that is already encoded in the core's format. So a server encodes once for many peers.
    package func sendEncoded(_ bytes: UnsafeRawBufferPointer) {
        guard phase == .open else { return }
        enterCore()
        core.sendEncoded(bytes, &context)
        statistics.messagesSent += 1
        leaveCore()
    }

    /// Requests one call of ``ConnectionHandler/roomMade(_:)`` when little of the output is left.
    package func notifyOfRoom() {
        writing.wantsRoom = true
    }

    /// Whether the write buffer has room.
    package var hasRoom: Bool { phase == .open && context.output.count < limits.writeBuffer }

    /// Whether little of the output is left. Then messages that can wait are sent as well as those that can't.
    package var isNearlyEmpty: Bool { phase == .open && context.output.count < min(limits.writeBuffer, 64 << 10) }
}
