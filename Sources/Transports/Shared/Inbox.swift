import TransportAPI

/// Messages that wait for their consumer: first in, first out, and bounded. A link stops reading when it is full.
struct Inbox {
    private var ring: [Payload?] = []
    private var head = 0
    private(set) var count = 0
    private(set) var bytes = 0
    private let limits: LinkLimits

    init(_ limits: LinkLimits) {
        self.limits = limits
    }

    /// Whether another message may be read. A single message may pass the bound on bytes, so that no message is too large
    /// for an empty inbox.
    var hasRoom: Bool { count < limits.inboxMessages && bytes < limits.inboxBytes }

    /// Whether so much has been consumed that reading on pays.
    var isHalfEmpty: Bool { count <= limits.inboxMessages / 2 && bytes <= limits.inboxBytes / 2 }

    mutating func append(_ payload: Payload) {
        if count == ring.count {
            ring = Array(ring[head...] + ring[..<head]) + Array(repeating: nil, count: max(4, count))
            head = 0
        }
        var place = head + count
        if place >= ring.count { place -= ring.count }
        ring[place] = payload
        count += 1
        bytes += payload.bytes.count
    }

    mutating func popFirst() -> Payload? {
        guard count > 0, let payload = ring[head].take() else { return nil }
        head = head + 1 == ring.count ? 0 : head + 1
        count -= 1
        bytes -= payload.bytes.count
        return payload
    }
}

/// The bounds of one link.
public struct LinkLimits: Sendable, Hashable {
    /// How many received messages may wait for their consumer before reading stops; 1024 by default.
    public var inboxMessages = 1024
    /// How many bytes of received messages may wait before reading stops; 4 MiB by default.
    public var inboxBytes = 4 << 20
    /// How many bytes may wait for the kernel before senders do; 1 MiB by default.
    public var writeBuffer = 1 << 20
    /// How many frames without a message (pings, subscriptions, empty fragments) the far side may send in a second before the
    /// link is ended; 1,000 by default.
    public var controlRate = 1000
    /// Servers: whether a far side that does not read its answers is not read from either, at twice ``writeBuffer``. Two sides
    /// that both did so could wait for each other.
    var readsOnlyWhileRead = false
    /// How long an ended link may take to hand its last bytes over; 2 s by default.
    public var linger: Duration = .seconds(2)

    /// The defaults.
    public init() {}
}
