import CommandSupport
import TransportAPI

/// One message: its sender, its number, and bytes that are derived from them.
struct StackMessage: Hashable {
    static let headSize = 8

    var user: Int
    var sender: Int
    var number: Int
    var isAnswer = false

    /// The message in `size` bytes, at least ``headSize``.
    func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        bytes.append(UInt8(user >> 8 & 255))
        bytes.append(UInt8(user & 255))
        bytes.append(UInt8(sender))
        bytes.append(isAnswer ? 1 : 0)
        for shift in [24, 16, 8, 0] { bytes.append(UInt8(number >> shift & 255)) }
        let fill = UInt8((user &* 31 &+ number) & 255)
        guard count > bytes.count else { return bytes }
        return bytes + [UInt8](repeating: fill, count: count - bytes.count)
    }

    init(user: Int, sender: Int, number: Int, isAnswer: Bool = false) {
        (self.user, self.sender, self.number, self.isAnswer) = (user, sender, number, isAnswer)
    }

    /// Reads a message. Its bytes must match its sender and its number.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.headSize else { return nil }
        user = Int(bytes[0]) << 8 | Int(bytes[1])
        sender = Int(bytes[2])
        isAnswer = bytes[3] == 1
        number = bytes[4..<8].reduce(0) { $0 << 8 | Int($1) }
        let fill = UInt8((user &* 31 &+ number) & 255)
        guard bytes[Self.headSize...].allSatisfy({ $0 == fill }) else { return nil }
    }
}

extension StackChecker {
    /// What every schedule must keep, for the report.
    static let demands = [
        "each message has one outcome", "an acknowledged message was received, and processed where that was promised",
        "no connection ends without a fault", "after the faults everything recovers",
        "a server buffers no more than its limits", "no step makes endless system calls",
        "no timer and no descriptor is left after the close", "nobody connects to a server that it does not trust",
        "a message that a store has is received, and one that was stored as processed never comes again",
        "each request ends once, in its answer or in a true error",
        "a transfer arrives whole, or both sides know why not",
    ]
}

/// The messages of one schedule, their outcomes and their arrivals. Only one thread uses it.
final class StackChecker {
    struct Sent {
        var size: Int
        var outcome: SendOutcome?
        /// The subscribers of the broker at the time of the send.
        var audience: [String] = []
        /// Whether its process was killed, so that no outcome counts.
        var isLost = false
    }

    /// The first violation.
    private(set) var violation: String?
    private(set) var sent: [StackMessage: Sent] = [:]
    /// How often each message has arrived, and the last number of each sender at each receiver.
    private(set) var arrived: [StackMessage: Int] = [:]
    private var last: [String: Int] = [:]
    /// A subscriber of a broker, or a member of a room: its received messages, and the acknowledged ones that it must
    /// receive.
    private struct Subscriber {
        var isOpen = true
        var taken: Set<StackMessage> = []
        var due: Set<StackMessage> = []
        /// How many missed messages the room has reported to it.
        var missed = 0
    }

    private var subscribers: [String: Subscriber] = [:]
    /// The total number of sent bytes.
    private(set) var bytesSent = 0
    /// Operations that have begun and not ended.
    private(set) var pending: [Int: String] = [:]
    private var operations = 0
    private var arrivals = 0
    /// How many operations have ended, and how many messages have arrived.
    var progress: Int { operations - pending.count + arrivals }

    func fail(_ text: @autoclosure () -> String) {
        if violation == nil { violation = text() }
    }

    /// A datagram is sent by a client or a server of DTLS. It must contain whole records, and no data that is not encrypted.
    func travels(_ datagram: UnsafeRawBufferPointer) {
        var rest = datagram[...]
        while !rest.isEmpty {
            let start = rest.startIndex
            guard rest.count >= 13, (20...23).contains(rest[start]), rest[start + 1] == 0xfe else {
                return fail("a datagram of \(datagram.count) bytes contains something else than records of DTLS")
            }
            let size = 13 + (Int(rest[start + 11]) << 8 | Int(rest[start + 12]))
            guard size <= rest.count else {
                return fail("a datagram of \(datagram.count) bytes ends within a record")
            }
            let isPlain = rest[start + 3] == 0 && rest[start + 4] == 0
            if isPlain, rest[start] == 23 { fail("a record of data is not encrypted") }
            rest = rest.dropFirst(size)
        }
        // A longer message contains a run of equal bytes, and encryption hides it.
        for start in stride(from: 0, to: datagram.count - 15, by: 16)
        where datagram[start..<start + 16].allSatisfy({ $0 == datagram[start] }) {
            fail("a datagram of \(datagram.count) bytes contains clear text at \(start)")
        }
    }

    /// Begins an operation that must end.
    func begin(_ name: String) -> Int {
        operations += 1
        pending[operations] = name
        return operations
    }

    func end(_ operation: Int) {
        if pending.removeValue(forKey: operation) == nil { fail("operation \(operation) ended twice") }
    }

    /// - Parameters:
    ///   - audience: the only connection that gets it from a broker; `nil` for all subscribers.
    ///   - member: the member of a room that sends it, which does not get it.
    func sends(_ message: StackMessage, size: Int, audience: String? = nil, from member: String? = nil) {
        bytesSent += size
        let all = subscribers.filter { $0.value.isOpen && $0.key != member }.map(\.key).sorted()
        sent[message] = Sent(size: size, audience: audience.map { [$0] } ?? all)
    }

