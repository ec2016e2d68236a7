import Codecs
import Measuring
import SocketIO
import TransportAPI

/// The message of a fan-out: a chat message that is encoded once. Only the digits of its number change, so that neither the
/// publisher nor a subscriber spends time in a codec.
package struct FanoutMessage: Sendable {
    /// Fifteen digits that no text of the corpus has.
    private static let placeholder: UInt64 = 907_865_746_352_413

    private let template: [UInt8]
    private let place: Int
    private let kind: Payload.Kind

    /// A message with `size` bytes of text.
    package init(size: Int, codec: WireFormat, seed: UInt64) throws(CodecError) {
        var message = ChatMessage.sample(size: size, seed: seed)
        message.id = MessageNumber.text(Self.placeholder)
        let (bytes, digits) = (try codec.codec().encode(message), Array(message.id.utf8))
        template = bytes
        place = bytes.indices.first { bytes[$0...].starts(with: digits) } ?? 0
        kind = codec.isText ? .text : .binary
    }

    /// The bytes of a message.
    package var count: Int { template.count }

    package func payload(_ number: UInt64) -> Payload {
        var bytes = template
        bytes.replaceSubrange(place..<place + MessageNumber.digits, with: MessageNumber.text(number).utf8)
        return Payload(bytes, kind: kind)
    }

    /// The number of a received message; `nil` if it is another one.
    package func number(of payload: Payload) -> UInt64? {
        let bytes = payload.bytes
        guard bytes.count == template.count else { return nil }
        var number: UInt64 = 0
        for digit in bytes[place..<place + MessageNumber.digits] {
            guard digit >= 0x30, digit <= 0x39 else { return nil }
            number = number * 10 + UInt64(digit - 0x30)
        }
        return number
    }
}

/// Follows each message to each subscriber.
///
/// Memory is limited. Only the newest ``window`` messages are followed, and one that leaves the window counts as lost for the
/// subscribers that do not have it.
package struct FanoutCounts: Sendable {
    /// How many messages are followed.
    package static let window = 1024

    private struct Message {
        var intended: Int64 = 0
        /// How many subscribers have it.
        var arrived = 0
        /// Whether its missing deliveries count as lost.
        var isGivenUp = false
    }

    /// The times from the intended send time until the first subscriber, half of the subscribers, and the last subscriber have
    /// a message.
    package struct Times: Sendable {
        package var first = Histogram()
        package var half = Histogram()
        package var last = Histogram()

        package init() {}

        package mutating func merge(_ other: Times) {
            first.merge(other.first)
            half.merge(other.half)
            last.merge(other.last)
        }
    }

    package var times = Times()
    /// Received messages that are not the publisher's.
    package private(set) var strange = 0
    /// Deliveries, each counted once.
    package private(set) var delivered = 0
    /// Messages that have left the publisher.
    package private(set) var sent: UInt64 = 0
    /// The messages in the window that not all subscribers have.
    package private(set) var incomplete = 0
    private var trackers: [SequenceTracker]
    private var messages = [Message](repeating: Message(), count: window)
    private let subscribers: Int

    package init(subscribers: Int) {
        self.subscribers = subscribers
        trackers = Array(repeating: SequenceTracker(window: Self.window), count: subscribers)
    }

    /// Counts a message as sent to all subscribers, and returns its number.
    package mutating func send(intended: Int64) -> UInt64 {
        let number = sent
        if isFull { incomplete -= 1 }
        for index in trackers.indices { _ = trackers[index].send() }
        messages[slot(number)] = Message(intended: intended)
        sent += 1
        incomplete += 1
        return number
    }

    /// Counts a message that a subscriber has received at a time. Returns `false` if it is a repeated message or a strange
    /// one.
    package mutating func take(_ number: UInt64?, _ subscriber: Int, at now: Int64) -> Bool {
        guard let number else {
            strange += 1
            return false
        }
        guard case .first = trackers[subscriber].answer(number) else { return false }
        delivered += 1
        messages[slot(number)].arrived += 1
        guard !messages[slot(number)].isGivenUp else { return true }
        let (time, arrived) = (now - messages[slot(number)].intended, messages[slot(number)].arrived)
        if arrived == 1 { times.first.record(time) }
        if arrived == (subscribers + 1) / 2 { times.half.record(time) }
        if arrived == subscribers {
            times.last.record(time)
            incomplete -= 1
        }
        return true
    }

    /// Whether there is no room for another message, unless the oldest one counts as lost.
    package var isFull: Bool { sent >= UInt64(Self.window) && missing(sent) > 0 }

    /// Whether all subscribers have a message of the window, or the others count as lost.
    package func isComplete(_ number: UInt64) -> Bool { missing(number) == 0 }

    /// The oldest message in the window that some subscribers lack, and how many lack it.
    package var oldestIncomplete: (number: UInt64, missing: Int)? {
        (sent - min(sent, UInt64(Self.window))..<sent).lazy
            .map { ($0, missing($0)) }
            .first { $0.1 > 0 }
    }

    private func missing(_ number: UInt64) -> Int {
        let message = messages[slot(number)]
        return message.isGivenUp ? 0 : subscribers - message.arrived
    }

    /// Counts all deliveries in flight as lost. A later arrival reverses that.
    package mutating func loseRest() {
        for number in sent - min(sent, UInt64(Self.window))..<sent {
            for index in trackers.indices { trackers[index].lose(number) }
            messages[slot(number)].isGivenUp = true
        }
        incomplete = 0
    }

    /// The accounts of all deliveries.
    package var accounts: DeliveryCounts {
        var accounts = trackers.reduce(DeliveryCounts()) { $0 + $1.accounts }
        accounts.unexpected += strange
        return accounts
    }

    private func slot(_ number: UInt64) -> Int { Int(number % UInt64(Self.window)) }
}
