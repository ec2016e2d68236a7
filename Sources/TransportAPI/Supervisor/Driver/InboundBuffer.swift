import Primitives

/// Passes received messages to the listeners, and counts those that the app has not acknowledged. Lives on its owner's
/// runtime.
final class InboundBuffer {
    let messages: MulticastBuffer<Payload>
    let deliveries = MulticastBuffer<ReceivedMessage>(limit: .max, .pause, keepsBacklog: true, passesOn: true)
    /// Whether each message is acknowledged by a receipt, because the app has requested ``deliveries`` or there is an
    /// ``interceptor``.
    private(set) var isAcknowledgedByApp = false
    /// Whether the app has requested ``deliveries``.
    private(set) var isRequestedByApp = false
    /// Decides about each message before the listeners of ``messages`` get it, unless the app has requested
    /// ``deliveries``. `true` passes the message on and acknowledges it. With `false` the interceptor has the message,
    /// and acknowledges it later. The second argument is whether another listener than the interceptor's own one gets
    /// all messages.
    var interceptor: ((ReceivedMessage, Bool) -> Bool)?
    /// How many messages were given to the app and not acknowledged in their order.
    var unprocessedCount = 0
    /// How much memory the unacknowledged messages take, in bytes.
    private(set) var unprocessedBytes = 0
    private var sizes: [UInt64: Int] = [:]
    private let target: RuntimeBound<ReceiptTarget>
    /// Called when half of the buffer is free. Set it to `nil` to stop the calls.
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

    /// How many messages count towards the limit: the larger of two numbers. One is the number of messages of the
    /// current connection that wait for their own acknowledgement or an earlier one. The other is the number of
    /// messages that the app has, including those of earlier connections.
    private var keptCount: Int { max(unprocessedCount, sizes.count) }

    /// Whether there is room for another message.
    var hasRoom: Bool {
        guard isAcknowledgedByApp else { return messages.hasRoom }
        return keptCount < limit && unprocessedBytes < messages.byteLimit && messages.hasRoom
    }

    /// Whether the messages exceed the limit by `excess` or more, or take twice the limit in bytes.
    func isFull(beyond excess: Int) -> Bool {
        messages.isFull(beyond: excess) || keptCount - limit >= excess
            || unprocessedBytes / 2 >= messages.byteLimit
    }

    /// Notifies the source if half of the buffer is free.
    func offerRoom() {
        guard let onRoom else { return }
        if isAcknowledgedByApp {
            guard keptCount <= limit / 2, unprocessedBytes <= messages.byteLimit / 2, messages.isHalfEmpty
            else { return }
        }
        onRoom()
    }

    // MARK: Messages

    /// From now on the app acknowledges messages, which is reported to `owner`. Messages that no listener has taken
    /// were acknowledged when they were received.
    func acknowledgeByApp(reportingTo owner: any ConnectionDelegate) {
        isRequestedByApp = true
        makeReceipts(reportingTo: owner)
        for payload in messages.endBacklog() { deliveries.send(ReceivedMessage(payload, nil)) }
    }

    /// From now on each message has a receipt, which is reported to `owner`.
    func makeReceipts(reportingTo owner: any ConnectionDelegate) {
        isAcknowledgedByApp = true
        // Set as late as possible, because a weak reference makes each use of an object slower.
        target.value.owner = owner
    }

    /// Gives the app a message that was acknowledged when it was received.
    func give(_ payload: Payload) {
        guard isRequestedByApp else { return messages.send(payload) }
        if messages.hasListeners { messages.send(payload) }
        deliveries.send(ReceivedMessage(payload, nil))
    }

    /// Gives the app a message that it acknowledges under this key.
    func give(_ payload: Payload, _ key: UInt64, _ id: ReceivedMessage.ID?, isRepeated: Bool) {
        let message = ReceivedMessage(payload, Receipt(key, target), id: id, isRepeated: isRepeated)
        if !isRequestedByApp {
            guard let interceptor, !interceptor(message, messages.listenerCount > 1) else {
                messages.send(payload)
                return message.acknowledge()
            }
            return keep(payload, key)
        }
        keep(payload, key)
        if messages.hasListeners { messages.send(payload) }
        deliveries.send(message)
    }

    /// Counts a message until it is settled.
    private func keep(_ payload: Payload, _ key: UInt64) {
        let size = payload.bufferedBytes
        sizes[key] = size
        unprocessedBytes += size
    }

    /// The app has acknowledged or released a message.
    func settled(_ key: UInt64) {
        unprocessedBytes -= sizes.removeValue(forKey: key) ?? 0
    }

    /// Ends the listeners' sequences after their buffered elements.
    func finish() {
        onRoom = nil
        messages.finish()
        deliveries.finish()
    }

    /// Ends the listeners' sequences at once, and discards their buffered elements.
    func discard() {
        onRoom = nil
        messages.discard()
        deliveries.discard()
        (sizes, unprocessedBytes) = ([:], 0)
    }
}
