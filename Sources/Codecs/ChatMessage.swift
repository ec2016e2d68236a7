/// A chat message: the schema of `Protos/chat.proto`.
public struct ChatMessage: Sendable, Hashable {
    /// Unique among all messages of the conversation; the sender chooses it.
    public var id = ""
    /// The conversation that the message belongs to.
    public var conversation = ""
    /// Who wrote it.
    public var sender = ""
    /// When it was sent, in milliseconds since the Unix epoch.
    public var sentAtMs: Int64 = 0
    /// What it is.
    public var kind = Kind.text
    /// Its text; for an attachment the caption.
    public var text = ""
    /// The id of the message that this one answers.
    public var replyTo: String?
    /// Who is mentioned in the text.
    public var mentions: [String] = []
    /// A file or image, or a part of one.
    public var attachment: [UInt8] = []
    /// Whatever else the application has to say about it.
    public var attributes = [String: String]()
    /// Fields of a newer schema.
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
    /// What a message is.
    public struct Kind: WireEnum {
        /// The number on the wire.
        public var rawValue: Int32
        /// The kind with this number, known or not.
        @inlinable
        public init(rawValue: Int32) { self.rawValue = rawValue }

        /// Written text.
        public static var text: Kind { Kind(rawValue: 0) }
        /// A picture in the attachment.
        public static var image: Kind { Kind(rawValue: 1) }
        /// A file in the attachment.
        public static var file: Kind { Kind(rawValue: 2) }
        /// A notice from the service itself.
        public static var system: Kind { Kind(rawValue: 3) }
        /// The message named by `replyTo` has arrived.
        public static var receipt: Kind { Kind(rawValue: 4) }
        /// The message named by `replyTo` has been read.
        public static var read: Kind { Kind(rawValue: 5) }
        /// The sender is writing.
        public static var typing: Kind { Kind(rawValue: 6) }
        /// `text` replaces the text of the message named by `replyTo`.
        public static var edit: Kind { Kind(rawValue: 7) }
        /// The message named by `replyTo` is withdrawn.
        public static var recall: Kind { Kind(rawValue: 8) }

        /// The names of the proto.
        public static let names: [(number: Int32, name: StaticString)] = [
            (0, "KIND_TEXT"), (1, "KIND_IMAGE"), (2, "KIND_FILE"), (3, "KIND_SYSTEM"), (4, "KIND_RECEIPT"),
            (5, "KIND_READ"), (6, "KIND_TYPING"), (7, "KIND_EDIT"), (8, "KIND_RECALL"),
        ]
    }
}

extension ChatMessage: WireMessage {
    /// A visit shows stored properties.
    @inlinable
    public static var isVisitedInPlace: Bool { true }

    /// Shows every field to `visitor`.
    @inlinable
    public mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(1, "id", &id)
        try visitor.field(2, "conversation", &conversation)
        try visitor.field(3, "sender", &sender)
        try visitor.field(4, "sentAtMs", &sentAtMs)
        try visitor.field(5, "kind", &kind)
        try visitor.field(6, "text", &text)
        try visitor.field(7, "replyTo", &replyTo)
        try visitor.field(8, "mentions", &mentions)
        try visitor.field(9, "attachment", &attachment)
        try visitor.field(10, "attributes", &attributes)
        try visitor.unknownFields(&unknownFields)
    }
}
