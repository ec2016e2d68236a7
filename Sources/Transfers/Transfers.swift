import Primitives
import TransportAPI

/// How far a transfer is.
public struct TransferProgress: Sendable, Hashable {
    /// How many bytes the receiver has.
    public let bytes: UInt64
    /// The number of all bytes, if the sender knows it.
    public let size: UInt64?
}

/// Handles the offer of a transfer. The transfer ends with the call: an offer that was not taken is refused, and a thrown error
/// ends it. The task of the call is cancelled when the transfer ends before.
public typealias OfferHandler = @Sendable (TransferOffer) async throws -> Void

/// Files and other large payloads beside the messages of a conversation, in both directions.
///
/// The bytes go in chunks between the messages. As many chunks are in flight as delay the messages by
/// ``TransferConfiguration/targetDelay`` at most, so a picture does not hold up a chat. A transfer survives reconnects, and
/// continues after the restart of either process if it is begun again under its identifier. It has arrived when the receiver
/// has checked the SHA-256 digest of all bytes.
///
/// It needs session mode (`DeliveryConfiguration.Mode.session`). Both sides make
/// one: the client over its supervisor, the server over each session. It lives as long as the conversation, also without a
/// reference, and a conversation has one.
///
/// A picture for many receivers is better uploaded once by HTTP, and its URL sent as a message; see
/// Docs/reference/transfers.md.
public final class Transfers: Sendable {
    private let layer: RuntimeBound<TransferLayer>
    private let carrier: any MessageCarrier

    /// Makes the transfers of a client. Make them before `Supervisor.connect()`.
    public convenience init(over supervisor: Supervisor, _ configuration: TransferConfiguration = .init()) {
        let states = supervisor.states
        self.init(supervisor, configuration) { layer in
            for await state in states {
                switch state {
                case .open(_, let isResumed): layer.value.changed(isOpen: true, isResumed: isResumed)
                case .closed(let reason): layer.value.end(.ended(reason.asError))
                default: layer.value.changed(isOpen: false, isResumed: false)
                }
            }
        }
    }

    /// Makes the transfers of a client of a server. Make them in `onSession`, before the first message.
    public convenience init(over session: Session, _ configuration: TransferConfiguration = .init()) {
        let states = session.states
        self.init(session, configuration) { layer in
            for await state in states {
                switch state {
                // Another session has other transfers.
                case .connected: layer.value.changed(isOpen: true, isResumed: true)
                case .disconnected: layer.value.changed(isOpen: false, isResumed: false)
                case .ended(let reason): layer.value.end(.ended(reason.asError))
                }
            }
        }
    }

    private init(
        _ carrier: any MessageCarrier,
        _ configuration: TransferConfiguration,
        _ watch: @escaping @Sendable (RuntimeBound<TransferLayer>) async -> Void
    ) {
        let layer = RuntimeBound(TransferLayer(carrier, configuration), to: carrier.runtime)
        (self.layer, self.carrier) = (layer, carrier)
        carrier.claim(as: .transfers) { layer.value.claims($0, $1) }
        Task(executorPreference: carrier.runtime.taskExecutor) { await watch(layer) }
    }

    /// Handles the offers of the peer from now on; with `nil` each is refused. Set this before the first message.
    public func onOffer(_ handler: OfferHandler?) {
        layer.execute { [layer] in layer.value.answer(with: handler) }
    }

    /// Sends a file. It must not change meanwhile.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - name: What the receiver is told about it, of 1,024 bytes of UTF-8 at most. By default empty.
    ///   - id: Under the same identifier, a later process continues the transfer.
    /// - Returns: The transfer, which has begun.
    /// - Throws: `.file` if the file cannot be opened.
    public nonisolated(nonsending) func send(
        contentsOf path: String,
        named name: String = "",
        id: TransferID = TransferID()
    ) async throws(TransferError) -> Transfer {
        let queue = try await layer.run(with: ()) { layer, _ in
            Result { () throws(TransferError) in try layer.fileQueue() }
        }
        .get()
        let file = try await queue.perform { () throws(TransferError) in try ReadFile(path) }
        return await begin(id, name) { FileSource(file, on: queue) }
    }

