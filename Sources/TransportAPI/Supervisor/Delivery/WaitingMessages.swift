import Primitives

/// The messages that wait for room in the outbox, the oldest first. Only with the policy `.wait` do messages wait, and
/// as many of them as fit into the outbox.
package struct WaitingMessages: Sendable {
    /// A message that waits.
    struct Message: Sendable {
        let id: MessageID
        let payload: Payload
        /// The time at which it ends in `.expired`.
        let expiry: Instant?
    }

    private var messages = Deque<Message>()
    /// The number of bytes of their payloads.
    package private(set) var bytes = 0
    private let configuration: OutboxConfiguration

    package init(_ configuration: OutboxConfiguration) {
        self.configuration = configuration
    }

    package var count: Int { messages.count }
    package var isEmpty: Bool { messages.isEmpty }
    var first: Message? { messages.first }
    /// The time at which the oldest one ends in `.expired`.
    var nextExpiry: Instant? { messages.first?.expiry }
    /// The payloads of all messages, the oldest first.
    var payloads: [Payload] { messages.map(\.payload) }

    /// Adds a message at the end.
    ///
    /// - Returns: `false` if it may not wait, or if there is no room for it.
    mutating func append(_ id: MessageID, _ payload: Payload, expiry: Instant?) -> Bool {
        let size = payload.bytes.count
        guard configuration.whenFull == .wait, count < configuration.maximumCount,
            size <= configuration.maximumBytes - bytes
        else { return false }
        messages.append(Message(id: id, payload: payload, expiry: expiry))
        bytes += size
        return true
    }

    /// Removes the oldest message.
    mutating func removeFirst() {
        remove(at: 0)
    }

    /// Removes a message, and returns whether it waited.
    mutating func remove(_ id: MessageID) -> Bool {
        guard let index = messages.firstIndex(where: { $0.id == id }) else { return false }
        remove(at: index)
        return true
    }

    /// Removes the oldest message if it is too old, and returns its identifier.
    mutating func removeExpired(at now: Instant) -> MessageID? {
        guard let first, let expiry = first.expiry, expiry <= now else { return nil }
        removeFirst()
        return first.id
    }

    /// Removes all messages, and returns their identifiers, the oldest first.
    mutating func removeAll() -> [MessageID] {
        let identifiers = messages.map(\.id)
        (messages, bytes) = (Deque(), 0)
        return identifiers
    }

    private mutating func remove(at index: Int) {
        bytes -= messages.remove(at: index).payload.bytes.count
    }
}
