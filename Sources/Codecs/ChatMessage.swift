/// A chat message. Its schema is `Protos/chat.proto`.
///
/// `id`, `conversation`, `sender`, `replyTo` and `mentions` are identifiers: a codec neither reads nor writes one that is
/// longer than ``CodecLimits/maximumKeyLength``.
public struct ChatMessage: Sendable, Hashable {
    /// The identifier of the message, unique in its conversation. The sender chooses it.
    public var id = ""
    /// The identifier of the conversation that contains the message.
    public var conversation = ""
    /// The identifier of the sender.
    public var sender = ""
    /// When the message was sent, in milliseconds since the Unix epoch.
    public var sentAtMs: Int64 = 0
    /// The kind of the message. The default is text.
    public var kind = Kind.text
    /// The text of the message, or the caption of its attachment.
    public var text = ""
    /// The `id` of the message that this one refers to.
    public var replyTo: String?
    /// The identifiers of the users that the text mentions.
    public var mentions: [String] = []
    /// The bytes of a file or an image, or of a part of one.
    public var attachment: [UInt8] = []
    /// Further properties that the application defines.
    public var attributes = [String: String]()
    /// The fields of a newer schema, kept so that they are written again.
    public var unknownFields = UnknownFields()

    /// A message with every field at its default.
    public init() {}

    /// A text message.
    public init(id: String, conversation: String, sender: String, sentAtMs: Int64, text: String) {
        self.id = id
        self.conversation = conversation
        self.sender = sender
        self.sentAtMs = sentAtMs
        self.text = text
    }
}

extension ChatMessage {
    /// Whether both have the same fields. Texts are compared by their UTF-8, in a time proportional to their length.
    public static func == (left: ChatMessage, right: ChatMessage) -> Bool {
        left.sentAtMs == right.sentAtMs && left.kind == right.kind && left.attachment == right.attachment
            && left.unknownFields == right.unknownFields && left.id.hasSameUTF8(as: right.id)
            && left.conversation.hasSameUTF8(as: right.conversation) && left.sender.hasSameUTF8(as: right.sender)
            && left.text.hasSameUTF8(as: right.text) && hasSameUTF8(left.replyTo, right.replyTo)
            && left.mentions.elementsEqual(right.mentions) { $0.hasSameUTF8(as: $1) }
            && left.attributes.count == right.attributes.count
            && left.attributes.allSatisfy { key, value in
                guard let index = right.attributes.index(forKey: key) else { return false }
                let other = right.attributes[index]
                return key.hasSameUTF8(as: other.key) && value.hasSameUTF8(as: other.value)
            }
    }

    private static func hasSameUTF8(_ left: String?, _ right: String?) -> Bool {
        guard let left, let right else { return left == nil && right == nil }
        return left.hasSameUTF8(as: right)
    }

    /// Hashes the identifier, the conversation, the sender and the time.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(UTF8Key(id))
        hasher.combine(UTF8Key(conversation))
        hasher.combine(UTF8Key(sender))
        hasher.combine(sentAtMs)
    }
}

extension ChatMessage {
    /// The kind of a message. A kind with an unknown number is kept and written again.
    public struct Kind: WireEnum {
        /// The number on the wire.
        public var rawValue: Int32
        /// The kind with this number, which may be unknown.
        @inlinable
        public init(rawValue: Int32) { self.rawValue = rawValue }

        /// A text.
        public static var text: Kind { Kind(rawValue: 0) }
        /// An image in the attachment.
        public static var image: Kind { Kind(rawValue: 1) }
        /// A file in the attachment.
        public static var file: Kind { Kind(rawValue: 2) }
        /// A notice from the service.
        public static var system: Kind { Kind(rawValue: 3) }
        /// A receipt: the message `replyTo` has arrived.
        public static var receipt: Kind { Kind(rawValue: 4) }
        /// A receipt: the message `replyTo` has been read.
        public static var read: Kind { Kind(rawValue: 5) }
        /// The sender is typing.
        public static var typing: Kind { Kind(rawValue: 6) }
        /// An edit: `text` replaces the text of the message `replyTo`.
        public static var edit: Kind { Kind(rawValue: 7) }
        /// The message `replyTo` is withdrawn.
        public static var recall: Kind { Kind(rawValue: 8) }

        /// The names in `Protos/chat.proto`.
        public static let names: [(number: Int32, name: StaticString)] = [
            (0, "KIND_TEXT"), (1, "KIND_IMAGE"), (2, "KIND_FILE"), (3, "KIND_SYSTEM"), (4, "KIND_RECEIPT"),
            (5, "KIND_READ"), (6, "KIND_TYPING"), (7, "KIND_EDIT"), (8, "KIND_RECALL"),
        ]
    }
}

extension ChatMessage: WireMessage {
    /// `true`, because a visit only passes stored properties.
    @inlinable
    public static var unsafeEncodesInPlace: Bool { true }

    /// Passes every field to `visitor`.
    @inlinable
    public mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.identifier(1, "id", &id)
        try visitor.identifier(2, "conversation", &conversation)
        try visitor.identifier(3, "sender", &sender)
        try visitor.field(4, "sentAtMs", &sentAtMs)
        try visitor.field(5, "kind", &kind)
        try visitor.field(6, "text", &text)
        try visitor.identifier(7, "replyTo", &replyTo)
        try visitor.identifier(8, "mentions", &mentions)
        try visitor.field(9, "attachment", &attachment)
        try visitor.field(10, "attributes", &attributes)
        try visitor.unknownFields(&unknownFields)
    }
}
