import Primitives
import TransportAPI

/// A transfer that is sent. Its procedure reads the bytes, and waits for what the peer answers. Lives on its runtime.
final class OutgoingTransfer {
    /// Bytes that were read and are not acknowledged.
    private struct Piece {
        let offset: UInt64
        let bytes: [UInt8]
        /// When it was sent; `nil` if it was not sent since the last agreement.
        var sentAt: Instant?

        var end: UInt64 { offset + UInt64(bytes.count) }
    }

    /// What the peer has said about the last offer.
    private enum Answer {
        case none
        case accepted(offset: UInt64, window: Int)
        case done
    }

    let id: TransferID
    private let name: String
    private let size: UInt64?
    private let source: any TransferSource
    private let progress: AsyncStream<TransferProgress>.Continuation
    private let layer: TransferLayer
    /// How long a peer that has all frames may be silent before it has to agree again.
    private static let patience = Duration.seconds(15)
    /// How many chunks may be in flight, however small they are.
    private static let mostPieces = 64
    /// How long it waits before another offer.
    private static let pause = Duration.milliseconds(100)

    private var answer = Answer.none
    /// Whether the peer has said anything since the last offer.
    private var wasHeard = false
    /// Whether the peer has to agree again, because the connection or the peer is another one.
    private var isInterrupted = false
    private var pieces = Deque<Piece>()
    private var sentCount = 0
    /// How many bytes may be unacknowledged for the peer.
    private var window = 0
    private var acknowledged: UInt64 = 0
    private var lastProgress = Instant.zero
    /// How many frames the peer has not acknowledged. They may wait behind large messages on a slow path.
    private var unsettled = 0
    /// Why the last frame was not sent.
    private var refusal: TransportError?
    private var waiter: UnsafeContinuation<Void, Never>?
    private var ends = Waiters<Result<Void, TransferError>>()
    private(set) var result: Result<Void, TransferError>?
    /// The procedure, once it has begun.
    private(set) var task: Task<Void, Never>?

    init(
        _ id: TransferID,
        _ name: String,
        _ source: any TransferSource,
        _ progress: AsyncStream<TransferProgress>.Continuation,
        _ layer: TransferLayer
    ) {
        (self.id, self.name, self.source, self.progress, self.layer) = (id, name, source, progress, layer)
        size = source.size
    }

    // MARK: What happens to it

    /// Takes a frame of the peer.
    func take(_ frame: TransferFrame) {
        wasHeard = true
        switch frame {
        case .accept(_, let offset, let window): answer = .accepted(offset: offset, window: Int(window))
        case .received(_, let offset): acknowledge(offset)
        case .done: answer = .done
        case .refused(_, let refusal) where refusal.code == .unknown: isInterrupted = true
        case .refused(_, let refusal): end(.refused(refusal))
        case .asked, .offer, .chunk, .end: break
        }
        signal()
    }

    /// A frame is on its way to the peer.
    func isSending() { unsettled += 1 }

    /// The peer has a frame, or will not get it.
    func hasSent(_ outcome: SendOutcome) {
        unsettled -= 1
        lastProgress = layer.runtime.clock
        if !outcome.isSuccess { isInterrupted = true }
        if case .rejected(let error) = outcome { refusal = error }
        signal()
    }

    /// The peer has to agree again.
    func interrupt() {
        isInterrupted = true
        signal()
    }

    /// Ends it, unless it has ended, and tells the peer if the peer may have it.
    func end(_ error: TransferError) {
        guard result == nil else { return }
        switch error {
        case .refused, .ended, .notSent, .noAnswer, .tooMany, .inProgress: break
        case .cancelled: refuse(.cancelled, "the sender has cancelled it")
        case .file, .source, .sourceNotRepeatable: refuse(.failed, "the sender could not read the bytes")
        }
        conclude(.failure(error))
        // Its procedure may wait for the source, and closes it. Without one, nobody else does.
        if let task { task.cancel() } else { source.close() }
        signal()
    }

    /// There may be room for another chunk.
    func signal() { waiter.take()?.resume() }

    /// Waits for the end.
    func wait(_ id: UInt64, _ continuation: UnsafeContinuation<Result<Void, TransferError>, Never>) {
        if let result { return continuation.resume(returning: result) }
        ends.append(id, continuation)
    }

    /// The caller stops waiting.
    func cancel(waiter id: UInt64) { ends.resume(id, returning: .failure(.cancelled)) }

    private func acknowledge(_ offset: UInt64) {
        guard offset <= source.offset else {
            return end(.refused(TransferRefusal(.broken, "it has more than was sent")))
        }
        var last: Instant?
        var count = 0
        while sentCount > 0, let piece = pieces.first, piece.end <= offset {
            last = piece.sentAt
            count += piece.bytes.count
            _ = pieces.popFirst()
            sentCount -= 1
        }
        guard let last else { return }
        let now = layer.runtime.clock
        layer.acknowledged(count, after: last.duration(to: now), at: now)
        reached(offset)
    }

    private func reached(_ offset: UInt64) {
        lastProgress = layer.runtime.clock
        acknowledged = max(acknowledged, offset)
        progress.yield(TransferProgress(bytes: offset, size: size))
    }

    // MARK: The procedure

    /// Begins the procedure.
    func begin() {
        let bound = RuntimeBound(self, to: layer.runtime)
        task = Task(executorPreference: layer.runtime.taskExecutor) { await bound.value.run() }
    }

    /// Transfers the bytes.
    private nonisolated(nonsending) func run() async {
        do throws(TransferError) {
            repeat { try await agree() } while try await !sendRest()
            conclude(.success(()))
        } catch {
            end(error)
        }
        pieces = Deque()
        source.close()
    }

