/// The receiving half of a session. It passes on each message once and in order, even if messages arrive twice or too
/// early.
package struct SessionReceiver: Sendable {
    /// The result of receiving a message.
    package enum Verdict: Sendable, Hashable {
        /// The message is new. It was passed on or is kept.
        case new
        /// The message has arrived before.
        case duplicate
        /// The message arrived too early, and there is no room to keep it. It is dropped.
        case noRoom
    }

    /// The number of early messages that are kept until the messages before them arrive. It is the largest window of a
    /// sender.
    static let window: UInt64 = 1024

    /// The sequence number up to which all messages were passed on.
    package private(set) var received: UInt64 = 0
    /// The early messages. `nil` stands for a message that was given up.
    private var early: [UInt64: Payload?] = [:]
    /// The number of early messages.
    package var earlyCount: Int { early.count }
    /// The memory of the early messages, in bytes.
    package private(set) var earlyBytes = 0
    private let earlyLimit: Int
    /// The number of messages that arrived again.
    package private(set) var duplicates: UInt64 = 0

    /// Creates a receiver that has received nothing.
    ///
    /// - Parameter earlyLimit: How many bytes of early messages are kept. Each message counts 128 bytes more than its
    ///   payload.
    package init(earlyLimit: Int = .max) {
        self.earlyLimit = earlyLimit
    }

    /// Takes a message, or a skip frame if `payload` is `nil`. Calls `give` with the number and payload of each message
    /// that is in order now.
    ///
    /// - Throws: `.protocolViolation` if the number is beyond the window. A sender that respects the window never sends
    ///   such a number.
    package mutating func receive(
        _ sequence: UInt64,
        _ payload: Payload?,
        give: (UInt64, Payload) -> Void
    ) throws(TransportError) -> Verdict {
        guard sequence > received, early[sequence] == nil else {
            guard sequence > 0 else { throw .envelope("sequence numbers begin at one") }
            duplicates += 1
            return .duplicate
        }
        guard sequence - received <= Self.window else { throw .envelope("a sequence number is beyond the window") }
        guard sequence == received + 1 else {
            let size = Self.size(payload)
            guard size <= earlyLimit - earlyBytes else { return .noRoom }
            early[sequence] = .some(payload)
            earlyBytes += size
            return .new
        }
        received = sequence
        if let payload { give(sequence, payload) }
        while !early.isEmpty, let next = early.removeValue(forKey: received + 1) {
            received += 1
            earlyBytes -= Self.size(next)
            if let next { give(received, next) }
        }
        if early.isEmpty, early.capacity > 16 { early = [:] }
        return .new
    }

    /// Starts to receive from number one again.
    mutating func restart() {
        self = SessionReceiver(earlyLimit: earlyLimit)
    }

    /// Drops the early messages, because the connection has ended. All unacknowledged messages are sent again on the
    /// next one.
    package mutating func forgetEarly() {
        early = [:]
        earlyBytes = 0
    }

    private static func size(_ payload: Payload?) -> Int { payload?.bufferedBytes ?? Payload.bookkeeping }
}
