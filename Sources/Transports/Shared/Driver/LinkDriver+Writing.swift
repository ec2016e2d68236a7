import SocketIO
import TransportAPI

// What the core writes, on its way to the kernel.
extension LinkDriver {
    /// From how much on output is not patient any more, in bytes.
    private static let patientOutput = 16 << 10
    /// How many patient links may each keep a whole block for their output.
    private static let patientBlocks = 64

    /// Asks for the output to be handed to the kernel when this turn ends, with all else that is written until then; that of a
    /// busy link when its share ends, of which it is a part. A server answers who has spoken in this turn before it writes to
    /// others, unless so much waits for one of them that it may not grow.
    func requestFlush() {
        guard phase != .closed else { return }
        let isPatient =
            owner != nil && phase == .open && !isClosing && lastHeard != loop.now
            && context.output.count < Self.patientOutput
        if flushRequested {
            guard isFlushPatient, !isPatient else { return }
        }
        flushRequested = true
        isFlushPatient = false
        if isInShare { return }
        if isBusy { return waitForShare() }
        guard isPatient else { return loop.atEndOfTurn(self) }
        isFlushPatient = true
        waitForPatience()
    }

    /// Waits for what comes behind the end of a turn. Who was more urgent in the meantime has its place still.
    func waitForPatience() {
        guard !isInPatientLine else { return }
        isInPatientLine = true
        loop.runPatiently(self)
    }

    package func turnCame() {
        isInPatientLine = false
        turnEnded()
        // What came alone is answered by now; what has come meanwhile is not.
        if isReadable, channel.isDatagram { readWhilePossible() }
    }

    func flush() {
        guard phase != .closed else { return }
        isWaitingForAnswer = true
        let before = context.output.count
        let result = channel.flush(&context)
        if result != .wouldBlock { stuckSince = 0 }
        if context.hasMoved { tellMove() }
        switch result {
        case .bytes, .end: returnMemory(&context.output)
        case .wouldBlock:
            if stuckSince == 0 || context.output.count < before, !loop.hasEndlessTicks { stuckSince = loop.now }
            returnMemory(&context.output)
        case .failed(let error): return writeFailed(error)
        }
        if phase == .draining {
            if context.output.isEmpty { finishDraining() }
        } else if context.output.count < limits.writeBuffer {
            if wantsRoom, isNearlyEmpty {
                wantsRoom = false
                handler?.roomMade(self)
            }
            sendBlocked()
            if isChoked {
                isChoked = false
                waitForShare()
            }
        }
    }

    /// Hands output to the kernel before the turn is over once it is about to outgrow its block, unless the kernel takes nothing
    /// anyway: who sends much in one turn then writes all of it to the same memory. It counts as waiting until the turn is over
    /// (``isOutputFull``), for who never had to wait would keep the loop from everybody else. To be called by who sends, and not by
    /// a core or what it calls.
    func flushAhead() {
        let waiting = context.output.count
        guard waiting > ScratchPool.blockSize - Self.room, flushRequested, stuckSince == 0, !isPumping,
            !isWaitingForShare
        else { return }
        flush()
        sentAhead += waiting - context.output.count
        tellMemory()
    }

    /// Whether who sends has to wait: for the kernel to take what waits, or, if so much has left in this turn, for the next.
    var isOutputFull: Bool { context.output.count + sentAhead >= limits.writeBuffer }

    // MARK: The core's surroundings

    /// To be called before the core: gives it the time and memory to write to.
    func enterCore() {
        context.now = Instant(nanoseconds: loop.now)
        borrowMemory(&context.output)
    }

    /// To be called after the core: hands on what it wrote, and keeps its deadline. While the channel is full, nothing is
    /// requested: the channel reports when there is room (``ready(_:)``). The output may grow until then, so that a server counts it.
    func leaveCore() {
        if context.output.isEmpty {
            returnMemory(&context.output)
        } else {
            if stuckSince == 0 {
                requestFlush()
            } else if owner != nil, !isTellRequested {
                isTellRequested = true
                loop.atEndOfTurn(self)
            }
            // Of a message for thousands, each keeps its copy and not a whole block.
            if isFlushPatient, loop.patientCount > Self.patientBlocks { returnMemory(&context.output) }
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

    /// Whether the write buffer takes more.
    package var hasRoom: Bool { phase == .open && context.output.count < limits.writeBuffer }

    /// Whether little of the output is left: room for what can wait, beside what can't.
    package var isNearlyEmpty: Bool { phase == .open && context.output.count < min(limits.writeBuffer, 64 << 10) }
}
