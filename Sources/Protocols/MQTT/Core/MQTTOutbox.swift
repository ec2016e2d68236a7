import Primitives
import TransportAPI

/// A bounded queue of messages that wait until a connection can take them.
package struct MQTTOutbox: Sendable {
    private var messages = Deque<MQTTPublish>()
    /// The size of all messages, as the sum of their ``MQTTPublish/bufferedBytes``.
    package private(set) var bytes = 0
    private let maximumCount: Int
    private let maximumBytes: Int
    /// Counts the bytes that all sessions of a broker buffer; `nil` if there is no common limit.
    let quota: QueuedBytesQuota?

    /// Creates an empty queue; by default for 1,000 messages and 1 MiB.
    package init(maximumCount: Int = 1000, maximumBytes: Int = 1 << 20, quota: QueuedBytesQuota? = nil) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.quota = quota
    }

    /// The number of messages.
    package var count: Int { messages.count }
    var first: MQTTPublish? { messages.first }

    /// Adds a message. Returns `false` if there is no room for it.
    ///
    /// - Parameters:
    ///   - publish: The message.
    ///   - mayPass: Whether the message may exceed the limit of bytes, because it is about to be sent.
    package mutating func append(_ publish: MQTTPublish, mayPass: Bool = false) -> Bool {
        guard count < maximumCount, mayPass || bytes + publish.bufferedBytes <= maximumBytes else { return false }
        messages.append(publish)
        bytes += publish.bufferedBytes
        quota?.add(publish)
        return true
    }

    /// Adds a message and removes as many of the oldest as necessary. Returns `false` and removes none if the message
    /// is too large for the outbox.
    ///
    /// - Parameters:
    ///   - publish: The message.
    ///   - mayPass: Whether the message may exceed the limit of bytes if it is alone.
    package mutating func replaceOldest(by publish: MQTTPublish, mayPass: Bool = false) -> Bool {
        guard mayPass || publish.bufferedBytes <= maximumBytes else { return false }
        while count > 0 {
            removeFirst()
            if append(publish, mayPass: mayPass && count == 0) { return true }
        }
        return false
    }

    mutating func removeFirst() {
        guard let message = messages.popFirst() else { return }
        bytes -= message.bufferedBytes
        quota?.remove(message)
        // A kept session may be silent for days after a burst.
        if messages.isEmpty, messages.capacity > 64 { messages = Deque() }
    }

    mutating func removeAll() {
        while count > 0 { removeFirst() }
    }
}
