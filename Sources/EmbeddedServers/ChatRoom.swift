import Codecs
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// The members and the last messages of a chat, which several servers can share. Each message is sent to all sessions
/// but the sender's. A new session receives the history first, and the list of the members when it introduces itself. A
/// session that is too slow misses the oldest messages and is notified of their number. It delays no other session.
public final class ChatRoom: Sendable {
    /// The limits of a room.
    public struct Limits: Sendable, Hashable {
        /// The largest number of sessions of each server; 1000 by default.
        public var sessions = 1000
        /// The largest number of messages that are stored for new sessions; 200 by default.
        public var historyCount = 200
        /// The largest number of bytes of these messages together; 1 MiB by default.
        public var historyBytes = 1 << 20
        /// The largest number of messages that wait for one session; 1000 by default. Beyond it, the session misses the
        /// oldest ones. All sessions share the memory of waiting messages.
        public var outboxCount = 1000
        /// The largest number of bytes that wait for one session, and the size of the largest message that the room
        /// sends; 4 MiB by default.
        public var outboxBytes = 4 << 20

        /// Creates the default limits.
        public init() {}
    }

    let limits: Limits
    let loop: EventLoop
    private let people: LoopBound<ChatPeople>

    /// Creates an empty room.
    ///
    /// - Parameters:
    ///   - limits: the limits of the room.
    ///   - loop: the loop of the room and of its servers.
    public init(_ limits: Limits = Limits(), on loop: EventLoop = .shared) {
        self.limits = limits
        self.loop = loop
        people = LoopBound(ChatPeople(limits, on: loop), to: loop)
    }

    /// Adds a session. Call this on the loop.
    func enter(_ session: Session) {
        let member = LoopBound(people.value.enter(session), to: loop)
        Task(executorPreference: loop) { [people] in
            for await payload in session.messages {
                // A session that floods is read as slowly as the room sends its messages.
                let isPaced = await people.value.turn(of: member.value, payload.bytes.count)
                people.value.post(payload, from: member.value, isPaced: isPaced)
            }
            people.value.leave(member.value)
        }
    }
}

extension ChatRoom.Limits {
    /// Checks all limits.
    ///
    /// - Throws: `.invalidConfiguration` for a value with which no message could be sent.
    func check() throws(TransportError) {
        try SettingCheck.number("sessions", sessions, 1...Int.max)
        try SettingCheck.number("historyCount", historyCount, 0...Int.max)
        try SettingCheck.number("historyBytes", historyBytes, 0...Int.max)
        try SettingCheck.number("outboxCount", outboxCount, 1...Int.max)
        try SettingCheck.number("outboxBytes", outboxBytes, 1...Int.max)
    }
}

/// The members and the messages of a room. It is used on its loop only.
///
/// The waiting messages are stored once, in ``log``, and each member has a position in it. So a message takes no memory
/// and no time for members that are away or slow. The log has the limits that an outbox of a member would have.
///
/// The messages of a member that writes little are sent at once, as far as the time allows. Their rest, and the
/// messages of busy members, are sent in several ticks of the loop, within a time budget. Busy members take turns. The
/// next of them is served when all other members have all messages, and at a rate that leaves most of the loop's time
/// to others. A member is busy if it sends its next message before the room has taken the last one, or if it sends more
/// than 100 messages per second for some time. A large message counts as several small ones, so a message of 8 KiB
/// already makes a member busy.
///
/// A member that acknowledges nothing soon receives nothing more. Few messages are in flight to a new member, and one
/// more for each message that it acknowledges. At most one message is in flight to a member without a connection.
final class ChatPeople: ScheduledHandler {
    var schedule = ScheduleEntry()
    /// One session.
    final class Member: SendObserver {
        fileprivate enum State {
            /// It has all messages.
            case idle
            /// It is queued for its next message.
            case queued
            /// The largest allowed number of messages is in flight to it.
            case full
            /// Its session has ended.
            case gone
        }

        private weak var room: ChatPeople?
        /// Identifies it on its loop.
        fileprivate let number: UInt64
        fileprivate let session: Session
        fileprivate var state = State.idle
        fileprivate var format = WireFormat.json
        /// The range of messages of the history that it receives first.
        fileprivate var history: Range<UInt64>
        fileprivate var introduction: ChatPresence.Introduction?
        /// The number after which the next part of the list of the members begins, which it receives after the history.
        fileprivate var listedUpTo: UInt64?
        /// The number of the next message in the log.
        fileprivate var next: UInt64
        /// How many of the messages that the room has taken are its own, and how many of these precede ``next``.
        fileprivate var own: (taken: UInt64, passed: UInt64) = (0, 0)
        /// How many messages have no outcome yet, and how many may have none.
        fileprivate var inFlight = 0
        fileprivate var window: Int
        /// How many times its window was full.
        fileprivate var fulls = 0
        /// Whether its window was full for so long that other members do not wait for it until it has all messages
        /// again.
        fileprivate var isSlow = false
        /// Messages that did not reach it since the last notice: because it was slow, and for other reasons.
        fileprivate var dropped: UInt64 = 0
        fileprivate var refused: UInt64 = 0
        /// Whether the last message reached it.
        fileprivate var isReachable = true
        /// When the messages that it has sent no longer count.
        fileprivate var spentUntil: Int64 = 0

