import Codecs
import SocketIO
import TransportAPI
import Transports

/// What all servers of one chat share: who is there, and what was said last. Each message goes to all sessions but its
/// sender's; whoever comes anew is given the history first. A session that is too slow loses its oldest messages, is told so,
/// and holds up nobody.
public final class ChatRoom: Sendable {
    /// The bounds of a room.
    public struct Limits: Sendable, Hashable {
        /// The most sessions of each server. Default 1000.
        public var sessions = 1000
        /// The most messages that are kept for those who come later. Default 200.
        public var historyCount = 200
        /// The most bytes that they have together. Default 1 MiB.
        public var historyBytes = 1 << 20
        /// The most messages that wait for one session; the oldest is dropped. Default 1000.
        public var outboxCount = 1000
        /// The most bytes that they have together. Default 4 MiB.
        public var outboxBytes = 4 << 20

        /// The defaults.
        public init() {}
    }

    let limits: Limits
    let loop: EventLoop
    private let people: LoopConfined<ChatPeople>

    /// An empty room, whose servers live on `loop`.
    public init(_ limits: Limits = Limits(), on loop: EventLoop = .shared) {
        self.limits = limits
        self.loop = loop
        people = LoopConfined(ChatPeople(limits), to: loop)
    }

    /// Lets a session in. To be called on the loop.
    func enter(_ session: Session) {
        people.value.enter(session, people)
        Task(executorPreference: loop) { [people] in
            for await payload in session.messages { people.value.post(payload, from: session, people) }
            people.value.leave(session)
        }
    }
}

/// The sessions and the history of a room. Lives on its loop.
final class ChatPeople {
    private struct Member {
        let session: Session
        var format = WireFormat.json
        /// Messages that did not reach it since it was told last: because it was slow, and for other reasons.
        var dropped = 0
        var refused = 0
    }

    private let limits: ChatRoom.Limits
    private var members: [ObjectIdentifier: Member] = [:]
    private var history: [Payload] = []
    private var historyBytes = 0

    init(_ limits: ChatRoom.Limits) {
        self.limits = limits
    }

    func enter(_ session: Session, _ people: LoopConfined<ChatPeople>) {
        members[ObjectIdentifier(session)] = Member(session: session)
        for payload in history { send(payload, to: session, people) }
    }

    func leave(_ session: Session) {
        members[ObjectIdentifier(session)] = nil
    }

    func post(_ payload: Payload, from sender: Session, _ people: LoopConfined<ChatPeople>) {
        let format = WireFormat(of: payload)
        if let message = try? format.codec().decode(PostedMessage.self, from: payload.bytes) {
            members[ObjectIdentifier(sender)]?.format = format
            if message.isWorthKeeping { keep(payload) }
        }
        for member in members.values where member.session !== sender { send(payload, to: member.session, people) }
    }

    private func keep(_ payload: Payload) {
        guard payload.bytes.count <= limits.historyBytes, limits.historyCount > 0 else { return }
        history.append(payload)
        historyBytes += payload.bytes.count
        var surplus = 0
        while history.count - surplus > limits.historyCount || historyBytes > limits.historyBytes {
            historyBytes -= history[surplus].bytes.count
            surplus += 1
        }
        history.removeFirst(surplus)
    }

    /// Puts a message into the session's outbox. Tasks on the loop begin in the order in which they were made, so that
    /// messages keep theirs; as many wait as the outbox holds.
    private func send(_ payload: Payload, to session: Session, _ people: LoopConfined<ChatPeople>) {
        Task(executorPreference: people.loop) {
            let outcome = await session.send(payload)
            people.value.settled(outcome, session, people)
        }
    }

    private func settled(_ outcome: SendOutcome, _ session: Session, _ people: LoopConfined<ChatPeople>) {
        let key = ObjectIdentifier(session)
        guard let member = members[key] else { return }
        switch outcome {
        case .rejected(let error) where error.code == .bufferFull: members[key]?.dropped += 1
        case .rejected, .expired, .unknown: members[key]?.refused += 1
        case .acknowledged, .written:
            guard member.dropped + member.refused > 0 else { return }
            members[key]?.dropped = 0
            members[key]?.refused = 0
            send(Self.notice(member), to: session, people)
        }
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
