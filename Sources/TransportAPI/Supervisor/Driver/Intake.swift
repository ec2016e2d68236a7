import Primitives

/// A received message that the app acknowledges once it has processed it. What is not acknowledged is delivered again:
/// by the peer of a session over the next connection, by a broker in a kept session of MQTT, also to the next process
/// if this one ends.
public struct ReceivedMessage: Sendable {
    /// The message.
    public let payload: Payload
    /// `nil` if it was acknowledged when it was received.
    private let receipt: Receipt?

    fileprivate init(_ payload: Payload, _ receipt: Receipt?) {
        self.payload = payload
        self.receipt = receipt
    }

    /// Tells the peer that the message was processed. Acknowledgements leave in the order in which the messages were
    /// received: one that comes early is held until those before it were acknowledged. Calling it again, or after the
    /// connection or session has ended, does nothing. May be called from any task.
    ///
    /// If all copies of this value are let go without it, the message is delivered again over the next connection, and
    /// no later message is acknowledged before that.
    public func acknowledge() {
        receipt?.acknowledge()
    }
}

/// Acknowledges one message. A receipt that ends without having done so has abandoned the message.
private final class Receipt: @unchecked Sendable {
    // Unchecked, because `isSettled` is written on the runtime only, and read elsewhere only by `deinit`, when no
    // reference is left.

    private let key: UInt64
    private let target: RuntimeBound<ReceiptTarget>
    private var isSettled = false

    init(_ key: UInt64, _ target: RuntimeBound<ReceiptTarget>) {
        self.key = key
        self.target = target
    }

    func acknowledge() {
        if let here = target.here { settle(here) } else { target.execute { [self] in settle(target.value) } }
    }

    private func settle(_ target: ReceiptTarget) {
        guard !isSettled else { return }
        isSettled = true
        target.owner?.processed(key, isAbandoned: false)
    }

    deinit {
        // Not inline, because the last reference may be released in the middle of other work on the runtime.
        guard !isSettled else { return }
        target.execute { [key, target] in target.value.owner?.processed(key, isAbandoned: true) }
    }
}

/// The supervisor or session that gave the messages, while it exists.
private final class ReceiptTarget {
    weak var owner: (any ConnectionDelegate)?
}

/// Passes received messages to the listeners, and counts those that the app has not acknowledged. Lives on its owner's runtime.
final class Intake {
    let messages: MulticastBuffer<Payload>
    let deliveries = MulticastBuffer<ReceivedMessage>(limit: .max, .pause, keepsBacklog: true, returnsUntaken: true)
    /// Whether the app acknowledges each message: it has asked for ``deliveries``.
    private(set) var isAcknowledgedByApp = false
    /// How many messages were given to the app and not acknowledged in their order.
    var unprocessedCount = 0
    /// How much memory those take that were not acknowledged, in bytes.
    private(set) var unprocessedBytes = 0
    private var sizes: [UInt64: Int] = [:]
    private let target: RuntimeBound<ReceiptTarget>
    /// Called once there is room for half of what may be kept, until it is taken away.
    var onRoom: (() -> Void)? {
        didSet { messages.onRoom = onRoom == nil ? nil : { [weak self] in self?.offerRoom() } }
    }

    init(_ configuration: SupervisorConfiguration, on runtime: any SupervisorRuntime) {
        messages = MulticastBuffer(
            limit: configuration.messageBuffer,
            byteLimit: configuration.messageBufferBytes,
            .pause,
            keepsBacklog: true,
            size: { $0.bufferedBytes }
        )
        target = RuntimeBound(ReceiptTarget(), to: runtime)
    }

    var limit: Int { messages.limit }

    /// How many messages count towards the limit: those of the present connection that wait for an acknowledgement,
    /// their own or an earlier one; or those that the app has, with what is left of connections before, if these are
    /// more.
    private var keptCount: Int { max(unprocessedCount, sizes.count) }

    /// Whether another message may be taken.
    var hasRoom: Bool {
        guard isAcknowledgedByApp else { return messages.hasRoom }
        return keptCount < limit && unprocessedBytes < messages.byteLimit && messages.hasRoom
    }

    /// Whether so many messages more are kept than should be, or twice as many bytes.
    func isFull(beyond excess: Int) -> Bool {
        messages.isFull(beyond: excess) || keptCount >= limit + excess
            || unprocessedBytes / 2 >= messages.byteLimit
    }

    /// Tells the source to go on if there is room for half of what may be kept.
    func offerRoom() {
        guard let onRoom else { return }
        if isAcknowledgedByApp {
            guard keptCount <= limit / 2, unprocessedBytes <= messages.byteLimit / 2, messages.isHalfEmpty
            else { return }
        }
        onRoom()
    }

    // MARK: Messages

    /// The app acknowledges messages from now on, which is reported to `owner`. Those that no listener has taken were
    /// acknowledged when they were received.
    func acknowledgeByApp(reportingTo owner: any ConnectionDelegate) {
        isAcknowledgedByApp = true
        // Not before it is needed, because each use of an object to which there is a weak reference costs more.
        target.value.owner = owner
        for payload in messages.takeBacklog() { deliveries.send(ReceivedMessage(payload, nil)) }
    }

    /// Gives the app a message that was acknowledged when it was received.
    func give(_ payload: Payload) {
        guard isAcknowledgedByApp else { return messages.send(payload) }
        if messages.hasListeners { messages.send(payload) }
        deliveries.send(ReceivedMessage(payload, nil))
    }

    /// Gives the app a message that it acknowledges under this key.
    func give(_ payload: Payload, _ key: UInt64) {
        let size = payload.bufferedBytes
        sizes[key] = size
        unprocessedBytes += size
        if messages.hasListeners { messages.send(payload) }
        deliveries.send(ReceivedMessage(payload, Receipt(key, target)))
    }

    /// The app has acknowledged a message, or let go of it.
    func settled(_ key: UInt64) {
        unprocessedBytes -= sizes.removeValue(forKey: key) ?? 0
    }

    /// Ends the listeners' sequences, after what they still hold.
    func finish() {
        onRoom = nil
        messages.finish()
        deliveries.finish()
    }

    /// Ends the listeners' sequences at once, and forgets what they still hold.
    func discard() {
        onRoom = nil
        messages.discard()
        deliveries.discard()
        (sizes, unprocessedBytes) = ([:], 0)
    }
}
