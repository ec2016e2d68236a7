import Codecs
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// What all servers of one chat share: its members, and the last messages. Each message goes to all sessions but its sender's;
/// a session that comes later is given the history first. A session that is too slow misses the oldest messages and is notified
/// of their number. It delays no other session.
public final class ChatRoom: Sendable {
    /// The limits of a room.
    public struct Limits: Sendable, Hashable {
        /// The most sessions of each server. Default 1000.
        public var sessions = 1000
        /// The most messages that are kept for those who come later. Default 200.
        public var historyCount = 200
        /// The most bytes that they have together. Default 1 MiB.
        public var historyBytes = 1 << 20
        /// The most messages that wait for one session; it misses the oldest of more. All sessions share the memory of
        /// what waits. Default 1000.
        public var outboxCount = 1000
        /// The most bytes that they have together, and the largest message that the room passes on. Default 4 MiB.
        public var outboxBytes = 4 << 20
        /// A simulation turns it off to show that it finds a room without this bound.
        package var boundsMessagesInFlight = true

        /// The defaults.
        public init() {}
    }

    let limits: Limits
    let loop: EventLoop
    private let people: LoopBound<ChatPeople>

    /// An empty room, whose servers live on `loop`.
    public init(_ limits: Limits = Limits(), on loop: EventLoop = .shared) {
        self.limits = limits
        self.loop = loop
        people = LoopBound(ChatPeople(limits, on: loop), to: loop)
    }

    /// Lets a session in. To be called on the loop.
    func enter(_ session: Session) {
        let member = LoopBound(people.value.enter(session), to: loop)
        Task(executorPreference: loop) { [people] in
            for await payload in session.messages {
                // A session that floods is read as slowly as the room passes its messages on.
                let isPaced = await people.value.turn(of: member.value, payload.bytes.count)
                people.value.post(payload, from: member.value, isPaced: isPaced)
            }
            people.value.leave(member.value)
        }
    }
}

/// The members and the messages of a room. Lives on its loop.
///
/// The messages that wait are kept once, in ``log``; each member has a place in it. So a message takes no memory and no
/// time for members that are away or slow. The log has the bounds of the outbox that a member would have for itself.
///
/// A member that writes little is served at once. What is left of its message, and the messages of members that write
/// much, are passed on in shares of the loop's ticks. Members that write much take turns. Their turn comes when all
/// other members have what there is, and at a rate that leaves most of the loop's time to others. A member writes much
/// if it sends its next message before the room has taken the last one, or if it sends more than 100 messages a second
/// for some time. A large message counts as several small ones, so that one of 8 KiB is much already.
///
/// A member that acknowledges nothing is soon sent nothing: few messages are in flight to a new member, and one more with each
/// that it acknowledges. At most one is in flight to a member without a connection.
final class ChatPeople: ScheduledHandler {
    var schedule = ScheduleEntry()
    /// One session.
    final class Member: SendObserver {
        fileprivate enum State {
            /// It has all that there is.
            case idle
            /// It waits for its next message.
            case queued
            /// As many messages are on their way to it as may be.
            case full
            case gone
        }

        private weak var room: ChatPeople?
        /// Tells it from all others of its loop.
        fileprivate let number: UInt64
        fileprivate let session: Session
        fileprivate var state = State.idle
        fileprivate var format = WireFormat.json
        /// Which messages of the history it is given first.
        fileprivate var history: Range<UInt64>
        /// Which message of the log is next.
        fileprivate var next: UInt64
        /// How many of the messages that the room has taken are its own, and how many of these stand before ``next``.
        fileprivate var own: (taken: UInt64, passed: UInt64) = (0, 0)
        /// How many messages have no outcome yet, and how many of them there may be.
        fileprivate var inFlight = 0
        fileprivate var window: Int
        /// How many times its window was full.
        fileprivate var fulls = 0
        /// Its window was full for so long that nobody waits for it, until it has all messages again.
        fileprivate var isSlow = false
        /// Messages that did not reach it since it was notified last: because it was slow, and for other reasons.
        fileprivate var dropped: UInt64 = 0
        fileprivate var refused: UInt64 = 0
        /// Whether the last message reached it.
        fileprivate var isReachable = true
        /// Until when the messages that it has written use what it may write.
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
        /// Its sender writes much.
        let isPaced: Bool
    }

