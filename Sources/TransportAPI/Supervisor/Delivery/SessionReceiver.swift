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

    /// A message as it has arrived.
    package struct Arrival: Sendable, Hashable {
        package let payload: Payload
        /// Whether the peer has sent it before.
        package let isRepeated: Bool

        package init(_ payload: Payload, isRepeated: Bool = false) {
            (self.payload, self.isRepeated) = (payload, isRepeated)
        }
    }

    /// An early message, or numbers that the peer leaves out.
    private struct Early: Sendable {
        let last: UInt64
        let message: Arrival?

        var size: Int { message?.payload.bufferedBytes ?? Payload.bookkeeping }
    }

    /// The number up to which all messages were passed on.
    package private(set) var received: UInt64
    /// The number before the first one that was expected.
    private let start: UInt64
    /// What has arrived early, by the first number.
    private var early: [UInt64: Early] = [:]
    /// The number of early messages.
    package var earlyCount: Int { early.count }
    /// The memory of the early messages, in bytes.
    package private(set) var earlyBytes = 0
    private let earlyLimit: Int
    /// The number of messages that arrived again.
    package private(set) var duplicates: UInt64 = 0

    /// Creates a receiver that expects the message after `received`.
    ///
    /// - Parameter earlyLimit: How many bytes of early messages are kept. Each message counts 128 bytes more than its
    ///   payload.
    package init(after received: UInt64 = 0, earlyLimit: Int = .max) {
        (self.received, start) = (received, received)
        self.earlyLimit = earlyLimit
    }

    /// Whether nothing has arrived.
    var isUntouched: Bool { received == start && early.isEmpty }

    /// Takes a message. Calls `give` with the number and the message for each one that is in order now.
    ///
    /// - Throws: `.protocolViolation` if the number is beyond the window. A sender that respects the window never sends
    ///   such a number.
    package mutating func receive(
        _ number: UInt64,
        _ message: Arrival,
        give: (UInt64, Arrival) -> Void
    ) throws(TransportError) -> Verdict {
        try take(number...number, message, give: give)
    }

    /// Takes a skip frame: the peer leaves these numbers out. Calls `give` like ``receive(_:_:give:)``.
    package mutating func skip(
        _ numbers: ClosedRange<UInt64>,
        give: (UInt64, Arrival) -> Void
    ) throws(TransportError) -> Verdict {
        try take(numbers, nil, give: give)
    }

    private mutating func take(
        _ numbers: ClosedRange<UInt64>,
        _ message: Arrival?,
        give: (UInt64, Arrival) -> Void
    ) throws(TransportError) -> Verdict {
        let first = numbers.lowerBound
        guard numbers.upperBound > received, early[first] == nil else {
            guard first > 0 else { throw .envelope("numbers begin at one") }
            duplicates += 1
            return .duplicate
        }
        guard first <= received || first - received <= Self.window else {
            throw .envelope("a number is beyond the window")
        }
        let arrival = Early(last: numbers.upperBound, message: message)
        guard first <= received + 1 else {
            guard arrival.size <= earlyLimit - earlyBytes else { return .noRoom }
            early[first] = arrival
            earlyBytes += arrival.size
            return .new
        }
        received = arrival.last
        if let message { give(first, message) }
        if first != arrival.last { forgetEarly(through: received) }
        while !early.isEmpty, let next = early.removeValue(forKey: received + 1) {
            let number = received + 1
            received = next.last
            earlyBytes -= next.size
            if let message = next.message { give(number, message) }
            if number != next.last { forgetEarly(through: received) }
        }
        if early.isEmpty, early.capacity > 16 { early = [:] }
        return .new
    }

    /// Expects no message up to this number any more.
    mutating func skip(through number: UInt64) {
        guard number > received else { return }
        received = number
        forgetEarly(through: number)
    }

    private mutating func forgetEarly(through number: UInt64) {
        guard !early.isEmpty else { return }
        early = early.filter { $0.key > number }
        earlyBytes = early.values.reduce(0) { $0 + $1.size }
    }

    /// Expects the message after this number, in another session.
    mutating func restart(after number: UInt64) {
        self = SessionReceiver(after: number, earlyLimit: earlyLimit)
    }

    /// Drops the early messages, because the connection has ended. All unacknowledged messages are sent again on the
    /// next one.
    package mutating func forgetEarly() {
        early = [:]
        earlyBytes = 0
    }
}
