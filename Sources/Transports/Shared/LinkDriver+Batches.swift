import SocketIO
import TransportAPI

// Many messages at a time, for who takes and sends them so (``MessageBatch``): they cost neither an array nor an event each.
extension LinkDriver {
    // MARK: Receiving

    /// Gives all that is there to `batch`; `false` at the end, if it has come; `nil` if there is nothing yet.
    func takeMessages(into batch: inout MessageBatch) -> Result<Bool, TransportError>? {
        guard waiting.receiver == nil else {
            batch.removeAll()
            return .failure(.busyReceiving)
        }
        confirmTaken()
        inbox.take(into: &batch)
        if !batch.isEmpty {
            if confirmsReceipt { unconfirmed += batch.count }
            resumeReading()
            return .success(true)
        }
        return reason?.receiveResult.map { $0 != nil }
    }

    /// Moves what is usual from the input to the inbox at once; whether there was any.
    func gatherMessages() -> Bool {
        let count = core.readMessages(&input, &context, into: &inbox.batch, atMost: inbox.room)
        guard count > 0 else { return false }
        statistics.messagesReceived += UInt64(count)
        if !waiting.blocked.isEmpty { requestFlush() }
        wakeGatherer()
        return true
    }

    /// Tells who takes all that has come as soon as there is something, or the end.
    func awaitMessages(_ id: UInt64, _ continuation: UnsafeContinuation<Result<Bool, TransportError>, Never>) {
        guard waiting.receiver == nil else { return continuation.resume(returning: .failure(.busyReceiving)) }
        guard inbox.count == 0, reason == nil else { return continuation.resume(returning: .success(true)) }
        waiting.receiver = .gatherer(id: id, continuation)
    }

    /// Something is there for who takes all of it.
    func wakeGatherer() {
        guard case .gatherer(_, let continuation)? = waiting.receiver else { return }
        waiting.receiver = nil
        continuation.resume(returning: .success(true))
    }

    // MARK: Sending

    /// Up to how much output who waits with a batch is let go on, in bytes: little, because a batch has gathered what there is to
    /// gather, and what is written behind much that waits for the kernel has left the processor's cache before it is sent.
    static let batchRoom = ScratchPool.blockSize / 4

    enum BatchStep {
        /// All has been written.
        case finished
        /// The next message is to be sent by itself.
        case single
        /// There is no room.
        case full
        case refused(TransportError)
    }

    /// Writes messages of `batch` from `cursor` on, block by block, and hands each block to the kernel.
    func send(_ batch: borrowing MessageBatch, from cursor: inout MessageBatch.Cursor) -> BatchStep {
        while cursor.index < batch.count {
            guard phase == .open, !isClosing else { return .refused(sendRefusal) }
            guard hasBatchRoom else { return .full }
            let before = cursor.index
            enterCore()
            let room = min(ScratchPool.blockSize, limits.writeBuffer) - context.output.count
            core.writeMessages(of: batch, from: &cursor, room: room, &context)
            statistics.messagesSent += UInt64(cursor.index - before)
            leaveCore()
            guard cursor.index > before else { return .single }
            flushAhead()
        }
        return .finished
    }

    private var hasBatchRoom: Bool {
        !isOutputFull && waiting.blocked.isEmpty && context.output.count <= Self.batchRoom
    }

    /// Tells who writes a batch that there is room again, or that the link has ended.
    func awaitRoom(_ id: UInt64, _ continuation: UnsafeContinuation<SendOutcome, Never>) {
        guard phase == .open, !isClosing else { return continuation.resume(returning: .rejected(sendRefusal)) }
        guard !hasBatchRoom else { return continuation.resume(returning: .written) }
        waiting.blocked.append(.init(id: id, continuation: continuation))
        // That may be at the end of this turn.
        requestFlush()
    }
}
