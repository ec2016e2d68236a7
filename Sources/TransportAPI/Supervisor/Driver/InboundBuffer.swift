import Primitives

/// Who takes messages before the listeners get them, in this order.
package enum MessageClaimant: Int, CaseIterable, Sendable {
    /// Requests and their answers.
    case requests
    /// Files and other large payloads.
    case transfers
    /// The client of a broker with topics.
    case topics
}

/// Who gets a message that nobody claims.
package enum MessageAudience: Sendable {
    /// The app, which acknowledges it (``Supervisor/deliveries``).
    case deliveries
    /// So many listeners of ``Supervisor/messages``.
    case messages(listeners: Int)
}

/// Decides about one message, on the runtime. With `true` the claimant has the message and acknowledges it, now or later.
/// Until then the message counts towards the limits of the buffer. With `false` the message goes on to its audience.
package typealias MessageClaim = @Sendable (ReceivedMessage, MessageAudience) -> Bool

/// Passes received messages to the listeners, and counts those that the app has not acknowledged. Lives on its owner's
/// runtime.
final class InboundBuffer {
    let messages: MulticastBuffer<Payload>
    let deliveries = MulticastBuffer<ReceivedMessage>(limit: .max, .pause, keepsBacklog: true, passesOn: true)
    /// Whether each message is acknowledged by a receipt, because the app has requested ``deliveries``, or because a
    /// claimant acknowledges messages later than it takes them.
    private(set) var isAcknowledgedByApp = false
    /// Whether the app has requested ``deliveries``.
    private(set) var isRequestedByApp = false
    /// The claims, in their order.
    private var claims: [(claimant: MessageClaimant, claim: MessageClaim)] = []
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

    /// Whether the app has not processed all messages that it was given. Then the peer may have to wait before it sends more.
    var waitsForApp: Bool { keptCount > 0 || messages.bytes > 0 }

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

    /// From now on each message is shown to this claim; with `nil`, to none of the claimant.
    func claim(as claimant: MessageClaimant, _ claim: MessageClaim?) {
        claims.removeAll { $0.claimant == claimant }
        guard let claim else { return }
        let place = claims.firstIndex { $0.claimant.rawValue > claimant.rawValue } ?? claims.count
        claims.insert((claimant, claim), at: place)
    }

    /// Whether there are claimants.
    var hasClaims: Bool { !claims.isEmpty }

    private func isClaimed(_ message: ReceivedMessage) -> Bool {
        let audience: MessageAudience =
            isRequestedByApp ? .deliveries : .messages(listeners: messages.listenerCount)
        return claims.contains { $0.claim(message, audience) }
    }

    /// Gives the app a message that was acknowledged when it was received.
    func give(_ payload: Payload) {
        if !claims.isEmpty, isClaimed(ReceivedMessage(payload, nil)) { return }
        guard isRequestedByApp else { return messages.send(payload) }
        if messages.hasListeners { messages.send(payload) }
        deliveries.send(ReceivedMessage(payload, nil))
    }

    /// Gives the app a message that it acknowledges under this key.
    func give(_ payload: Payload, _ key: UInt64, _ id: ReceivedMessage.ID?, isRepeated: Bool) {
        let message = ReceivedMessage(payload, Receipt(key, target), id: id, isRepeated: isRepeated)
        if !claims.isEmpty, isClaimed(message) {
            if !message.isAcknowledged { keep(payload, key) }
            return
        }
        guard isRequestedByApp else {
            messages.send(payload)
            return message.acknowledge()
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
