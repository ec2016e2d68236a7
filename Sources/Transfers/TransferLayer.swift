import Primitives
import TransportAPI

/// The transfers of one conversation in both directions, alike for a supervisor and for a session. Lives on their runtime.
final class TransferLayer {
    let runtime: any SupervisorRuntime
    private let configuration: TransferConfiguration
    /// Kept until the conversation ends, because the app may keep no reference to it.
    private var carrier: (any MessageCarrier)?
    private var outgoing: [TransferID: OutgoingTransfer] = [:]
    /// Those that wait until others have ended, in order.
    private var waiting = Deque<OutgoingTransfer>()
    /// Those that are sent, in the order of their begin.
    private var active: [OutgoingTransfer] = []
    private var incoming: [TransferID: IncomingTransfer] = [:]
    /// The last transfers that were received completely, so that a sender that did not learn it is told again.
    private var completed: [TransferID] = []
    private var pace: TransferWindow
    private var handler: OfferHandler?
    /// Whether there is a connection.
    private(set) var isOpen = false
    private var isOver: TransferError?

    init(_ carrier: any MessageCarrier, _ configuration: TransferConfiguration) {
        runtime = carrier.runtime
        (self.carrier, self.configuration) = (carrier, configuration)
        pace = TransferWindow(target: configuration.targetDelay, largest: configuration.window)
    }

    var answerTime: Duration { configuration.stallTimeout }
    var window: UInt32 { UInt32(clamping: max(configuration.window, TransferFrame.maximumChunk)) }
    var maximumSize: UInt64 { configuration.maximumSize }
    var tooLarge: String { "more than the \(configuration.maximumSize) bytes that are allowed here" }

    /// Whether the peer could send now: there is a connection, and the app has processed all messages before.
    var mayReceive: Bool { isOpen && carrier?.waitsForApp == false }

    /// The queue for files.
    func fileQueue() throws(TransferError) -> any BlockingQueue {
        do throws(TransportError) {
            return try runtime.fileQueue()
        } catch {
            throw .file(error)
        }
    }

    // MARK: Messages

    /// Sends a frame. `transfer` gets to know when the peer has it, and that the peer never gets it.
    func send(_ frame: TransferFrame, from transfer: OutgoingTransfer? = nil) {
        guard let carrier else { return }
        let observer = FrameOutcome(transfer)
        transfer?.isSending()
        if let outcome = carrier.send(frame.payload, observer: observer) { observer.settled(outcome) }
    }

    /// Takes a received message if it belongs to a transfer. Returns whether it does.
    func claims(_ message: ReceivedMessage, _: MessageAudience) -> Bool {
        guard let frame = TransferFrame(message.payload) else { return false }
        take(frame)
        // The frames of a transfer have acknowledgements of their own.
        message.acknowledge()
        return true
    }

    private func take(_ frame: TransferFrame) {
        switch frame {
        case .asked(let id), .accept(let id, _, _), .received(let id, _), .done(let id): outgoing[id]?.take(frame)
        case .refused(let id, _): if let own = outgoing[id] { own.take(frame) } else { incoming[id]?.take(frame) }
        case .offer(let id, let size, let name):
            if let known = incoming[id] { known.take(frame) } else { offered(id, size, name) }
        case .chunk(let id, _, _), .end(let id, _, _):
            if let known = incoming[id] { known.take(frame) } else { unknown(id) }
        }
    }

    private func unknown(_ id: TransferID) {
        if completed.contains(id) { return send(.done(id)) }
        send(.refused(id, TransferRefusal(.unknown, "it is not known here")))
    }

