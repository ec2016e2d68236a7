import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A bounded queue of received messages for their consumer. A connection stops reading when it is full.
struct Inbox: ~Copyable {
    private var messages = Deque<Payload>()
    private var bytes = 0
    private let limits: ConnectionLimits

    /// How much more may be read while a send waits for its acknowledgement. Brokers send less than this without a
    /// receipt.
    private static let (excessMessages, excessBytes) = (1024, 1 << 20)

    init(_ limits: ConnectionLimits) {
        self.limits = limits
    }

    var count: Int { messages.count }

    /// How much memory the inbox takes, in bytes.
    var bufferedBytes: Int { bytes + count * Payload.bookkeeping }

    /// Whether another message may be read. A single message may exceed the limit on bytes, so no message is too large
    /// for an empty inbox.
    var hasRoom: Bool { count < limits.inboxMessages && bytes < limits.inboxBytes }

    /// Whether another message may be read while a send waits for its acknowledgement, which can come after the
    /// message.
    var hasExcessRoom: Bool {
        count < limits.inboxMessages + Self.excessMessages && bytes < limits.inboxBytes + Self.excessBytes
    }

    /// Whether enough has been consumed to resume reading.
    var isHalfEmpty: Bool { count <= limits.inboxMessages / 2 && bytes <= limits.inboxBytes / 2 }

    mutating func append(_ payload: Payload) {
        bytes += payload.bytes.count
        messages.append(payload)
    }

    /// Replaces the numbers from 1 on that messages name (``/TransportAPI/Payload/subscription``) by these.
    mutating func number(subscriptions numbers: [UInt32]) {
        for _ in 0..<messages.count {
            guard var payload = messages.popFirst() else { return }
            let number = Int(payload.subscription)
            if number > 0, number <= numbers.count { payload.subscription = numbers[number - 1] }
            messages.append(payload)
        }
    }

    mutating func popFirst() -> Payload? {
        guard let payload = messages.popFirst() else { return nil }
        bytes -= payload.bytes.count
        return payload
    }
}
