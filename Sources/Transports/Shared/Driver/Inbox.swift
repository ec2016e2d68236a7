import SocketIO
import TransportAPI

/// Messages that wait for their consumer: first in, first out, and bounded. A connection stops reading when it is full.
struct Inbox: ~Copyable {
    private var messages = Deque<Payload>()
    private var bytes = 0
    private let limits: ConnectionLimits

    /// How much more may be read while acknowledgements are waited for: more than brokers send without a receipt.
    private static let (excessMessages, excessBytes) = (1024, 1 << 20)

    init(_ limits: ConnectionLimits) {
        self.limits = limits
    }

    var count: Int { messages.count }

    /// How much memory it takes, in bytes.
    var bufferedBytes: Int { bytes + count * Payload.bookkeeping }

    /// Whether another message may be read. A single message may pass the bound on bytes, so that no message is too large
    /// for an empty inbox.
    var hasRoom: Bool { count < limits.inboxMessages && bytes < limits.inboxBytes }

    /// Whether another message may be read while a send waits for its acknowledgement, which may come behind the message.
    var hasExcessRoom: Bool {
        count < limits.inboxMessages + Self.excessMessages && bytes < limits.inboxBytes + Self.excessBytes
    }

    /// Whether so much has been consumed that reading on pays.
    var isHalfEmpty: Bool { count <= limits.inboxMessages / 2 && bytes <= limits.inboxBytes / 2 }

    mutating func append(_ payload: Payload) {
        bytes += payload.bytes.count
        messages.append(payload)
    }

    mutating func popFirst() -> Payload? {
        guard let payload = messages.popFirst() else { return nil }
        bytes -= payload.bytes.count
        return payload
    }
}

/// The bounds of one connection.
public struct ConnectionLimits: Sendable, Hashable {
    /// How many received messages may wait for their consumer before reading stops; 1024 by default.
    public var inboxMessages = 1024
    /// How many bytes of received messages may wait before reading stops; 4 MiB by default.
    public var inboxBytes = 4 << 20
    /// How many bytes may wait for the kernel before senders do; 1 MiB by default.
    public var writeBuffer = 1 << 20
    /// How many frames without a message (pings, subscriptions, empty fragments) the far side may send in a second before the
    /// connection is ended; 1,000 by default.
    public var controlRate = 1000
    /// Servers: whether a far side that does not read its answers is not read from either, at twice ``writeBuffer``. Two sides
    /// that both did so could wait for each other.
    var readsOnlyWhileRead = false
    /// How long a close may take after the peer last took bytes; 5 s by default. The time starts again whenever the peer takes
    /// some. Then the connection is closed, and `close` reports how much was not delivered.
    public var closeTimeout: Duration = .seconds(5)
    /// How long a close may take in all, however slowly the peer reads; 60 s by default.
    public var closeTotal: Duration = .seconds(60)
    /// How long a connection that this side did not close, but the peer, an error or a limit has ended, may take to
    /// hand its last bytes over; 2 s by default.
    public var linger: Duration = .seconds(2)
    /// How long the connection may be silent before a supervisor asks for a sign of life; `nil`, the default: as long
    /// as the core's capabilities say.
    public var keepaliveInterval: Duration?

    /// The defaults.
    public init() {}

    /// What a connection within these limits can do, whose core can do that.
    func describe(_ capabilities: Capabilities) -> Capabilities {
        var capabilities = capabilities
        // A core that has a rhythm of its own knows it best.
        if let keepaliveInterval, !capabilities.keepsItselfAlive { capabilities.keepaliveInterval = keepaliveInterval }
        return capabilities
    }
}