    private func offered(_ id: TransferID, _ size: UInt64?, _ name: String) {
        func refuse(_ code: TransferRefusal.Code, _ reason: String) {
            send(.refused(id, TransferRefusal(code, reason)))
        }
        if completed.contains(id) { return send(.done(id)) }
        guard let handler else { return refuse(.noHandler, "nobody receives files here") }
        guard size ?? 0 <= configuration.maximumSize else { return refuse(.tooLarge, tooLarge) }
        guard incoming.count < configuration.maximumIncoming else {
            return refuse(.tooMany, "\(incoming.count) others are received at the moment")
        }
        let (stream, progress) = AsyncStream.makeStream(of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
        let transfer = IncomingTransfer(id, size: size, name: name, progress, self)
        incoming[id] = transfer
        send(.asked(id))
        let offer = TransferOffer(
            RuntimeBound(transfer, to: runtime),
            RuntimeBound(self, to: runtime),
            id,
            size,
            name,
            stream
        )
        transfer.handler = Self.begin(handler, offer)
    }

    private static func begin(_ handler: @escaping OfferHandler, _ offer: TransferOffer) -> Task<Void, Never> {
        Task {
            var reason: String?
            do {
                try await handler(offer)
            } catch {
                // What an error says may be no concern of the peer.
                reason = "the receiver has failed"
            }
            offer.handled(reason)
        }
    }

    /// Offers are shown to this handler from now on.
    func answer(with handler: OfferHandler?) { self.handler = handler }

    // MARK: Sending

    /// Begins a transfer, or lets it wait for its turn.
    func begin(_ transfer: OutgoingTransfer) {
        if let isOver { return transfer.end(isOver) }
        guard outgoing[transfer.id] == nil else { return transfer.end(.inProgress) }
        guard outgoing.count < configuration.maximumOutgoing else { return transfer.end(.tooMany) }
        outgoing[transfer.id] = transfer
        waiting.append(transfer)
        beginNext()
    }

    private func beginNext() {
        while active.count < max(1, configuration.concurrentOutgoing), let next = waiting.popFirst() {
            guard next.result == nil else { continue }
            active.append(next)
            next.begin()
        }
    }

    /// A transfer has ended.
    func ended(_ transfer: OutgoingTransfer) {
        if outgoing[transfer.id] === transfer { outgoing[transfer.id] = nil }
        guard let index = active.firstIndex(where: { $0 === transfer }) else { return }
        active.remove(at: index)
        beginNext()
    }

    /// The most bytes of a chunk that the connection and the peer accept.
    var largestChunk: Int {
        max(1, min(TransferFrame.maximumChunk, (carrier?.messageLimit ?? .max) - TransferFrame.overhead))
    }
    var chunkSize: Int { min(pace.chunkSize, largestChunk) }
    func hasRoom(for count: Int) -> Bool { pace.hasRoom(for: count) }
    func sent(_ count: Int) { pace.sent(count) }

    func forget(_ count: Int) {
        pace.forget(count)
        for transfer in active { transfer.signal() }
    }

    func acknowledged(_ count: Int, after time: Duration, at now: Instant) {
        pace.acknowledged(count, after: time, at: now)
        for transfer in active { transfer.signal() }
    }

    // MARK: Receiving

    func ended(_ transfer: IncomingTransfer) {
        if incoming[transfer.id] === transfer { incoming[transfer.id] = nil }
    }

    func completed(_ id: TransferID) {
        completed.append(id)
        if completed.count > 256 { completed.removeFirst() }
    }

    // MARK: The conversation

    /// There is a connection, or there is none. A connection that does not continue the last one has lost what was on its way.
    func changed(isOpen: Bool, isResumed: Bool) {
        let isNew = isOpen && !self.isOpen
        self.isOpen = isOpen
        if isNew { pace.reconnected() }
        for transfer in active {
            if isNew, !isResumed { transfer.interrupt() } else { transfer.signal() }
        }
    }

    /// The conversation has ended.
    func end(_ error: TransferError) {
        guard isOver == nil else { return }
        isOver = error
        isOpen = false
        for transfer in outgoing.values { transfer.end(error) }
        waiting = Deque()
        for transfer in incoming.values { transfer.end(error, tellsPeer: false) }
        handler = nil
        carrier?.claim(as: .transfers, nil)
        carrier = nil
    }
}

/// Receives the outcome of a frame.
private final class FrameOutcome: SendObserver {
    private weak var transfer: OutgoingTransfer?

    init(_ transfer: OutgoingTransfer?) { self.transfer = transfer }

    func settled(_ outcome: SendOutcome) {
        transfer?.hasSent(outcome)
    }
}
