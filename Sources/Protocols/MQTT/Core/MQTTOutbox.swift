import Primitives
import TransportAPI

/// Messages that wait until a connection can take them: first in, first out, and bounded.
package struct MQTTOutbox: Sendable {
    private var messages = Deque<MQTTPublish>()
    /// How many bytes they are counted as: ``MQTTPublish/keptBytes``.
    package private(set) var bytes = 0
    private let maximumCount: Int
    private let maximumBytes: Int
    /// Counts what all sessions of a broker keep; `nil` if nothing limits it.
    let quota: QueuedBytesQuota?

    /// An empty one, for 1,000 messages and 1 MiB unless told otherwise.
    package init(maximumCount: Int = 1000, maximumBytes: Int = 1 << 20, quota: QueuedBytesQuota? = nil) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.quota = quota
    }

    package var count: Int { messages.count }
    var first: MQTTPublish? { messages.first }

    /// Adds a message; `false` if there is no room for it.
    ///
    /// - Parameter mayPass: it may pass the bound on bytes, since it is about to be sent.
    package mutating func append(_ publish: MQTTPublish, mayPass: Bool = false) -> Bool {
        guard count < maximumCount, mayPass || bytes + publish.keptBytes <= maximumBytes else { return false }
        messages.append(publish)
        bytes += publish.keptBytes
        quota?.add(publish)
        return true
    }

    /// Adds a message in place of the oldest ones. Returns `false`, and drops none, if the message is too large for the outbox.
    ///
    /// - Parameter mayPass: it may pass the bound on bytes if it is alone.
    package mutating func replaceOldest(by publish: MQTTPublish, mayPass: Bool = false) -> Bool {
        guard mayPass || publish.keptBytes <= maximumBytes else { return false }
        while count > 0 {
            removeFirst()
            if append(publish, mayPass: mayPass && count == 0) { return true }
        }
        return false
    }

    mutating func removeFirst() {
        guard let message = messages.popFirst() else { return }
        bytes -= message.keptBytes
        quota?.remove(message)
        // A kept session may be silent for days after a burst.
        if messages.isEmpty, messages.capacity > 64 { messages = Deque() }
    }

    mutating func removeAll() {
        while count > 0 { removeFirst() }
    }
}
