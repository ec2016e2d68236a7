import TransportAPI

/// Messages that wait until a connection can take them: first in, first out, and bounded.
package struct MQTTOutbox: Sendable {
    private var messages: [MQTTPublish] = []
    private var head = 0
    /// How many bytes they are counted as: ``MQTTPublish/keptBytes``.
    package private(set) var bytes = 0
    private let maximumCount: Int
    private let maximumBytes: Int
    /// What all sessions of a broker keep, where somebody wants to know.
    let ledger: QueuedBytesQuota?

    /// An empty one, for 1,000 messages and 1 MiB unless told otherwise.
    package init(maximumCount: Int = 1000, maximumBytes: Int = 1 << 20, ledger: QueuedBytesQuota? = nil) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.ledger = ledger
    }

    package var count: Int { messages.count - head }
    var first: MQTTPublish? { head < messages.count ? messages[head] : nil }

    /// Adds a message; `false` if there is no room for it.
    ///
    /// - Parameter mayPass: it may pass the bound on bytes, since it is about to be sent.
    package mutating func append(_ publish: MQTTPublish, mayPass: Bool = false) -> Bool {
        guard count < maximumCount, mayPass || bytes + publish.keptBytes <= maximumBytes else { return false }
        messages.append(publish)
        bytes += publish.keptBytes
        ledger?.add(publish)
        return true
    }

    /// Adds a message where the oldest ones make room for it; `false`, and nothing is lost, if it does not fit at all.
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
        guard head < messages.count else { return }
        bytes -= messages[head].keptBytes
        ledger?.remove(messages[head])
        messages[head].payload = []
        head += 1
        if head == messages.count {
            messages.removeAll(keepingCapacity: head <= 64)
            head = 0
        } else if head > 64, head * 2 > messages.count {
            messages.removeFirst(head)
            head = 0
        }
    }

    mutating func removeAll() {
        while count > 0 { removeFirst() }
    }
}