    /// How many messages are in flight to a new member at most, and to any member; these are in its session.
    private static let (firstWindow, window) = (2, 32)
    /// How many messages are passed on at once, and how many in one share.
    private static let pieces = 8
    /// How many nanoseconds pass for each delivery of a message of a member that writes much, before the next such
    /// message is taken.
    private static let pace: Int64 = 100_000
    /// How many nanoseconds members that write much wait for another one whose window is full.
    private static let patience: Int64 = 50_000_000
    /// A member may write so many messages at once, and one more in so many nanoseconds, before it counts as one that
    /// writes much.
    private static let (burst, interval): (Int64, Int64) = (16, 10_000_000)
    /// How many bytes of a message count as one more message.
    private static let bytesOfOne = 512
    /// For how many nanoseconds a member counts as one that writes much if its next message was there already.
    private static let floodTime: Int64 = 100_000_000

    private let limits: ChatRoom.Limits
    private let loop: EventLoop
    private let window: Int
    private var members: [UInt64: Member] = [:]
    /// The messages for members that come later, the number of the first of them, and their bytes.
    private var history = Deque<Payload>()
    private var firstOfHistory: UInt64 = 0
    private var historyBytes = 0
    /// The last messages, the number of the first of them, and their bytes.
    private var log = Deque<Entry>()
    private var first: UInt64 = 0
    private var logBytes = 0
    /// Members that wait for their next message: first those that write little, then the others.
    private var queued = Deque<Member>()
    private var queuedBusy = Deque<Member>()
    /// Members that have all.
    private var idle: [UInt64: Member] = [:]
    /// Members that write much, and wait for their turn to write the next message.
    private var waiting = Deque<UnsafeContinuation<Void, Never>>()
    /// When the next of them may write, and the timer for it.
    private var nextTurn: Int64 = 0
    private var timer: UInt64?
    /// Members with a full window that write little, which the others wait for: how many times it was full, and until when.
    private var holds = Deque<(member: Member, fulls: Int, until: Int64)>()

    init(_ limits: ChatRoom.Limits, on loop: EventLoop) {
        self.limits = limits
        self.loop = loop
        window = max(1, min(Self.window, limits.outboxCount))
    }

    private var end: UInt64 { first + UInt64(log.count) }

    // MARK: Members

    func enter(_ session: Session) -> Member {
        let member = Member(self, session, firstOfHistory..<firstOfHistory + UInt64(history.count), next: end)
        // A new member counts as one that writes much for the first 10 ms, so that many new ones at once are slowed down, too.
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
    }

    /// Whether it has written much of late.
    private func isBusy(_ member: Member) -> Bool {
        member.spentUntil - loop.now >= Self.burst * Self.interval
    }

    /// When the messages that it has written, and one more of so many bytes, no longer use what it may write.
    private func spentUntil(_ member: Member, _ bytes: Int) -> Int64 {
        max(member.spentUntil, loop.now) + Self.interval * Int64(1 + bytes / Self.bytesOfOne)
    }

    // MARK: Messages that come

    /// Takes a message, and passes it on at once if the sender writes little.
    func post(_ payload: Payload, from sender: Member, isPaced: Bool) {
        let spent = spentUntil(sender, payload.bytes.count)
        // A member that has written much writes little again once it has paused for twice the time that a burst takes.
        sender.spentUntil = min(spent, loop.now + 2 * Self.burst * Self.interval)
        take(payload, from: sender, isPaced: isPaced)
        // Many members may write in the same tick.
        let isLongTick = MonotonicClock.now() - loop.now > EventLoop.timeBudget
        var left = isPaced || isLongTick ? 0 : Self.pieces
        while left > 0, passOn() { left -= 1 }
        requestRun()
    }