        fileprivate var hasMissed: Bool { dropped > 0 || refused > 0 }

        fileprivate init(_ room: ChatPeople, _ session: Session, _ history: Range<UInt64>, next: UInt64) {
            self.room = room
            number = room.loop.newNumber()
            self.session = session
            self.history = history
            self.next = next
            window = min(ChatPeople.firstWindow, room.window)
        }

        func settled(_ outcome: SendOutcome) {
            room?.settled(outcome, self)
        }
    }

    private struct Entry {
        var payload: Payload
        let sender: Member
        /// Whether its sender is busy.
        let isPaced: Bool
    }

    /// How many messages may be in flight to a new member, and to any member. They are in its session.
    private static let (firstWindow, window) = (2, 32)
    /// How many messages are sent at once, and how many in one call of ``run(_:)``.
    private static let pieces = 8
    /// How many nanoseconds pass for each delivery of a message of a busy member, before the next message of a busy
    /// member is taken.
    private static let pace: Int64 = 100_000
    /// How many nanoseconds busy members wait for a member whose window is full.
    private static let holdTime: Int64 = 50_000_000
    /// How many messages a member may send at once before it is busy, and after how many nanoseconds it may send one
    /// more.
    private static let (burst, interval): (Int64, Int64) = (16, 10_000_000)
    /// How many bytes of a message count as one more message.
    private static let bytesOfOne = 512
    /// For how many nanoseconds a member is busy if its next message has already arrived.
    private static let floodTime: Int64 = 100_000_000

    private let limits: ChatRoom.Limits
    private let loop: EventLoop
    private let window: Int
    private var members: [UInt64: Member] = [:]
    /// The messages for new members.
    private var history: ChatHistory
    private var presence = ChatPresence()
    /// The last messages, the number of the first message, and their bytes.
    private var log = Deque<Entry>()
    private var first: UInt64 = 0
    private var logBytes = 0
    /// Members that are queued for their next message: those that write little, and busy ones.
    private var queued = Deque<Member>()
    private var queuedBusy = Deque<Member>()
    /// Members that have all messages.
    private var idle: [UInt64: Member] = [:]
    /// Busy members that are queued to send their next message.
    private var waiting = Deque<UnsafeContinuation<Void, Never>>()
    /// When the next of them may send, and the timer for that time.
    private var nextPaced: Int64 = 0
    private var timer: UInt64?
    /// Members with a full window for which busy members wait, how many times the window was full, and the end of the
    /// wait. These members are not busy themselves.
    private var holds = Deque<(member: Member, fulls: Int, until: Int64)>()

    init(_ limits: ChatRoom.Limits, on loop: EventLoop) {
        self.limits = limits
        self.loop = loop
        history = ChatHistory(limits)
        window = max(1, min(Self.window, limits.outboxCount))
    }

    private var end: UInt64 { first + UInt64(log.count) }

    // MARK: Members

    func enter(_ session: Session) -> Member {
        let member = Member(self, session, history.range, next: end)
        // A new member begins one message beyond its burst, so that many new members at once are slowed down too.
        member.spentUntil = loop.now + (Self.burst + 1) * Self.interval
        members[member.number] = member
        queue(member)
        requestRun()
        return member
    }

    func leave(_ member: Member) {
        member.state = .gone
        members[member.number] = nil
        idle[member.number] = nil
        guard let introduction = member.introduction else { return }
        append(Self.payload(presence.remove(introduction), member.format), from: member, isPaced: false)
        requestRun()
    }

    /// Takes the introduction of a member, if the message is one.
    private func introduce(_ member: Member, _ payload: Payload) {
        guard let introduction = ChatPresence.Introduction(payload) else { return }
        let (added, gone) = presence.add(introduction, inPlaceOf: member.introduction)
        member.introduction = added
        member.listedUpTo = 0
        if let gone { append(Self.payload(gone, member.format), from: member, isPaced: false) }
    }

    /// Returns whether a member has sent much recently.
    private func isBusy(_ member: Member) -> Bool {
        member.spentUntil - loop.now >= Self.burst * Self.interval
    }

    /// Returns when the messages that a member has sent, and one more of `bytes` bytes, no longer count.
    private func spentUntil(_ member: Member, _ bytes: Int) -> Int64 {
        max(member.spentUntil, loop.now) + Self.interval * Int64(1 + bytes / Self.bytesOfOne)
    }

