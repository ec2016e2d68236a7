import Primitives

/// A part of a server that keeps bytes for its clients: its connections, or its sessions. Lives on the server's runtime.
package protocol BufferKeeper: AnyObject {
    /// How many bytes it keeps for the client for which it keeps most.
    var largestBuffered: Int { get }
    /// Ends that client, and lets go of what was kept for it. `limit` is what all clients together may have.
    func endLargest(_ limit: Int)
}

/// What all parts of one server keep for their clients together, in bytes, and the limit on it. Beyond the limit the client for
/// which most is kept is ended, whichever part keeps it. Lives on the server's runtime.
package final class BufferedTotal {
    private struct Part {
        weak var keeper: (any BufferKeeper)?
    }

    /// The limit where no part has one: 512 MiB.
    package static let standardLimit = 512 << 20

    package private(set) var bytes = 0
    private var parts: [Part] = []
    private var isRelieving = false

    package init() {}

    /// The smallest limit of all parts that have been added; `nil` if none had one.
    private var smallestLimit: Int?
    /// How many bytes all parts may keep together.
    package var limit: Int { smallestLimit ?? Self.standardLimit }

    /// Counts another part, which keeps so many bytes now.
    package func add(_ keeper: any BufferKeeper, keeping bytes: Int, limit: Int?) {
        parts.removeAll { $0.keeper == nil }
        guard !parts.contains(where: { $0.keeper === keeper }) else { return }
        parts.append(Part(keeper: keeper))
        if let limit { smallestLimit = min(smallestLimit ?? limit, limit) }
        changed(by: bytes)
    }

    /// A part keeps so much more, or less.
    package func changed(by change: Int) {
        bytes += change
        guard change > 0, !isRelieving, bytes > limit else { return }
        isRelieving = true
        var before = Int.max
        // An end that frees nothing at once frees it later.
        while bytes > limit, bytes < before {
            before = bytes
            let largest = parts.lazy.compactMap(\.keeper).max { $0.largestBuffered < $1.largestBuffered }
            largest?.endLargest(limit)
        }
        isRelieving = false
    }
}

/// What one session of a server keeps, as its total counts it: for as long as the app can take messages of the session,
/// which may be longer than the session lives. Lives on the server's runtime.
final class SessionBuffer {
    private let total: RuntimeBound<BufferedTotal>
    private weak var intake: Intake?
    private var messageBytes = 0
    private var otherBytes = 0

    init(_ intake: Intake, counting total: RuntimeBound<BufferedTotal>) {
        self.total = total
        self.intake = intake
        intake.messages.onTaken = { [self] in count($0, otherBytes) }
    }

    deinit {
        let bytes = bytes
        if bytes != 0 { total.execute { [total] in total.value.changed(by: -bytes) } }
    }

    var bytes: Int { messageBytes + otherBytes }

    /// The session keeps so many bytes of messages that the app has not taken, and so many others.
    func count(_ messages: Int, _ others: Int) {
        let before = bytes
        (messageBytes, otherBytes) = (messages, others)
        if bytes != before { total.value.changed(by: bytes - before) }
    }

    /// Forgets the messages that the app has not taken, and ends their sequence.
    func discard() {
        intake?.discard()
    }
}

/// A listener whose connections count what they buffer for a total that others share.
package protocol BufferingListener: Listener {
    /// Counts for `total` from now on, if the listener lives on the same runtime.
    func join(_ total: RuntimeBound<BufferedTotal>)
}

extension Payload {
    /// What a queue keeps beside a message, in bytes, at most: the headers of its array and the message's own place.
    package static let bookkeeping = 128

    /// How much memory the message takes in a queue, in bytes.
    package var bufferedBytes: Int { bytes.count + (topic?.utf8.count ?? 0) + Self.bookkeeping }
}