    /// Waits until a member may write its next message, of so many bytes; whether it is one that writes much.
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
        let format = WireFormat(of: payload)
        if let message = try? format.codec().decode(PostedMessage.self, from: payload.bytes) {
            sender.format = format
            if message.isWorthKeeping { keep(payload) }
        }
        guard payload.bytes.count <= limits.outboxBytes else {
            for member in members.values where member !== sender { member.refused += 1 }
            return
        }
        log.append(Entry(payload: payload, sender: sender, isPaced: isPaced))
        logBytes += payload.bytes.count
        sender.own.taken += 1
        while log.count > max(1, limits.outboxCount) || logBytes > limits.outboxBytes {
            logBytes -= log[0].payload.bytes.count
            // A queue gives memory back in blocks.
            log[0].payload = Payload([])
            _ = log.popFirst()
            first += 1
        }
        for member in idle.values { queue(member) }
        idle.removeAll(keepingCapacity: true)
    }

    private func keep(_ payload: Payload) {
        guard payload.bytes.count <= limits.historyBytes, limits.historyCount > 0 else { return }
        history.append(payload)
        historyBytes += payload.bytes.count
        while history.count > limits.historyCount || historyBytes > limits.historyBytes {
            historyBytes -= history[0].bytes.count
            history[0] = Payload([])
            _ = history.popFirst()
            firstOfHistory += 1
        }
    }

    // MARK: Messages that go

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
                // All have what there is, or as much as may be in flight to them.
                beginTurn()
                break
            }
            guard MonotonicClock.now() < due else { break }
        }
        requestRun()
    }

    /// Lets the next member that writes much write a message, now or when the time for it has come.
    private func beginTurn() {
        guard !waiting.isEmpty, timer == nil else { return }
        let now = loop.now
        let due = max(nextTurn, holdEnd(now))
        guard now < due else {
            waiting.popFirst()?.resume()
            return
        }
        timer = loop.schedule(at: due) { [weak self] in
            self?.timer = nil
            self?.requestRun()
        }
    }

    /// Until when members that write much wait for another one whose window is full.
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

    /// Sends one member its next message; `false` if none waits for one.
    private func passOn() -> Bool {
        guard let member = queued.popFirst() ?? queuedBusy.popFirst() else { return false }
        guard member.state != .gone else { return true }
        let most = member.session.isConnected ? member.window : 1
        guard member.inFlight < most || !limits.boundsMessagesInFlight else {
            member.state = .full
            member.fulls += 1
            // A member that has acknowledged nothing yet is not waited for.
            if !member.isSlow, member.window > Self.firstWindow, !isBusy(member) {
                holds.append((member, member.fulls, loop.now + Self.patience))
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
        // What has left the history meanwhile made room for what comes behind it.
        let number = max(member.history.lowerBound, firstOfHistory)
        if number < member.history.upperBound {
            member.history = number + 1..<member.history.upperBound
            return history[Int(number - firstOfHistory)]
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
                if entry.isPaced { nextTurn = max(nextTurn, loop.now) + Self.pace }
                return entry.payload
            }
            member.own.passed += 1
        }
        return nil
    }

    /// A member that was too slow misses what is no longer there. Its own messages don't count.
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
        // A notice that does not reach it would only lead to the next.
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

    /// Tells a member what it has missed.
    private static func notice(_ member: Member) -> Payload {
        var message = ChatMessage()
        message.kind = .system
        message.sender = "server"
        message.text = "you have missed \(member.dropped + member.refused) messages"
        // What was dropped for want of room may come when it is sent again; what was refused will not.
        if member.dropped > 0 { message.attributes["event"] = "missed" }
        do throws(CodecError) {
            return Payload(try member.format.codec().encode(message), kind: member.format.isText ? .text : .binary)
        } catch {
            // A short message that no codec refuses.
            return Payload(text: "{}")
        }
    }
}

/// What a room reads of a ``ChatMessage``. Its texts are passed over and never hashed, which a peer could make slow.
private struct PostedMessage: WireMessage {
    var kind = ChatMessage.Kind.text

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(5, "kind", &kind)
    }

    /// Whether sessions that come later want to see it.
    var isWorthKeeping: Bool {
        ![.receipt, .read, .typing, .system].contains(kind)
    }
}

extension WireFormat {
    /// The format of a chat message: JSON begins with a brace, and no field of the schema does in protobuf.
    fileprivate init(of payload: Payload) {
        let first = payload.bytes.first { ![0x20, 0x09, 0x0a, 0x0d].contains($0) }
        self = first == UInt8(ascii: "{") ? .json : .protobuf
    }
}

extension ChatMessage {
    /// Reads a message in whichever format it is, with at most 4,096 mentions and attributes.
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
