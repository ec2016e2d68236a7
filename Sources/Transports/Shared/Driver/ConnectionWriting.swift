import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The output of a connection on its way to the kernel. The bytes are in ``CoreContext/output``.
struct WriteState {
    /// Whether the output is to be flushed.
    enum FlushRequest {
        case none
        /// After the output of others.
        case lowPriority
        case requested
    }

    var flush = FlushRequest.none
    /// How much output has left before the end of its tick, in bytes.
    var sentAhead = 0
    /// Since when the peer has taken nothing of the output; 0 while none waits.
    var stuckSince: Int64 = 0
    /// Whether the handler is to be called, once, when little of the output is left.
    var wantsRoom = false
    /// Something was sent since something was read. Counts round trips until the connection is open.
    var isUnanswered = false
}

extension ConnectionDriver {
    /// From how much on output is not patient any more, in bytes.
    private static let lowPriorityOutput = 16 << 10
    /// How many patient connections may each keep a whole block for their output.
    private static let lowPriorityBlocks = 64

    /// Requests that the output is handed to the kernel: at the end of the tick, with everything that is written until
    /// then, and for a busy connection when its time budget ends. A server answers the clients that have sent something in
    /// this tick before it writes to others, unless so much waits for one of them that it may not grow.
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

    /// Continues behind the end of a tick.
    func runAtLowPriority() {
        loop.add(self, to: .lowPriority)
    }

    /// Flushes if that was requested, and has not been done since.
    func flushIfRequested() {
        if writing.flush != .none {
            writing.flush = .none
            writing.sentAhead = 0
            flush()
        }
        tellMemory()
    }

    func flush() {
        guard phase != .closed else { return }
        writing.isUnanswered = true
        let before = context.output.count
        let result = channel.flush(&context)
        if result != .wouldBlock { setStuck(since: 0) }
        if context.hasMoved { tellMove() }
        switch result {
        case .bytes, .end: returnMemory(&context.output)
        case .wouldBlock:
            if writing.stuckSince == 0 || context.output.count < before, !loop.hasEndlessTicks {
                setStuck(since: loop.now)
            }
            returnMemory(&context.output)
        case .failed(let error): return writeFailed(error)
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

    /// Hands output to the kernel before the tick is over once it is about to outgrow its block, unless the kernel
    /// takes nothing anyway: who sends much in one tick then writes all of it to the same memory. It counts as waiting
    /// until the tick is over (``isOutputFull``), for who never had to wait would keep the loop from everybody else. To
    /// be called by who sends, and not by a core or what it calls.
    func flushAhead() {
        let waiting = context.output.count
        guard waiting > ScratchPool.blockSize - Self.room, writing.flush != .none, writing.stuckSince == 0,
            !reading.isPumping,
            !isDeferred
        else { return }
        flush()
        writing.sentAhead += waiting - context.output.count
        tellMemory()
    }

    /// Whether who sends has to wait: for the kernel to take what waits, or, if so much has left in this tick, for the next.
    var isOutputFull: Bool { context.output.count + writing.sentAhead >= limits.writeBuffer }

    func setStuck(since time: Int64) {
        guard time != writing.stuckSince else { return }
        writing.stuckSince = time
        context.outputMoved = Instant(nanoseconds: loop.now)
    }

    // MARK: The core's surroundings

    /// To be called before the core: gives it the time and memory to write to.
    func enterCore() {
        context.now = Instant(nanoseconds: loop.now)
        borrowMemory(&context.output)
    }

    /// To be called after the core: hands on what it wrote, and keeps its deadline. While the channel is full, nothing
    /// is requested: the channel reports when there is room (``ready(_:)``). The output may grow until then, so that a
    /// server counts it.
    func leaveCore() {
        if context.output.isEmpty {
            returnMemory(&context.output)
        } else {
            if writing.stuckSince == 0 {
                requestFlush()
            } else if owner != nil {
                loop.add(self, to: .tickEnd)
            }
            // Of a message for thousands, each keeps its copy and not a whole block.
            if writing.flush == .lowPriority, loop.lowPriorityCount > Self.lowPriorityBlocks {
                returnMemory(&context.output)
            }
        }
        armTimer()
    }

    /// Writes one whole message that is encoded already in the core's own format, so that a server encodes once for many.
    package func sendEncoded(_ bytes: UnsafeRawBufferPointer) {
        guard phase == .open else { return }
        enterCore()
        core.sendEncoded(bytes, &context)
        statistics.messagesSent += 1
        leaveCore()
    }

    /// Requests one call of ``ConnectionHandler/roomMade(_:)``, when little of the output is left.
    package func notifyOfRoom() {
        writing.wantsRoom = true
    }

    /// Whether the write buffer takes more.
    package var hasRoom: Bool { phase == .open && context.output.count < limits.writeBuffer }

    /// Whether little of the output is left: room for what can wait, beside what can't.
    package var isNearlyEmpty: Bool { phase == .open && context.output.count < min(limits.writeBuffer, 64 << 10) }
}