    /// A connection has subscribed to the common topic, or a member has entered the room.
    func subscribes(_ name: String) {
        subscribers[name] = Subscriber()
    }

    /// How many members have entered the room, also if they have left it.
    var members: Int { subscribers.count }

    /// A room has reported missed messages to a member. In calm schedules it reports at most those that have not arrived.
    func misses(_ count: Int, at name: String, isCalm: Bool) {
        guard let member = subscribers[name] else { return }
        subscribers[name]?.missed += count
        guard isCalm else { return }
        let lacking = sent.count { $0.value.audience.contains(name) && !member.taken.contains($0.key) }
        if member.missed + count > lacking {
            fail("\(name) received a report of \(member.missed + count) missed messages, and lacks \(lacking)")
        }
    }

    /// A member that has received fewer messages than the room has acknowledged, without a report.
    func lackingInRoom() -> String? {
        for (name, member) in subscribers.sorted(by: { $0.key < $1.key })
        where member.isOpen && member.due.count > member.missed {
            return "\(name) lacks \(member.due.count) messages, and received a report of \(member.missed)"
        }
        return nil
    }

    /// The subscriber has ended, or is about to end.
    func leaves(_ name: String) {
        subscribers[name]?.isOpen = false
        subscribers[name]?.due = []
    }

    /// A subscriber that lacks an acknowledged message of this user, or of any. It is `nil` after many bytes, because a
    /// broker may then drop messages for slow subscribers.
    func lacking(ofUser user: Int? = nil) -> String? {
        guard bytesSent < 500_000 else { return nil }
        for (name, subscriber) in subscribers.sorted(by: { $0.key < $1.key }) {
            let due = subscriber.due.filter { user == nil || $0.user == user }.min { $0.number < $1.number }
            if let due { return "\(name) lacks message \(due.number) of \(due.user)" }
        }
        return nil
    }

    /// The process that has sent the message was killed.
    func loses(_ message: StackMessage) {
        sent[message]?.isLost = true
    }

    /// The message may arrive, whatever its sender was told.
    func revives(_ message: StackMessage) {
        sent[message]?.outcome = nil
        sent[message]?.isLost = true
    }

    /// Messages that must arrive before the end.
    private(set) var expected: [StackMessage] = []

    func expect(_ messages: [StackMessage]) {
        expected += messages
    }

    /// Messages that a session has acknowledged, so that its app gets them.
    private(set) var acknowledged: [StackMessage] = []
    /// Messages that an app has processed.
    private(set) var processed: Set<StackMessage> = []
    /// Messages that a broker has acknowledged, by the client with the kept session that must receive them.
    private var owed: [String: [StackMessage]] = [:]

    func acknowledges(_ message: StackMessage) {
        acknowledged.append(message)
    }

    func processes(_ bytes: [UInt8]) {
        if let message = StackMessage(bytes) { processed.insert(message) }
    }

    /// A broker has accepted a message for the kept session of `client`.
    func owes(_ message: StackMessage, to client: String) {
        owed[client, default: []].append(message)
    }

    /// A broker was killed, and with it the messages that it had accepted; or a client, with those that it had received.
    func forgetOwed(to client: String? = nil) {
        if let client { owed[client] = nil } else { owed = [:] }
    }

    /// The first message that a broker has accepted for `client` and that its app has not processed.
    func owed(to client: String) -> StackMessage? {
        owed[client]?.first { !processed.contains($0) }
    }

    /// The receivers were ended before they had received all messages.
    func expectNothing() {
        expected = []
    }

    func settled(_ message: StackMessage, _ outcome: SendOutcome) {
        sent[message]?.outcome = outcome
        if outcome == .acknowledged {
            for name in sent[message]?.audience ?? [] {
                guard let subscriber = subscribers[name], subscriber.isOpen, !subscriber.taken.contains(message) else {
                    continue
                }
                subscribers[name]?.due.insert(message)
            }
        }
        // A rejected message is not sent.
        if case .rejected(let error) = outcome, arrived[message] != nil {
            fail("\(message) arrived, and its send was rejected: \(error)")
        }
    }

    /// - Parameters:
    ///   - receiver: the name of the receiver. Each receiver has its own order.
    ///   - isOrdered: whether the messages of one sender arrive in order, and once.
    func arrives(_ bytes: [UInt8], at receiver: String, isOrdered: Bool, isOnce: Bool) {
        guard let message = StackMessage(bytes) else {
            return fail("\(receiver) got \(bytes.count) unknown bytes")
        }
        guard let record = sent[message], record.size == bytes.count else {
            return fail("\(receiver) got \(message) with \(bytes.count) bytes, of \(sent[message]?.size ?? -1)")
        }
        if case .rejected(let error) = record.outcome {
            fail("\(message) arrived at \(receiver), and its send was rejected: \(error)")
        }
        arrivals += 1
        arrived[message, default: 0] += 1
        if subscribers[receiver] != nil {
            subscribers[receiver]?.taken.insert(message)
            subscribers[receiver]?.due.remove(message)
        }
        let key = "\(receiver)/\(message.user)/\(message.sender)/\(message.isAnswer)"
        if isOrdered {
            if let former = last[key], former >= message.number {
                fail("\(receiver) got \(message) after number \(former)")
            }
            last[key] = message.number
        }
        if isOnce {
            let once = "\(key)/\(message.number)"
            if last[once] != nil { fail("\(receiver) got \(message) twice") }
            last[once] = 1
        }
    }
}