    /// Sends bytes that come in pieces. In a later process, the sequence must have the same bytes from the beginning.
    ///
    /// - Parameters:
    ///   - bytes: Pieces of any size. Each one is in memory until it was sent.
    ///   - size: The number of all bytes, if it is known. The receiver may refuse a transfer by its size.
    ///   - name: As for a file.
    ///   - id: As for a file.
    /// - Returns: The transfer, which has begun.
    public nonisolated(nonsending) func send<Bytes: AsyncSequence & Sendable>(
        _ bytes: Bytes,
        size: UInt64? = nil,
        named name: String = "",
        id: TransferID = TransferID()
    ) async -> Transfer where Bytes.Element == [UInt8] {
        await begin(id, name) { SequenceSource(bytes, size: size) }
    }

    private nonisolated(nonsending) func begin(
        _ id: TransferID,
        _ name: String,
        _ makeSource: @escaping @Sendable () -> any TransferSource
    ) async -> Transfer {
        let (stream, progress) = AsyncStream.makeStream(of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
        let name = name.cut(toUTF8: TransferFrame.maximumName)
        let error = await carrier.openStore()
        let transfer = await layer.run(with: (id, name, makeSource, progress, error)) { layer, input in
            let (id, name, makeSource, progress, error) = input
            let transfer = OutgoingTransfer(id, name, makeSource(), progress, layer)
            if let error { transfer.end(.notSent(error)) } else { layer.begin(transfer) }
            return RuntimeBound(transfer, to: layer.runtime)
        }
        return Transfer(id: id, progress: stream, transfer)
    }
}

/// A transfer that is sent. It goes on without a reference to this value.
public struct Transfer: Sendable {
    /// Identifies it at both sides.
    public let id: TransferID
    /// How far it is. A listener that is slow gets the newest value. The sequence ends with the transfer, and has one
    /// listener.
    public let progress: AsyncStream<TransferProgress>
    private let transfer: RuntimeBound<OutgoingTransfer>

    init(id: TransferID, progress: AsyncStream<TransferProgress>, _ transfer: RuntimeBound<OutgoingTransfer>) {
        (self.id, self.progress, self.transfer) = (id, progress, transfer)
    }

    /// Waits until the receiver has all bytes and has checked them. If the task is cancelled, only the wait ends.
    ///
    /// - Throws: Why the transfer has ended without success.
    public nonisolated(nonsending) func finished() async throws(TransferError) {
        try await transfer.suspend(with: WaitID.next(), #isolation) {
            $0.wait($1, $2)
        } onCancel: {
            $0.cancel(waiter: $1)
        }.get()
    }

    /// Ends the transfer, and tells the peer.
    public func cancel() { transfer.execute { [transfer] in transfer.value.end(.cancelled) } }
}

/// A transfer that the peer offers. It is taken by one of two ways: ``write(to:)`` or ``bytes``.
public struct TransferOffer: Sendable {
    /// Identifies it at both sides. The sender chooses it, so it says nothing about who that is.
    public let id: TransferID
    /// The number of bytes, if the sender knows it. It sends no more.
    public let size: UInt64?
    /// What the sender says about it. It is no safe part of a path.
    public let name: String
    /// How far it is, as for a ``Transfer``.
    public let progress: AsyncStream<TransferProgress>
    private let transfer: RuntimeBound<IncomingTransfer>
    private let layer: RuntimeBound<TransferLayer>

    init(
        _ transfer: RuntimeBound<IncomingTransfer>,
        _ layer: RuntimeBound<TransferLayer>,
        _ id: TransferID,
        _ size: UInt64?,
        _ name: String,
        _ progress: AsyncStream<TransferProgress>
    ) {
        (self.transfer, self.layer, self.id, self.size, self.name, self.progress) = (
            transfer, layer, id, size, name, progress
        )
    }

    /// Refuses it, with a reason that the sender gets.
    public func refuse(_ reason: String) {
        transfer.execute { [transfer] in transfer.value.refuse(.refused, reason) }
    }

