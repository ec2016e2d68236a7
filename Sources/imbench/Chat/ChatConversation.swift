import Codecs
import TransportAPI

/// One person's side of a conversation, as a value without I/O: what is typed and received goes in, what is to be sent and
/// shown comes out.
///
/// A supervisor sees to it that a message reaches the server, once. A server that is pulled forgets what it had acknowledged
/// and not yet handed on, so a message is kept here until the other side's program has confirmed it, and sent again when the
/// session was lost, or when somebody says that he is here anew.
struct ChatConversation: Sendable {
    enum Action: Sendable, Equatable {
        /// To be sent; with a number, the outcome is to be reported.
        case send(UInt64?, ChatMessage)
        case show(ChatLine)
        /// To call ``waited(for:)`` with this identifier after ``ChatSetup/longestHold``.
        case wait(String)
    }

    private struct Own: Sendable {
        let number: UInt64
        let text: String
        let sentAtMs: Int64
        var isUnderWay = false
        /// To be sent again when the present attempt has ended.
        var mustRepeat = false
    }

    /// How many messages are kept for sending again; the oldest one that is not under way is let go.
    static let keptLimit = 1000
    /// How many lines ``history`` has.
    static let historyLimit = 200

    let name: String
    let room: String
    /// Tells this run of the program from all others; the first part of its messages' identifiers.
    let instance: String
    private var lastNumber: UInt64 = 0
    /// Nobody has confirmed these.
    private var kept: [Own] = []
    /// The user has been told that some are not kept any more.
    private var hasForgotten = false
    private var incoming = IncomingOrder()
    private var lines: [(line: ChatLine, ticks: Int)] = []

    init(name: String, room: String, instance: String) {
        self.name = name
        self.room = room
        self.instance = instance
    }

    /// How many messages have no outcome yet.
    var underWay: Int { kept.count { $0.isUnderWay } }
    /// How many messages nobody has confirmed.
    var unconfirmed: Int { kept.count }

    // MARK: Sending

    /// The user has written something.
    mutating func typed(_ text: String, atMs now: Int64, _ actions: inout [Action]) {
        if kept.count >= Self.keptLimit, let index = kept.firstIndex(where: { !$0.isUnderWay }) {
            kept.remove(at: index)
        }
        lastNumber += 1
        let line = ChatLine.own(lastNumber, sender: name, text: text)
        note(line)
        actions.append(.show(line))
        kept.append(Own(number: lastNumber, text: text, sentAtMs: now))
        send(kept.count - 1, &actions)
    }

    private mutating func send(_ index: Int, _ actions: inout [Action]) {
        kept[index].isUnderWay = true
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

    /// An attempt to send has ended.
    mutating func settled(_ number: UInt64, _ outcome: SendOutcome, _ actions: inout [Action]) {
        if outcome == .acknowledged, tick(number, 1) { actions.append(.show(.acknowledged(number))) }
        guard let index = kept.firstIndex(where: { $0.number == number }) else { return }
        kept[index].isUnderWay = false
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

    /// Messages flow again, and the server knows nothing of what it had.
    mutating func began(_ actions: inout [Action]) {
        var hello = ChatMessage()
        hello.conversation = room
        hello.sender = name
        hello.kind = .system
        hello.attributes["event"] = "here"
        hello.attributes["instance"] = instance
        actions.append(.send(nil, hello))
        // What is under way is sent by the supervisor.
        for index in kept.indices where !kept[index].isUnderWay { send(index, &actions) }
    }

    /// Somebody may lack what was sent before.
    private mutating func repeatAll(_ actions: inout [Action]) {
        for index in kept.indices {
            if kept[index].isUnderWay { kept[index].mustRepeat = true } else { send(index, &actions) }
        }
    }

    // MARK: Receiving

    /// A message has arrived.
    mutating func received(_ message: ChatMessage, _ actions: inout [Action]) {
        let isForAll = message.kind == .system && message.conversation.isEmpty
        guard message.conversation.hasSameUTF8(as: room) || isForAll else { return }
        switch message.kind {
        case .receipt: confirmed(message, &actions)
        case .system: heard(message, &actions)
        case .read, .typing: break
        default:
            // A broker gives back what one has sent.
            guard !isOwn(message.id) else { return }
            switch incoming.take(message) {
            case .ready(let messages): show(messages, &actions)
            case .held: actions.append(.wait(message.id))
            // Its receipt may have been lost.
            case .repeated: actions.append(.send(nil, receipt(for: message)))
            }
        }
    }

    /// The message of this identifier has been held for ``ChatSetup/longestHold``.
    mutating func waited(for id: String, _ actions: inout [Action]) {
        show(incoming.waited(for: id), &actions)
    }

    private mutating func show(_ messages: [ChatMessage], _ actions: inout [Action]) {
        for message in messages {
            let line = ChatLine.other(sender: message.sender, text: message.text)
            note(line)
            actions.append(.show(line))
            if !message.id.isEmpty { actions.append(.send(nil, receipt(for: message))) }
        }
    }

    private mutating func heard(_ message: ChatMessage, _ actions: inout [Action]) {
        switch message.attributes["event"].map({ UTF8Key($0) }) {
        case "here":
            guard message.attributes["instance"]?.hasSameUTF8(as: instance) != true else { return }
            actions.append(.show(.status("\(message.sender) is here")))
            repeatAll(&actions)
        case "missed":
            actions.append(.show(.status("\(message.sender): \(message.text)")))
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

    private func receipt(for message: ChatMessage) -> ChatMessage {
        var receipt = ChatMessage()
        receipt.conversation = room
        receipt.sender = name
        receipt.kind = .receipt
        receipt.replyTo = message.id
        return receipt
    }

    private func identifier(_ number: UInt64) -> String { "\(instance)-\(number)" }

    private func isOwn(_ id: String) -> Bool { id.utf8.starts(with: "\(instance)-".utf8) }
}

// MARK: History

extension ChatConversation {
    private mutating func note(_ line: ChatLine) {
        // Those that may still get a tick, and those that are shown.
        if lines.count >= Self.historyLimit + Self.keptLimit { lines.removeFirst(Self.historyLimit) }
        lines.append((line, 0))
    }

    /// Gives a message of the user's its ticks; `false` if it has as many already, or is forgotten.
    private mutating func tick(_ number: UInt64, _ ticks: Int) -> Bool {
        let index = lines.lastIndex { if case .own(number, _, _) = $0.line { true } else { false } }
        guard let index, lines[index].ticks < ticks else { return false }
        lines[index].ticks = ticks
        return true
    }

    /// The last messages of both sides.
    var history: [String] {
        lines.suffix(Self.historyLimit).map {
            $0.line.text + ($0.ticks == 0 ? "" : " " + String(repeating: "✓", count: $0.ticks))
        }
    }
}
