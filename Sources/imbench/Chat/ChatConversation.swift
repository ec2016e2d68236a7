import Codecs
import TransportAPI

/// One member's view of a conversation, as a value without I/O. Its inputs are typed texts and received messages, and its
/// outputs are messages to send and lines to show.
///
/// A supervisor delivers each message to the server once. A server that crashes loses acknowledged messages that it has not
/// yet passed on. So a message is kept here until another member's program has confirmed it, and it is sent again when the
/// session was lost, or when another member asks for it.
struct ChatConversation: Sendable {
    enum Action: Sendable, Equatable {
        /// Send the message. With a number, report its outcome.
        case send(UInt64?, ChatMessage)
        case show(ChatLine)
        /// Call ``waited(_:)`` after ``ChatSetup/longestHold``. There is at most one wait at a time.
        case wait
    }

    private struct Own: Sendable {
        let number: UInt64
        let text: String
        let sentAtMs: Int64
        var isInFlight = false
        /// Whether it is sent again after the present attempt.
        var mustRepeat = false
    }

    /// A line that was shown.
    private struct Shown: Sendable {
        let line: ChatLine
        var progress = Progress.shown
        /// The programs that have shown a message of the user.
        var readers: Set<UTF8Key> = []

        var size: Int { line.size + readers.reduce(0) { $0 + $1.text.utf8.count } }
    }

    /// What is known of a message of the user.
    private enum Progress: Int, Comparable {
        case shown, acknowledged, read, readByAll

        static func < (left: Progress, right: Progress) -> Bool { left.rawValue < right.rawValue }
    }

    /// How many messages are kept for sending again. Beyond this the oldest one that is not in flight is dropped.
    static let keptLimit = 1000
    /// How many lines ``history`` has.
    static let historyLimit = 200
    /// How many bytes of lines are stored for ``history`` and for ticks.
    static let historyBytesLimit = 4 << 20
    /// How many other members are known, and the longest instance in bytes.
    static let (memberLimit, instanceLimit) = (1000, 32)
    /// The shortest time between two answers to notices of missed messages, in milliseconds.
    static let noticePauseMs: Int64 = 10_000

    let name: String
    let room: String
    /// The identity of this run of the program: the first part of its messages' identifiers.
    let instance: String
    private var lastNumber: UInt64 = 0
    /// The unconfirmed messages.
    private var kept: [Own] = []
    private var incoming = IncomingOrder()
    /// The other members, by the instances of their programs.
    private var members: Set<UTF8Key> = []
    /// The first message that was shown of each program, by its instance.
    private var firsts: [UTF8Key: UTF8Key] = [:]
    /// Whether the server is a broker, which stores no messages for new members, and does not know the members.
    private(set) var isOverBroker = false
    /// The number of the last held message when the present wait began; `nil` if there is none.
    private var waitingFor: UInt64?
    /// When a notice of missed messages was last answered.
    private var answeredAtMs: Int64?
    private var lines: [Shown] = []
    private var linesBytes = 0

    init(name: String, room: String, instance: String) {
        self.name = name
        self.room = room
        self.instance = instance
    }

    /// How many messages have no outcome yet.
    var inFlight: Int { kept.count { $0.isInFlight } }
    /// How many messages are not confirmed.
    var unconfirmed: Int { kept.count }

    // MARK: Sending

    /// The user has typed a message.
    mutating func typed(_ text: String, atMs now: Int64, _ actions: inout [Action]) {
        if kept.count >= Self.keptLimit, let index = kept.firstIndex(where: { !$0.isInFlight }) {
            kept.remove(at: index)
        }
        lastNumber += 1
        let line = ChatLine.own(lastNumber, sender: name, text: text, atMs: now)
        note(line)
        actions.append(.show(line))
        kept.append(Own(number: lastNumber, text: text, sentAtMs: now))
        send(kept.count - 1, &actions)
    }

    private mutating func send(_ index: Int, _ actions: inout [Action]) {
        kept[index].isInFlight = true
        kept[index].mustRepeat = false
        let own = kept[index]
        var message = ChatMessage(
            id: identifier(own.number),
            conversation: room,
            sender: name,
            sentAtMs: own.sentAtMs,
            text: own.text
        )
        if index > 0 { message.attributes["after"] = identifier(kept[index - 1].number) }
        actions.append(.send(own.number, message))
    }