    private func refuse(_ code: TransferRefusal.Code, _ reason: String) {
        layer.send(.refused(id, TransferRefusal(code, reason)))
    }

    private func conclude(_ result: Result<Void, TransferError>) {
        guard self.result == nil else { return }
        forgetSent()
        self.result = result
        progress.finish()
        ends.resumeAll(returning: result)
        layer.ended(self)
    }

    private func check() throws(TransferError) { try result?.get() }

    /// The bytes that were sent have to be sent again, or the peer has them.
    private func forgetSent() {
        for index in 0..<sentCount { layer.forget(pieces[index].bytes.count) }
        sentCount = 0
    }

    /// Offers the bytes until the peer takes them, and goes to its offset.
    private nonisolated(nonsending) func agree() async throws(TransferError) {
        forgetSent()
        answer = .none
        var silence = Duration.zero
        while case .none = answer {
            if !layer.isOpen {
                try await wait(atMost: nil) { $0.layer.isOpen }
                silence = .zero
            }
            (isInterrupted, wasHeard, refusal) = (false, false, nil)
            layer.send(.offer(id, size: size, name: name), from: self)
            try await wait(atMost: nil) { $0.unsettled == 0 || $0.isAnswered || $0.isInterrupted }
            let start = layer.runtime.clock
            let limit = min(Self.patience, layer.answerTime - silence)
            try await wait(atMost: limit) { $0.isAnswered || $0.isInterrupted }
            if !isAnswered { try await wait(atMost: Self.pause) { $0.isAnswered } }
            // The app of the peer may need long to decide, and the peer says that it was asked.
            silence = wasHeard ? .zero : silence + start.duration(to: layer.runtime.clock)
            guard isAnswered || silence < layer.answerTime else { throw refusal.map { .notSent($0) } ?? .noAnswer }
        }
        guard case .accepted(let offset, let window) = answer else { return }
        self.window = window
        guard offset <= size ?? .max else { throw .refused(TransferRefusal(.broken, "it wants bytes after the end")) }
        while let piece = pieces.first, piece.end <= offset { _ = pieces.popFirst() }
        if pieces.first.map({ $0.offset > offset }) ?? true {
            pieces = Deque()
            try await source.move(to: offset)
            try check()
        }
        splitPieces()
        reached(offset)
    }

    /// Another connection may take smaller messages only.
    private func splitPieces() {
        let most = layer.largestChunk
        guard pieces.contains(where: { $0.bytes.count > most }) else { return }
        var parts = Deque<Piece>()
        while let piece = pieces.popFirst() {
            for start in stride(from: 0, to: piece.bytes.count, by: most) {
                let bytes = Array(piece.bytes[start..<min(start + most, piece.bytes.count)])
                parts.append(Piece(offset: piece.offset + UInt64(start), bytes: bytes, sentAt: nil))
            }
        }
        pieces = parts
    }

    private var isAnswered: Bool {
        if case .none = answer { false } else { true }
    }

    /// Sends the bytes after the agreed offset, and their digest. Returns `false` if the peer has to agree again.
    private nonisolated(nonsending) func sendRest() async throws(TransferError) -> Bool {
        if case .done = answer { return true }
        while true {
            if sentCount == pieces.count {
                let offset = source.offset
                let bytes = try await source.read(layer.chunkSize)
                try check()
                if bytes.isEmpty { break }
                pieces.append(Piece(offset: offset, bytes: bytes, sentAt: nil))
            }
            guard try await waitForPeer({ $0.hasRoom }) else { return false }
            pieces[sentCount].sentAt = layer.runtime.clock
            let piece = pieces[sentCount]
            sentCount += 1
            layer.sent(piece.bytes.count)
            layer.send(.chunk(id, offset: piece.offset, piece.bytes), from: self)
        }
        answer = .none
        layer.send(.end(id, size: source.offset, digest: source.digest), from: self)
        guard try await waitForPeer({ $0.isAnswered }), case .done = answer else { return false }
        return true
    }

    /// Whether the next piece may be sent.
    private var hasRoom: Bool {
        let piece = pieces[sentCount]
        let isInWindow = sentCount == 0 || piece.end - pieces[0].offset <= UInt64(window) && sentCount < Self.mostPieces
        return isInWindow && layer.hasRoom(for: piece.bytes.count)
    }

    /// Waits for something that the peer does. Returns `false` if it has to agree again: the connection or the peer is another
    /// one, or it has all frames and has said nothing for long. A peer that was restarted says nothing.
    private nonisolated(nonsending) func waitForPeer(
        _ isSo: (OutgoingTransfer) -> Bool
    ) async throws(TransferError) -> Bool {
        lastProgress = layer.runtime.clock
        while !isInterrupted {
            if isSo(self) { return true }
            try await wait(atMost: Self.patience) { $0.isInterrupted || isSo($0) }
            let isSilent = unsettled == 0 && lastProgress.duration(to: layer.runtime.clock) >= Self.patience
            if layer.isOpen, isSilent, !isSo(self) { isInterrupted = true }
        }
        return false
    }

    /// Waits until something is so, or the time is over.
    private nonisolated(nonsending) func wait(
        atMost limit: Duration?,
        _ isSo: (OutgoingTransfer) -> Bool
    ) async throws(TransferError) {
        let deadline = limit.map { layer.runtime.clock.advanced(by: $0) }
        let timer = deadline.map { deadline in layer.runtime.schedule(at: deadline) { [weak self] in self?.signal() } }
        defer { if let timer { layer.runtime.cancel(timer: timer) } }
        while result == nil, !isSo(self), deadline.map({ layer.runtime.clock < $0 }) ?? true {
            await withUnsafeContinuation(isolation: #isolation) { waiter = $0 }
        }
        try check()
    }
}
