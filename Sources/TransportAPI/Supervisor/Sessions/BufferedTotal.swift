import Primitives

/// A part of a server that buffers bytes for its clients: its connections, or its sessions. Lives on the server's
/// runtime.
package protocol BufferKeeper: AnyObject {
    /// The largest number of bytes that it buffers for one client.
    var largestBuffered: Int { get }
    /// Ends the client with the most buffered bytes and frees them. `limit` is the limit for all clients together.
    func endLargest(_ limit: Int)
}

/// The bytes that all parts of one server buffer for their clients together, and the limit on them. Beyond the limit,
/// the client with the most buffered bytes in any part is ended. Lives on the server's runtime.
package final class BufferedTotal {
    private struct Part {
        weak var keeper: (any BufferKeeper)?
    }

    /// The limit if no part has one: 512 MiB.
    package static let standardLimit = 512 << 20

    package private(set) var bytes = 0
    private var parts: [Part] = []
    private var isRelieving = false

    package init() {}

    /// The smallest limit of all parts that were added; `nil` if none has one.
    private var smallestLimit: Int?
    /// How many bytes all parts may buffer together.
    package var limit: Int { smallestLimit ?? Self.standardLimit }

    /// Adds a part that buffers `bytes` now.
    package func add(_ keeper: any BufferKeeper, keeping bytes: Int, limit: Int?) {
        parts.removeAll { $0.keeper == nil }
        guard !parts.contains(where: { $0.keeper === keeper }) else { return }
        parts.append(Part(keeper: keeper))
        if let limit { smallestLimit = min(smallestLimit ?? limit, limit) }
        changed(by: bytes)
    }

    /// Records that the buffered bytes of a part have changed.
    package func changed(by change: Int) {
        bytes += change
        guard change > 0, !isRelieving, bytes > limit else { return }
        isRelieving = true
        var before = Int.max
        // If an end frees nothing at once, it frees the memory later.
        while bytes > limit, bytes < before {
            before = bytes
            let largest = parts.lazy.compactMap(\.keeper).max { $0.largestBuffered < $1.largestBuffered }
            largest?.endLargest(limit)
        }
        isRelieving = false
    }
}

/// The memory that one session of a server adds to the total. It counts while the app can take messages of the session,
/// which can be longer than the session lives. Lives on the server's runtime.
final class SessionBuffer {
    private let total: RuntimeBound<BufferedTotal>
    private weak var inbound: InboundBuffer?
    private var messageBytes = 0
    private var otherBytes = 0

    init(_ inbound: InboundBuffer, counting total: RuntimeBound<BufferedTotal>) {
        self.total = total
        self.inbound = inbound
        inbound.messages.onTaken = { [self] in count($0, otherBytes) }
    }

    deinit {
        let bytes = bytes
        if bytes != 0 { total.execute { [total] in total.value.changed(by: -bytes) } }
    }

    var bytes: Int { messageBytes + otherBytes }

    /// Records the bytes of messages that the app has not taken, and the other bytes of the session.
    func count(_ messages: Int, _ others: Int) {
        let before = bytes
        (messageBytes, otherBytes) = (messages, others)
        if bytes != before { total.value.changed(by: bytes - before) }
    }

    /// Discards the messages that the app has not taken, and ends their sequence.
    func discard() {
        inbound?.discard()
    }
}

extension Payload {
    /// The maximum memory that a queue needs for a message in addition to its bytes, for the header of its array and
    /// its own entry.
    package static let bookkeeping = 128

    /// How much memory the message takes in a queue, in bytes.
    package var bufferedBytes: Int { bytes.count + (topic?.utf8.count ?? 0) + Self.bookkeeping }
}
