/// One message as a transport carries it: bytes, and the little that transports tell apart about them.
public struct Payload: Sendable, Hashable {
    /// Whether the bytes are UTF-8 text. WebSocket gives the two their own opcodes (RFC 6455, section 5.6); every other
    /// transport here carries text as bytes and delivers `.binary`.
    public enum Kind: Sendable, Hashable {
        case text, binary
    }

    // In the order of their sizes, so that a payload and what a core says beside it go from one to the other in registers.

    /// The message's bytes.
    public var bytes: [UInt8]
    /// The topic of the message, for transports that route by topic (MQTT 3.1.1, section 3.3.2.1). On sending, `nil` means
    /// the topic that the configuration names; transports without topics leave it `nil` on receiving and refuse to send a
    /// payload that has one, so that a topic is never dropped silently.
    public var topic: String?
    /// Text or binary; `.binary` by default.
    public var kind: Kind
    /// Whether the far side is asked to confirm this message, for transports that can ask (MQTT: QoS 1 or 0); `nil`, the
    /// default, as the configuration says. Always `nil` on receiving.
    public var isConfirmed: Bool?

    /// On sending, whether the far side is to keep the message as the last of its topic and to give it to who subscribes
    /// later (MQTT 3.1.1, section 3.3.1.3); no bytes delete what is kept. On receiving, whether it was kept so. `false` by
    /// default; transports without topics refuse to send a payload that has it.
    public var isRetained: Bool

    /// A payload of these bytes.
    public init(
        _ bytes: [UInt8],
        kind: Kind = .binary,
        topic: String? = nil,
        isConfirmed: Bool? = nil,
        isRetained: Bool = false
    ) {
        self.bytes = bytes
        self.kind = kind
        self.topic = topic
        self.isConfirmed = isConfirmed
        self.isRetained = isRetained
    }

    /// A text payload, as UTF-8.
    public init(text: String, topic: String? = nil) {
        self.init(Array(text.utf8), kind: .text, topic: topic)
    }
}
