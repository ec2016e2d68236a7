import Codecs
import Primitives
import TransportAPI

/// The last messages of a room, for sessions that enter later.
///
/// A client shows a message only after the one that its attribute `after` names. If that one is no longer here, a new
/// session would wait for it in vain. So ``message(_:)`` removes the attribute, and the sender's messages begin there.
struct ChatHistory {
    private struct Kept {
        var payload: Payload
        let id: UTF8Key
        /// The message before it. The empty text is the identifier of no message.
        var after: UTF8Key?
    }

    private let limits: ChatRoom.Limits
    private var messages = Deque<Kept>()
    private var first: UInt64 = 0
    private var bytes = 0
    private var ids: Set<UTF8Key> = []
    /// Whether it has all messages of the room. Then one that is missing is still to come: after a restart of the
    /// server, a client may repeat the later messages before the earlier ones.
    private var isWhole = true

    init(_ limits: ChatRoom.Limits) {
        self.limits = limits
    }

    /// The numbers of its messages.
    var range: Range<UInt64> { first..<first + UInt64(messages.count) }

    /// Adds a message, unless it has a copy of it, and drops the oldest ones beyond the limits.
    mutating func add(_ payload: Payload, in format: WireFormat) {
        guard payload.bytes.count <= limits.historyBytes, limits.historyCount > 0 else {
            isWhole = false
            return
        }
        let codec = format.codec(limits: CodecLimits(maximumElements: 4096))
        let place = (try? codec.decode(PlaceOfMessage.self, from: payload.bytes)) ?? PlaceOfMessage()
        let id = UTF8Key(place.id)
        guard place.id.isEmpty || ids.insert(id).inserted else { return }
        messages.append(Kept(payload: payload, id: id, after: place.after))
        bytes += payload.bytes.count
        while messages.count > limits.historyCount || bytes > limits.historyBytes {
            bytes -= messages[0].payload.bytes.count
            ids.remove(messages[0].id)
            // The queue releases memory in blocks, so the payload is released here.
            messages[0].payload = Payload([])
            _ = messages.popFirst()
            first += 1
            isWhole = false
        }
    }

    /// The message with a number of ``range``, for a session that enters.
    mutating func message(_ number: UInt64) -> Payload {
        let index = Int(number - first)
        if !isWhole, let after = messages[index].after, !ids.contains(after) { removePredecessor(index) }
        return messages[index].payload
    }

    private mutating func removePredecessor(_ index: Int) {
        messages[index].after = nil
        guard let read = ChatMessage.read(messages[index].payload) else { return }
        var message = read.message
        message.attributes["after"] = nil
        guard let changed = try? read.format.codec().encode(message) else { return }
        bytes += changed.count - messages[index].payload.bytes.count
        messages[index].payload.bytes = changed
    }
}

/// The part of a `ChatMessage` that orders it.
private struct PlaceOfMessage: WireMessage {
    var id = ""
    // Hashing a `String` normalises it, which a peer could make slow.
    private var attributes: [UTF8Key: String] = [:]

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.identifier(1, "id", &id)
        try visitor.field(10, "attributes", &attributes)
    }

    /// The identifier of the message before it. One that is too long is no identifier.
    var after: UTF8Key? {
        attributes["after"].map { UTF8Key($0.utf8.count <= 256 ? $0 : "") }
    }
}