    /// An attempt to send has its outcome.
    mutating func settled(_ number: UInt64, _ outcome: SendOutcome, _ actions: inout [Action]) {
        if outcome == .acknowledged, advance(number, to: .acknowledged) { actions.append(.show(.acknowledged(number))) }
        guard let index = kept.firstIndex(where: { $0.number == number }) else { return }
        kept[index].isInFlight = false
        switch outcome {
        case .acknowledged, .written, .unknown:
            if kept[index].mustRepeat { send(index, &actions) }
        case .rejected(let error):
            kept.remove(at: index)
            actions.append(.show(.failed(number, error.reason)))
        case .expired:
            kept.remove(at: index)
            actions.append(.show(.failed(number, "it grew too old")))
        }
    }

    /// A new session has begun, in which the server has none of the earlier messages.
    mutating func began(isOverBroker: Bool, _ actions: inout [Action]) {
        self.isOverBroker = isOverBroker
        // The server of a room lists the members, after its history.
        if !isOverBroker { members = [] }
        actions.append(.send(nil, notice("here")))
        if isOverBroker { actions.append(.send(nil, notice("repeat"))) }
        // The supervisor sends the messages in flight.
        for index in kept.indices where !kept[index].isInFlight { send(index, &actions) }
    }

    /// What the program says when it ends. A broker would not tell the other members.
    var farewell: ChatMessage { notice("gone") }

    private func notice(_ event: String) -> ChatMessage {
        var notice = ChatMessage()
        notice.conversation = room
        notice.sender = name
        notice.kind = .system
        notice.attributes = ["event": event, "instance": instance]
        return notice
    }

    /// Another member lacks earlier messages.
    private mutating func repeatAll(_ actions: inout [Action]) {
        for index in kept.indices {
            if kept[index].isInFlight { kept[index].mustRepeat = true } else { send(index, &actions) }
        }
    }

    // MARK: Receiving

    /// A message has arrived. The time is that of a monotonic clock.
    mutating func received(_ message: ChatMessage, atMs now: Int64, _ actions: inout [Action]) {
        let isForAll = message.kind == .system && message.conversation.isEmpty
        guard message.conversation.hasSameUTF8(as: room) || isForAll else { return }
        switch message.kind {
        case .receipt: confirmed(message, &actions)
        case .system: receivedSystemMessage(message, atMs: now, &actions)
        case .read, .typing: break
        default:
            // A broker returns the user's own messages.
            guard !isOwn(message.id) else { return }
            switch incoming.take(message) {
            case .ready(let messages): show(messages, &actions)
            case .held: startWaiting(&actions)
            // Its receipt may be lost.
            case .repeated: actions.append(.send(nil, receipt(for: message.id)))
            }
        }
    }

    /// One wait serves all held messages, so each is held for ``ChatSetup/longestHold`` at least and twice that at most.
    private mutating func startWaiting(_ actions: inout [Action]) {
        guard waitingFor == nil, incoming.holdsMessages else { return }
        waitingFor = incoming.heldCount
        actions.append(.wait)
    }

    /// The messages that were held at the beginning of the wait have been held for ``ChatSetup/longestHold``.
    mutating func waited(_ actions: inout [Action]) {
        guard let last = waitingFor.take() else { return }
        show(incoming.waited(upTo: last), &actions)
        startWaiting(&actions)
    }

    private mutating func show(_ messages: [IncomingOrder.Incoming], _ actions: inout [Action]) {
        for message in messages {
            let line = ChatLine.other(sender: message.sender, text: message.text, atMs: message.sentAtMs)
            note(line)
            actions.append(.show(line))
            guard !message.id.isEmpty else { continue }
            let program = UTF8Key(Self.program(of: message.id))
            if firsts[program] == nil, firsts.count < Self.memberLimit { firsts[program] = UTF8Key(message.id) }
            actions.append(.send(nil, receipt(for: message.id)))
        }
    }

    private mutating func receivedSystemMessage(_ message: ChatMessage, atMs now: Int64, _ actions: inout [Action]) {
        let sender = ChatLine.printable(message.sender, limit: ChatLine.senderLimit)
        let other = Self.instance(message.attributes["instance"])
        // A broker returns the user's own messages.
        guard other != UTF8Key(instance) else { return }
        switch message.attributes["event"].map({ UTF8Key($0) }) {
        case "here":
            actions.append(.show(.status("\(sender) is here")))
            guard enters(other), isOverBroker else { return }
            var answer = notice("members")
            answer.mentions = [instance]
            actions.append(.send(nil, answer))
        case "members":
            for mention in message.mentions { _ = enters(Self.instance(mention)) }
            // The list of a server follows its history, so that members send again only what the history lacks.
            let isComplete = message.conversation.isEmpty && message.attributes["more"] == nil
            if isComplete, !isOverBroker, !members.isEmpty { actions.append(.send(nil, notice("repeat"))) }
        case "gone": if members.remove(other) != nil { actions.append(.show(.status("\(sender) has left"))) }
        case "repeat": repeatAll(&actions)
        case "missed":
            actions.append(.show(.status("\(sender): \(message.text)")))
            // Over a broker any member can forge the notice, and each answer makes all other members answer.
            if let last = answeredAtMs, now - last < Self.noticePauseMs { return }
            answeredAtMs = now
            began(isOverBroker: isOverBroker, &actions)
        default: actions.append(.show(.status("\(sender): \(message.text)")))
        }
    }