    // MARK: Received messages

    /// Takes a message, and sends it at once if the sender is not busy.
    func post(_ payload: Payload, from sender: Member, isPaced: Bool) {
        let spent = spentUntil(sender, payload.bytes.count)
        // A busy member stops being busy after a pause of twice the time that a burst takes.
        sender.spentUntil = min(spent, loop.now + 2 * Self.burst * Self.interval)
        take(payload, from: sender, isPaced: isPaced)
        // Many members may write in the same tick.
        let isLongTick = MonotonicClock.now() - loop.now > EventLoop.timeBudget
        var left = isPaced || isLongTick ? 0 : Self.pieces
        while left > 0, passOn() { left -= 1 }
        requestRun()
    }

    /// Waits until a member may send its next message, of `bytes` bytes. Returns whether the member is busy.
    nonisolated(nonsending) func turn(of member: Member, _ bytes: Int) async -> Bool {
        if member.session.hasMessages {
            member.spentUntil = max(member.spentUntil, loop.now + Self.burst * Self.interval + Self.floodTime)
        }
        guard spentUntil(member, bytes) - loop.now > Self.burst * Self.interval else { return false }
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
            waiting.append(continuation)
            requestRun()
        }
        return true
    }

    private func take(_ payload: Payload, from sender: Member, isPaced: Bool) {
        // Decoding takes time for each byte, so the size comes first.
        guard payload.bytes.count <= limits.outboxBytes else {
            for member in members.values where member !== sender { member.refused += 1 }
            return
        }
        let format = WireFormat(of: payload)
        if let message = try? format.codec().decode(PostedMessage.self, from: payload.bytes) {
            sender.format = format
            guard !message.isNotice else { return }
            if message.isWorthKeeping { history.add(payload, in: format) }
            if message.kind == .system { introduce(sender, payload) }
        }
        append(payload, from: sender, isPaced: isPaced)
    }

    /// Appends a message of a member, or about it, to the log.
    private func append(_ payload: Payload, from sender: Member, isPaced: Bool) {
        log.append(Entry(payload: payload, sender: sender, isPaced: isPaced))
        logBytes += payload.bytes.count
        sender.own.taken += 1
        while log.count > max(1, limits.outboxCount) || logBytes > limits.outboxBytes {
            logBytes -= log[0].payload.bytes.count
            // The queue releases memory in blocks, so the payload is released here.
            log[0].payload = Payload([])
            _ = log.popFirst()
            first += 1
        }
        for member in idle.values { queue(member) }
        idle.removeAll(keepingCapacity: true)
    }

    // MARK: Sent messages

    private func queue(_ member: Member) {
        member.state = .queued
        if isBusy(member) { queuedBusy.append(member) } else { queued.append(member) }
    }

    private func requestRun() {
        let hasWork = !queued.isEmpty || !queuedBusy.isEmpty || !waiting.isEmpty && timer == nil
        if hasWork { loop.add(self, to: .lowPriority) }
    }

    func run(_: LoopQueue) {
        let due = MonotonicClock.now() + EventLoop.timeBudget
        for _ in 0..<Self.pieces {
            guard passOn() else {
                // All members have all messages, or the largest allowed number of them in flight.
                admitNext()
                break
            }
            guard MonotonicClock.now() < due else { break }
        }
        requestRun()
    }

    /// Lets the next busy member send a message, now or when its time has come.
    private func admitNext() {
        guard !waiting.isEmpty, timer == nil else { return }
        let now = loop.now
        let due = max(nextPaced, holdEnd(now))
        guard now < due else {
            waiting.popFirst()?.resume()
            return
        }
        timer = loop.schedule(at: due) { [weak self] in
            self?.timer = nil
            self?.requestRun()
        }
    }

    /// Returns until when busy members wait for a member whose window is full.
    private func holdEnd(_ now: Int64) -> Int64 {
        while !holds.isEmpty {
            let hold = holds[0]
            if hold.member.state == .full, hold.member.fulls == hold.fulls {
                guard hold.until <= now else { return hold.until }
                hold.member.isSlow = true
            }
            _ = holds.popFirst()
        }
        return 0
    }

    /// Sends one member its next message. Returns `false` if no member is queued.
    private func passOn() -> Bool {
        guard let member = queued.popFirst() ?? queuedBusy.popFirst() else { return false }
        guard member.state != .gone else { return true }
        let most = member.session.isConnected ? member.window : 1
        guard member.inFlight < most else {
            member.state = .full
            member.fulls += 1
            // Busy members do not wait for a member that has acknowledged nothing yet.
            if !member.isSlow, member.window > Self.firstWindow, !isBusy(member) {
                holds.append((member, member.fulls, loop.now + Self.holdTime))
            }
            return true
        }
        if let payload = nextMessage(for: member) {
            member.inFlight += 1
            if let outcome = member.session.send(payload, observer: member) { settled(outcome, member) }
            queue(member)
        } else {
            member.state = .idle
            member.isSlow = false
            idle[member.number] = member
        }
        return true
    }

    private func nextMessage(for member: Member) -> Payload? {
        // Messages may have left the history meanwhile. They made room for later ones.
        let number = max(member.history.lowerBound, history.range.lowerBound)
        if number < member.history.upperBound {
            member.history = number + 1..<member.history.upperBound
            return history.message(number)
        }
        if let number = member.listedUpTo, let introduction = member.introduction {
            let (list, next) = presence.list(for: introduction, after: number)
            member.listedUpTo = next
            return Self.payload(list, member.format)
        }
        skipWhatIsGone(member)
        if member.hasMissed, member.isReachable {
            let notice = Self.notice(member)
            (member.dropped, member.refused) = (0, 0)
            return notice
        }
        while member.next < end {
            let entry = log[Int(member.next - first)]
            member.next += 1
            if entry.sender !== member {
                if entry.isPaced { nextPaced = max(nextPaced, loop.now) + Self.pace }
                return entry.payload
            }
            member.own.passed += 1
        }
        return nil
    }

    /// Counts the messages that a slow member misses, because they have left the log. Its own messages do not count.
    private func skipWhatIsGone(_ member: Member) {
        guard member.next < first else { return }
        var passed = member.own.taken
        for index in 0..<log.count where log[index].sender === member { passed -= 1 }
        member.dropped += first - member.next - (passed - member.own.passed)
        member.own.passed = passed
        member.next = first
    }

    private func settled(_ outcome: SendOutcome, _ member: Member) {
        member.inFlight -= 1
        switch outcome {
        case .rejected(let error) where error.code == .bufferFull: member.dropped += 1
        case .rejected, .expired, .unknown: member.refused += 1
        case .acknowledged, .written: member.window = min(member.window + 1, window)
        }
        // If one notice does not reach the member, the next would not either.
        member.isReachable = outcome.isSuccess
        switch member.state {
        case .full: queue(member)
        case .idle where member.hasMissed && member.isReachable:
            idle[member.number] = nil
            queue(member)
        case .idle, .queued, .gone: return
        }
        requestRun()
    }

    /// Returns the notice of the number of messages that a member has missed.
    private static func notice(_ member: Member) -> Payload {
        var message = ChatMessage()
        message.kind = .system
        message.sender = "server"
        message.text = "you have missed \(member.dropped + member.refused) messages"
        // Messages that were dropped because of a full queue may arrive if they are sent again. Refused messages will
        // not.
        if member.dropped > 0 { message.attributes["event"] = "missed" }
        return payload(message, member.format)
    }

    private static func payload(_ message: ChatMessage, _ format: WireFormat) -> Payload {
        do throws(CodecError) {
            return Payload(try format.codec().encode(message), kind: format.isText ? .text : .binary)
        } catch {
            // No codec refuses a short message.
            return Payload(text: "{}")
        }
    }
}