    /// Writes the bytes to a file, and returns when the disk has it and its digest was checked.
    ///
    /// Until then the file is called `PATH.ID.part`. What an earlier process has received under this path and identifier is
    /// not sent again. A file that exists at the path with another content is not replaced.
    ///
    /// - Parameter path: The file. Its folder must exist, and its name must not be made of the sender's ``name``.
    /// - Throws: Why the file is not complete.
    public nonisolated(nonsending) func write(to path: String) async throws(TransferError) {
        let queue = try await layer.run(with: ()) { layer, _ in
            Result { () throws(TransferError) in try layer.fileQueue() }
        }
        .get()
        do throws(TransferError) {
            let file = try await queue.perform { [id, size] () throws(TransferError) in
                try PartialFile(path, id, size: size)
            }
            try await accept(at: file.offset)
            var offset = file.offset
            while true {
                switch await next() {
                case .bytes(let bytes):
                    try await file.write(bytes, at: offset, on: queue)
                    offset += UInt64(bytes.count)
                    await processed(offset)
                case .end(let digest):
                    try await file.finish(digest, on: queue)
                    return await complete()
                case .failure(let error): throw error
                }
            }
        } catch {
            await fail(error)
            throw error
        }
    }

    /// The bytes in pieces, in order and each once. They are acknowledged when the next piece is requested, and the transfer
    /// is complete when the sequence has ended without an error. It is for one task.
    public var bytes: TransferBytes { TransferBytes(self) }

    nonisolated(nonsending) func accept(at offset: UInt64) async throws(TransferError) {
        let error = await transfer.run(with: offset) { $0.accept(at: $1) }
        if let error { throw error }
    }

    nonisolated(nonsending) func next() async -> IncomingTransfer.Next {
        await transfer.suspend(with: WaitID.next(), #isolation) {
            $0.next($1, $2)
        } onCancel: {
            $0.cancel(waiter: $1)
        }
    }

    nonisolated(nonsending) func processed(_ offset: UInt64) async {
        await transfer.run(with: offset) { $0.processed($1) }
    }

    nonisolated(nonsending) func complete() async {
        await transfer.run(with: ()) { transfer, _ in transfer.complete() }
    }

    /// Ends it, and tells the peer why.
    nonisolated(nonsending) func fail(_ error: TransferError) async {
        await transfer.run(with: error) { transfer, error in
            switch error {
            case .refused(let refusal): transfer.refuse(refusal.code, refusal.reason)
            case .cancelled: transfer.end(.cancelled)
            // The path is no concern of the peer.
            default: transfer.refuse(.failed, "the receiver could not store it")
            }
        }
    }

    /// The handler has returned, or has thrown an error that the peer is told as `reason`.
    func handled(_ reason: String?) {
        transfer.execute { [transfer] in
            transfer.value.refuse(reason == nil ? .refused : .failed, reason ?? "the receiver did not take it")
        }
    }
}

/// The bytes of a ``TransferOffer``.
public struct TransferBytes: AsyncSequence, Sendable {
    /// Pieces of any size.
    public typealias Element = [UInt8]

    private let offer: TransferOffer

    init(_ offer: TransferOffer) { self.offer = offer }

    /// Takes the transfer with its first element.
    public func makeAsyncIterator() -> Iterator { Iterator(offer: offer) }

    /// Gives the bytes to one task.
    public struct Iterator: AsyncIteratorProtocol {
        private let offer: TransferOffer
        private var hash = SHA256()
        private var offset: UInt64 = 0
        private var hasBegun = false
        private var isOver = false

        fileprivate init(offer: TransferOffer) { self.offer = offer }

        /// Waits for the next bytes.
        ///
        /// - Throws: Why no more come.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(TransferError) -> [UInt8]? {
            guard !isOver else { return nil }
            if hasBegun {
                if offset > 0 { await offer.processed(offset) }
            } else {
                hasBegun = true
                try await offer.accept(at: 0)
            }
            switch await offer.next() {
            case .bytes(let bytes):
                hash.add(bytes)
                offset += UInt64(bytes.count)
                return bytes
            case .end(let digest):
                isOver = true
                guard hash.digest == digest else {
                    await offer.fail(.refused(.corrupted))
                    throw .refused(.corrupted)
                }
                await offer.complete()
                return nil
            case .failure(let error):
                isOver = true
                await offer.fail(error)
                throw error
            }
        }

        /// Waits for the next bytes.
        ///
        /// - Throws: Why no more come.
        public mutating func next() async throws(TransferError) -> [UInt8]? { try await next(isolation: #isolation) }
    }
}
