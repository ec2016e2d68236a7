import Codecs
import SocketIO
import TransportAPI

/// The message of a fan-out: a chat message that is encoded once. Only the digits of its number change, so that neither the
/// publisher nor a subscriber spends time in a codec.
struct FanoutMessage: Sendable {
    /// Fifteen digits that no text of the corpus has.
    private static let placeholder: UInt64 = 907_865_746_352_413

    private let template: [UInt8]
    private let place: Int
    private let kind: Payload.Kind

    /// A message with `size` bytes of text.
    init(size: Int, codec: WireFormat, seed: UInt64) throws(CodecError) {
        var message = EchoBench.message(size: size, seed: seed)
        message.id = MessageID.text(Self.placeholder)
        let (bytes, digits) = (try codec.codec().encode(message), Array(message.id.utf8))
        template = bytes
        place = bytes.indices.first { bytes[$0...].starts(with: digits) } ?? 0
        kind = codec.isText ? .text : .binary
    }

    /// The bytes of a message.
    var count: Int { template.count }

    func payload(_ number: UInt64) -> Payload {
        var bytes = template
        bytes.replaceSubrange(place..<place + MessageID.digits, with: MessageID.text(number).utf8)
        return Payload(bytes, kind: kind)
    }

    /// The number of a received message; `nil` if it is another one.
    func number(of payload: Payload) -> UInt64? {
        let bytes = payload.bytes
        guard bytes.count == template.count else { return nil }
        var number: UInt64 = 0
        for digit in bytes[place..<place + MessageID.digits] {
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
struct FanoutCounts: Sendable {
    /// How many messages are followed.
    static let window = 1024

    private struct Message {
        var intended: Int64 = 0
        /// How many subscribers have it.
        var arrived = 0
        /// Whether its missing deliveries count as lost.
        var isGivenUp = false
    }

    /// The times from the intended send time until the first subscriber, half of the subscribers, and the last subscriber have
    /// a message.
    struct Times: Sendable {
        var first = Histogram()
        var half = Histogram()
        var last = Histogram()

        mutating func merge(_ other: Times) {
            first.merge(other.first)
            half.merge(other.half)
            last.merge(other.last)
        }
    }

    var times = Times()
    /// Received messages that are not the publisher's.
    private(set) var strange = 0
    /// Deliveries, each counted once.
    private(set) var delivered = 0
    /// Messages that have left the publisher.
    private(set) var sent: UInt64 = 0
    /// The messages in the window that not all subscribers have.
    private(set) var incomplete = 0
    private var trackers: [SequenceTracker]
    private var messages = [Message](repeating: Message(), count: window)
    private let subscribers: Int

    init(subscribers: Int) {
        self.subscribers = subscribers
        trackers = Array(repeating: SequenceTracker(window: Self.window), count: subscribers)
    }

    /// Counts a message as sent to all subscribers, and returns its number.
    mutating func send(intended: Int64) -> UInt64 {
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
    mutating func take(_ number: UInt64?, _ subscriber: Int, at now: Int64) -> Bool {
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
    var isFull: Bool { sent >= UInt64(Self.window) && missing(sent) > 0 }

    /// Whether all subscribers have a message of the window, or the others count as lost.
    func isComplete(_ number: UInt64) -> Bool { missing(number) == 0 }

    /// The oldest message in the window that some subscribers lack, and how many lack it.
    var oldestIncomplete: (number: UInt64, missing: Int)? {
        (sent - min(sent, UInt64(Self.window))..<sent).lazy
            .map { ($0, missing($0)) }
            .first { $0.1 > 0 }
    }

    private func missing(_ number: UInt64) -> Int {
        let message = messages[slot(number)]
        return message.isGivenUp ? 0 : subscribers - message.arrived
    }

    /// Counts all deliveries in flight as lost. A later arrival reverses that.
    mutating func loseRest() {
        for number in sent - min(sent, UInt64(Self.window))..<sent {
            for index in trackers.indices { trackers[index].lose(number) }
            messages[slot(number)].isGivenUp = true
        }
        incomplete = 0
    }

    /// The accounts of all deliveries.
    var accounts: DeliveryCounts {
        var accounts = trackers.reduce(DeliveryCounts()) { $0 + $1.accounts }
        accounts.unexpected += strange
        return accounts
    }

    private func slot(_ number: UInt64) -> Int { Int(number % UInt64(Self.window)) }
}