/// The part of a `ChatMessage` that a room reads. Other texts are skipped and none is hashed, because a peer could make
/// hashing slow.
private struct PostedMessage: WireMessage {
    var conversation = ""
    var kind = ChatMessage.Kind.text

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(2, "conversation", &conversation)
        try visitor.field(5, "kind", &kind)
    }

    /// Whether the message is for all conversations, as only the server's notices are. A member's forged one would make
    /// every member answer.
    var isNotice: Bool { kind == .system && conversation.isEmpty }

    /// Whether the message is stored for new sessions.
    var isWorthKeeping: Bool {
        ![.receipt, .read, .typing, .system].contains(kind)
    }
}

extension WireFormat {
    /// Detects the format of a chat message. JSON begins with a brace and XML with an angle bracket, and no field of the schema
    /// begins with either in protobuf.
    fileprivate init(of payload: Payload) {
        switch payload.bytes.first(where: { ![0x20, 0x09, 0x0a, 0x0d].contains($0) }) {
        case UInt8(ascii: "{"): self = .json
        case UInt8(ascii: "<"): self = .xml
        default: self = .protobuf
        }
    }
}

extension ChatMessage {
    /// Reads a message in any format, with at most 4,096 mentions and attributes. Returns `nil` if it is malformed.
    package static func read(_ payload: Payload) -> (message: ChatMessage, format: WireFormat)? {
        let format = WireFormat(of: payload)
        let codec = format.codec(limits: CodecLimits(maximumElements: 4096))
        do throws(CodecError) {
            return (try codec.decode(ChatMessage.self, from: payload.bytes), format)
        } catch {
            return nil
        }
    }
}