    /// Adds a member. Returns `false` if it was known.
    private mutating func enters(_ other: UTF8Key) -> Bool {
        guard other != "", other != UTF8Key(instance), members.count < Self.memberLimit else { return false }
        return members.insert(other).inserted
    }

    /// The instance of another program; empty if it is missing or too long.
    private static func instance(_ text: String?) -> UTF8Key {
        guard let text, text.utf8.count <= instanceLimit else { return "" }
        return UTF8Key(text)
    }

    private mutating func confirmed(_ message: ChatMessage, _ actions: inout [Action]) {
        guard let id = message.replyTo, isOwn(id),
            let number = UInt64(Substring(id.utf8.dropFirst(instance.utf8.count + 1))), number <= lastNumber
        else { return }
        // Earlier messages of this program are older than what the server stores for new members.
        let isFirst = message.attributes["first"] != nil
        kept.removeAll { $0.number == number || isFirst && $0.number < number && !$0.isInFlight }
        read(number, by: message, &actions)
    }

    private func receipt(for id: String) -> ChatMessage {
        var receipt = ChatMessage()
        receipt.conversation = room
        receipt.sender = name
        receipt.kind = .receipt
        receipt.replyTo = id
        receipt.attributes["instance"] = instance
        if firsts[UTF8Key(Self.program(of: id))] == UTF8Key(id) { receipt.attributes["first"] = "yes" }
        return receipt
    }

    /// The instance of the program that sent a message.
    private static func program(of id: String) -> String {
        let end = id.utf8.lastIndex(of: UInt8(ascii: "-")) ?? id.startIndex
        return String(id[..<end])
    }

    private func identifier(_ number: UInt64) -> String { "\(instance)-\(number)" }

    private func isOwn(_ id: String) -> Bool { id.utf8.starts(with: "\(instance)-".utf8) }
}

// MARK: History

extension ChatConversation {
    private mutating func note(_ line: ChatLine) {
        // Lines that can still get a tick, and lines of the history.
        if lines.count >= Self.historyLimit + Self.keptLimit { removeLines(Self.historyLimit) }
        lines.append(Shown(line: line))
        linesBytes += line.size
        removeSurplus()
    }

    /// Removes the oldest lines beyond the limit of bytes, but not the last line.
    private mutating func removeSurplus() {
        var surplus = 0
        var left = linesBytes
        while left > Self.historyBytesLimit, surplus < lines.count - 1 {
            left -= lines[surplus].size
            surplus += 1
        }
        removeLines(surplus)
    }

    private mutating func removeLines(_ count: Int) {
        for index in 0..<count { linesBytes -= lines[index].size }
        lines.removeFirst(count)
    }

    private func index(of number: UInt64) -> Int? {
        lines.lastIndex { if case .own(number, _, _, _) = $0.line { true } else { false } }
    }

    /// Returns `false` if a message of the user has advanced so far already, or is dropped.
    private mutating func advance(_ number: UInt64, to progress: Progress) -> Bool {
        guard let index = index(of: number), lines[index].progress < progress else { return false }
        lines[index].progress = progress
        return true
    }

    /// Counts the program of a receipt. The first and the last of the members are shown.
    private mutating func read(_ number: UInt64, by receipt: ChatMessage, _ actions: inout [Action]) {
        let reader = Self.instance(receipt.attributes["instance"])
        guard let index = index(of: number), reader != UTF8Key(instance), lines[index].readers.count < Self.memberLimit,
            lines[index].readers.insert(reader).inserted
        else { return }
        linesBytes += reader.text.utf8.count
        let count = lines[index].readers.count
        let all = lines[index].readers.union(members).count
        if advance(number, to: count < all ? .read : .readByAll) {
            actions.append(.show(.read(number, by: receipt.sender, count: count, of: all)))
        }
        removeSurplus()
    }

    /// The last messages of all members.
    var history: [String] {
        lines.suffix(Self.historyLimit).map { shown in
            let mark =
                switch shown.progress {
                case .shown: ""
                case .acknowledged: " ✓"
                case .read, .readByAll:
                    " ✓✓ " + ChatLine.readers(shown.readers.count, shown.readers.union(members).count)
                }
            return shown.line.words + mark
        }
    }
}
