import CommandSupport
import TransportAPI

/// The events of a world, as a hash that is equal for equal events, and as text if verbose.
struct EventLog {
    private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var lines: [String] = []
    let isVerbose: Bool

    init(isVerbose: Bool) {
        self.isVerbose = isVerbose
    }

    /// Adds an event to the hash: FNV-1a, a word at a time.
    mutating func note(_ time: Int64, _ code: Int, _ first: Int = 0, _ second: UInt64 = 0) {
        for word in [UInt64(bitPattern: time), UInt64(truncatingIfNeeded: code &<< 32 ^ first), second] {
            hash = (hash ^ word) &* 0x100_0000_01b3
            hash ^= hash >> 29
        }
    }

    /// Writes a line if verbose.
    mutating func write(_ time: Int64, _ text: @autoclosure () -> String) {
        guard isVerbose else { return }
        let (seconds, rest) = time.quotientAndRemainder(dividingBy: 1_000_000_000)
        let fraction = String(rest / 1000)
        let zeros = String(repeating: "0", count: 6 - fraction.utf8.count)
        lines.append("\(seconds).\(zeros)\(fraction)  \(text())")
    }
}

/// A rule that was broken.
struct Violation: Sendable, Equatable {
    /// Its number in ``Rule``.
    var rule: Rule
    /// The observation.
    var text: String

    var sentence: String { "rule \(rule.rawValue) (\(rule)): \(text)" }
}

/// The rules that every world must keep.
enum Rule: Int, Sendable, CaseIterable {
    /// Each message ends once, and is accepted at most once before that.
    case oneOutcome = 1
    /// An acknowledged message was delivered, once and in order. A rejected one was not.
    case delivery
    /// After the calm the connection is open and all messages have arrived.
    case recovery
    /// There is one connection at a time, and no other one gets a request.
    case oneConnection
    /// No event follows the end.
    case end
    /// No queue exceeds its limit.
    case bounds
    /// Time always advances, and attempts are separated by pauses.
    case progress
    /// A dead connection is detected in time.
    case liveness
    /// Honest peers never see a protocol violation.
    case honesty

    /// What it demands, for the report.
    var demand: String {
        switch self {
        case .oneOutcome: "each message has one outcome"
        case .delivery: "an acknowledged message was delivered once and in order"
        case .recovery: "after the faults everything arrives"
        case .oneConnection: "there is one connection at a time"
        case .end: "nothing follows the end"
        case .bounds: "no queue exceeds its limit"
        case .progress: "time advances, and attempts are separated by pauses"
        case .liveness: "a dead connection is detected in time"
        case .honesty: "honest peers see no protocol violation"
        }
    }
}

/// The fate of each message of one peer.
struct DeliveryChecker {
    struct Record {
        var isAccepted = false
        var outcome: SendOutcome?
        /// How often it was delivered, and the receiver's last incarnation in which it was.
        var deliveries = 0
        var epoch: UInt64 = 0
        /// Whether its sender has lost its memory.
        var isForgotten = false
    }

    private(set) var records: [Record] = []
    private var lastDelivered = -1
    private var lastEpoch: UInt64 = 0

    /// Records a message before its submission, and returns its identifier.
    mutating func submit() -> MessageID {
        records.append(Record())
        return MessageID(UInt64(records.count))
    }

    /// The number that a payload begins with.
    static func payload(_ id: MessageID, size: Int) -> Payload {
        var bytes = [UInt8](repeating: 0x20, count: size)
        bytes[0] = UInt8(truncatingIfNeeded: id.number >> 8)
        bytes[1] = UInt8(truncatingIfNeeded: id.number)
        return Payload(bytes)
    }

    mutating func accepted(_ id: MessageID) -> Violation? {
        guard let index = index(id) else {
            return Violation(rule: .oneOutcome, text: "accepted a message that was never submitted")
        }
        guard !records[index].isAccepted else {
            return Violation(rule: .oneOutcome, text: "message \(id.number) was accepted twice")
        }
        guard records[index].outcome == nil else {
            return Violation(rule: .oneOutcome, text: "message \(id.number) was accepted after its end")
        }
        records[index].isAccepted = true
        return nil
    }

    mutating func finished(_ id: MessageID, _ outcome: SendOutcome, checksAcknowledgement: Bool) -> Violation? {
        guard let index = index(id) else {
            return Violation(rule: .oneOutcome, text: "ended a message that was never submitted")
        }
        if let before = records[index].outcome {
            return Violation(rule: .oneOutcome, text: "message \(id.number) ended twice: \(before), then \(outcome)")
        }
        records[index].outcome = outcome
        switch outcome {
        case .acknowledged where !records[index].isAccepted, .written where !records[index].isAccepted:
            return Violation(rule: .oneOutcome, text: "message \(id.number) was sent and never accepted")
        case .acknowledged where checksAcknowledgement && records[index].deliveries == 0:
            return Violation(rule: .delivery, text: "message \(id.number) was acknowledged and never delivered")
        case .rejected where records[index].deliveries > 0, .expired where records[index].deliveries > 0:
            return Violation(rule: .delivery, text: "message \(id.number) was delivered and then \(outcome)")
        default: return nil
        }
    }

    /// Records a delivery in an incarnation of the receiver. A later incarnation may receive the message again.
    mutating func delivered(_ payload: Payload, epoch: UInt64) -> Violation? {
        guard payload.bytes.count >= 2,
            let index = index(MessageID(UInt64(payload.bytes[0]) << 8 | UInt64(payload.bytes[1])))
        else { return Violation(rule: .delivery, text: "an unknown message was delivered") }
        if records[index].deliveries > 0, records[index].epoch == epoch {
            return Violation(rule: .delivery, text: "message \(index + 1) was delivered twice")
        }
        if lastEpoch == epoch, index <= lastDelivered {
            return Violation(rule: .delivery, text: "message \(index + 1) was delivered after \(lastDelivered + 1)")
        }
        switch records[index].outcome {
        case .rejected, .expired:
            return Violation(rule: .delivery, text: "message \(index + 1) was delivered, although it had ended unsent")
        default: break
        }
        records[index].deliveries += 1
        records[index].epoch = epoch
        lastDelivered = index
        lastEpoch = epoch
        return nil
    }

    /// The sender has lost its memory, so the messages without an outcome get none.
    mutating func forget() {
        for index in records.indices where records[index].outcome == nil { records[index].isForgotten = true }
    }

    /// The first broken rule at the end of the world.
    func final(acknowledgedMustArrive: Bool) -> Violation? {
        for (index, record) in records.enumerated() {
            if record.outcome == nil, !record.isForgotten {
                return Violation(rule: .oneOutcome, text: "message \(index + 1) never ended")
            }
            if acknowledgedMustArrive, record.outcome == .acknowledged, record.deliveries == 0 {
                return Violation(rule: .delivery, text: "message \(index + 1) was acknowledged and never arrived")
            }
        }
        return nil
    }

    private func index(_ id: MessageID) -> Int? {
        id.number >= 1 && id.number <= UInt64(records.count) ? Int(id.number) - 1 : nil
    }
}
