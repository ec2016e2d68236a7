import Codecs
import TransportAPI

/// One member's view of a conversation, as a value without I/O. Its inputs are typed texts and received messages, and its
/// outputs are messages to send and lines to show.
///
/// A supervisor delivers each message to the server once. A server that crashes loses acknowledged messages that it has not
/// yet passed on. So a message is kept here until another member's program has confirmed it, and it is sent again when the
/// session was lost, or when another member enters the room.
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

    /// How many messages are kept for sending again. Beyond this the oldest one that is not in flight is dropped.
    static let keptLimit = 1000
    /// How many lines ``history`` has.
    static let historyLimit = 200
    /// How many bytes of lines are stored for ``history`` and for ticks.
    static let historyBytesLimit = 4 << 20
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
    /// The number of the last held message when the present wait began; `nil` if there is none.
    private var waitingFor: UInt64?
    /// When a notice of missed messages was last answered.
    private var answeredAtMs: Int64?
    private var lines: [(line: ChatLine, ticks: Int)] = []
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
        if outcome == .acknowledged, tick(number, 1) { actions.append(.show(.acknowledged(number))) }
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
    mutating func began(_ actions: inout [Action]) {
        var hello = ChatMessage()
        hello.conversation = room
        hello.sender = name
        hello.kind = .system
        hello.attributes["event"] = "here"
        hello.attributes["instance"] = instance
        actions.append(.send(nil, hello))
        // The supervisor sends the messages in flight.
        for index in kept.indices where !kept[index].isInFlight { send(index, &actions) }
    }

    /// Another member may lack earlier messages.
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
            if !message.id.isEmpty { actions.append(.send(nil, receipt(for: message.id))) }
        }
    }

    private mutating func receivedSystemMessage(_ message: ChatMessage, atMs now: Int64, _ actions: inout [Action]) {
        switch message.attributes["event"].map({ UTF8Key($0) }) {
        case "here":
            guard message.attributes["instance"]?.hasSameUTF8(as: instance) != true else { return }
            actions.append(.show(.status("\(ChatLine.printable(message.sender, limit: ChatLine.senderLimit)) is here")))
            repeatAll(&actions)
        case "missed":
            actions.append(.show(.status("\(message.sender): \(message.text)")))
            // Over a broker any member can forge the notice, and each answer makes all other members answer.
            if let last = answeredAtMs, now - last < Self.noticePauseMs { return }
            answeredAtMs = now
            began(&actions)
        default: actions.append(.show(.status("\(message.sender): \(message.text)")))
        }
    }

    private mutating func confirmed(_ message: ChatMessage, _ actions: inout [Action]) {
        guard let id = message.replyTo, isOwn(id),
            let number = UInt64(Substring(id.utf8.dropFirst(instance.utf8.count + 1)))
        else { return }
        kept.removeAll { $0.number == number }
        if tick(number, 2) { actions.append(.show(.confirmed(number, by: message.sender))) }
    }

    private func receipt(for id: String) -> ChatMessage {
        var receipt = ChatMessage()
        receipt.conversation = room
        receipt.sender = name
        receipt.kind = .receipt
        receipt.replyTo = id
        return receipt
    }

    private func identifier(_ number: UInt64) -> String { "\(instance)-\(number)" }

    private func isOwn(_ id: String) -> Bool { id.utf8.starts(with: "\(instance)-".utf8) }
}

// MARK: History

extension ChatConversation {
    private mutating func note(_ line: ChatLine) {
        // Lines that can still get a tick, and lines of the history.
        if lines.count >= Self.historyLimit + Self.keptLimit { removeLines(Self.historyLimit) }
        lines.append((line, 0))
        linesBytes += line.size
        var surplus = 0
        var left = linesBytes
        while left > Self.historyBytesLimit, surplus < lines.count - 1 {
            left -= lines[surplus].line.size
            surplus += 1
        }
        removeLines(surplus)
    }

    private mutating func removeLines(_ count: Int) {
        for index in 0..<count { linesBytes -= lines[index].line.size }
        lines.removeFirst(count)
    }

    /// Gives a message of the user its ticks. Returns `false` if it has as many already, or is dropped.
    private mutating func tick(_ number: UInt64, _ ticks: Int) -> Bool {
        let index = lines.lastIndex { if case .own(number, _, _, _) = $0.line { true } else { false } }
        guard let index, lines[index].ticks < ticks else { return false }
        lines[index].ticks = ticks
        return true
    }

    /// The last messages of all members.
    var history: [String] {
        lines.suffix(Self.historyLimit).map {
            $0.line.text + ($0.ticks == 0 ? "" : " " + String(repeating: "✓", count: $0.ticks))
        }
    }
}
