import Primitives
import TransportAPI

/// A transfer that is received. Lives on its runtime.
final class IncomingTransfer {
    private enum Phase {
        /// The app is asked.
        case deciding
        case receiving
        /// All bytes have arrived, which have this digest.
        case ended(digest: [UInt8])
        case over(TransferError?)
    }

    /// What the app gets next.
    enum Next: Sendable {
        case bytes([UInt8])
        case end(digest: [UInt8])
        case failure(TransferError)
    }

    let id: TransferID
    let name: String
    let size: UInt64?
    private let layer: TransferLayer
    private let progress: AsyncStream<TransferProgress>.Continuation
    private var phase = Phase.deciding
    /// The offset of the next byte that arrives.
    private var expected: UInt64 = 0
    /// The offset before which the app has processed all bytes.
    private var processed: UInt64 = 0
    /// What has arrived and was not given to the app.
    private var chunks = Deque<[UInt8]>()
    private var waiter: (id: UInt64, continuation: UnsafeContinuation<Next, Never>)?
    private var timer: UInt64?
    /// The task of the app's handler.
    var handler: Task<Void, Never>?

    init(
        _ id: TransferID,
        size: UInt64?,
        name: String,
        _ progress: AsyncStream<TransferProgress>.Continuation,
        _ layer: TransferLayer
    ) {
        (self.id, self.size, self.name, self.progress, self.layer) = (id, size, name, progress, layer)
    }

    var isOver: Bool {
        if case .over = phase { true } else { false }
    }

    // MARK: The peer

    /// Takes a frame of the sender.
    func take(_ frame: TransferFrame) {
        switch frame {
        case .offer(_, let size, _): offered(size)
        case .chunk(_, let offset, let bytes): take(bytes, at: offset)
        case .end(_, let size, let digest): take(end: size, digest)
        case .refused(_, let refusal): end(.refused(refusal), tellsPeer: false)
        case .asked, .accept, .received, .done: break
        }
    }

    private func offered(_ size: UInt64?) {
        guard size == self.size else { return refuse(.broken, "the size is another one than before") }
        switch phase {
        case .deciding: layer.send(.asked(id))
        case .receiving, .ended: layer.send(.accept(id, offset: expected, window: layer.window))
        case .over: break
        }
    }

    private func take(_ bytes: [UInt8], at offset: UInt64) {
        guard case .receiving = phase else { return }
        let end = offset + UInt64(bytes.count)
        // A part that is missing comes with the next agreement.
        guard offset <= expected else { return }
        guard end > expected else { return layer.send(.received(id, offset: processed)) }
        guard end <= size ?? layer.maximumSize else {
            if size == nil { return refuse(.tooLarge, layer.tooLarge) }
            return refuse(.broken, "it has more bytes than it said")
        }
        guard end - processed <= UInt64(layer.window) else {
            return refuse(.broken, "it has sent more than the window")
        }
        chunks.append(offset == expected ? bytes : Array(bytes.suffix(Int(end - expected))))
        expected = end
        moved()
        give()
    }

    private func take(end size: UInt64, _ digest: [UInt8]) {
        // Bytes that are missing come with the next agreement.
        guard case .receiving = phase, size == expected else { return }
        guard self.size == nil || self.size == size else { return refuse(.broken, "it has fewer bytes than it said") }
        phase = .ended(digest: digest)
        moved()
        give()
    }

    /// Ends it, and tells the sender why.
    func refuse(_ code: TransferRefusal.Code, _ reason: String) {
        guard !isOver else { return }
        let refusal = TransferRefusal(code, reason)
        layer.send(.refused(id, refusal))
        end(.refused(refusal), tellsPeer: false)
    }

    /// Ends it without success.
    func end(_ error: TransferError, tellsPeer: Bool = true) {
        guard !isOver else { return }
        if tellsPeer { layer.send(.refused(id, TransferRefusal(.cancelled, "the receiver has cancelled it"))) }
        over(error)
    }

    private func over(_ error: TransferError?) {
        phase = .over(error)
        chunks = Deque()
        if let timer = timer.take() { layer.runtime.cancel(timer: timer) }
        progress.finish()
        give()
        if error != nil { handler?.cancel() }
        layer.ended(self)
    }

    /// It has moved, and may stand still from now on.
    private func moved() {
        if let timer = timer.take() { layer.runtime.cancel(timer: timer) }
        guard case .receiving = phase else { return }
        let deadline = layer.runtime.clock.advanced(by: layer.answerTime)
        timer = layer.runtime.schedule(at: deadline) { [weak self] in self?.stoodStill() }
    }

    private func stoodStill() {
        timer = nil
        // A slow app is no fault of the peer.
        guard layer.mayReceive, chunks.isEmpty, processed == expected else { return moved() }
        refuse(.stalled, "nothing came for \(layer.answerTime)")
    }

    // MARK: The app

    /// The app takes the bytes from this offset on.
    ///
    /// - Returns: Why it cannot.
    func accept(at offset: UInt64) -> TransferError? {
        switch phase {
        case .deciding:
            phase = .receiving
            (expected, processed) = (offset, offset)
            layer.send(.accept(id, offset: offset, window: layer.window))
            moved()
            return nil
        case .over(let error): return error ?? .inProgress
        case .receiving, .ended: return .inProgress
        }
    }

    /// Waits for what comes next.
    func next(_ id: UInt64, _ continuation: UnsafeContinuation<Next, Never>) {
        guard waiter == nil else { return continuation.resume(returning: .failure(.inProgress)) }
        waiter = (id, continuation)
        give()
    }

    /// The task that waits was cancelled.
    func cancel(waiter id: UInt64) {
        guard waiter?.id == id else { return }
        waiter.take()?.continuation.resume(returning: .failure(.cancelled))
    }

    private func give() {
        guard let waiting = waiter else { return }
        let next: Next
        if let bytes = chunks.popFirst() {
            next = .bytes(bytes)
        } else {
            switch phase {
            case .deciding, .receiving: return
            case .ended(let digest): next = .end(digest: digest)
            case .over(let error): next = .failure(error ?? .cancelled)
            }
        }
        waiter = nil
        waiting.continuation.resume(returning: next)
    }

    /// The app has processed all bytes before this offset.
    func processed(_ offset: UInt64) {
        guard !isOver else { return }
        processed = offset
        layer.send(.received(id, offset: offset))
        progress.yield(TransferProgress(bytes: offset, size: size))
        moved()
    }

    /// The app has all bytes, and they have the digest.
    func complete() {
        guard !isOver else { return }
        layer.completed(id)
        layer.send(.done(id))
        over(nil)
    }
}
