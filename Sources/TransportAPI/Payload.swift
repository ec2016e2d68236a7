/// One message as a transport carries it: bytes, and the little that transports tell apart about them.
public struct Payload: Sendable, Hashable {
    /// Whether the bytes are UTF-8 text. WebSocket gives the two their own opcodes (RFC 6455, section 5.6); every other
    /// transport here carries text as bytes and delivers `.binary`.
    public enum Kind: Sendable, Hashable {
        case text, binary
    }

    /// How hard the delivery of a message is tried, for transports that can choose (MQTT 3.1.1, section 4.3).
    public enum QoS: UInt8, Sendable, Hashable, Comparable, CaseIterable {
        /// QoS 0: sent once, not acknowledged.
        case atMostOnce = 0
        /// QoS 1: acknowledged with PUBACK; may arrive twice over two connections.
        case atLeastOnce = 1
        /// QoS 2: a handshake of four packets; arrives once, also over several connections of a session that both sides keep.
        case exactlyOnce = 2

        /// Orders by how hard delivery is tried.
        public static func < (left: QoS, right: QoS) -> Bool {
            left.rawValue < right.rawValue
        }
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
    /// On sending, how hard delivery is tried; `nil`, the default, as the configuration says. At 1 and 2, sending ends
    /// in ``SendOutcome/acknowledged``. A server sends at no more than its client was granted. On receiving, the QoS at
    /// which the message came: a received payload that is sent on is sent at that QoS unless this is set to `nil`.
    /// Transports without QoS ignore it on sending and leave it `nil` on receiving.
    public var qos: QoS?

    /// On sending, whether the peer is to keep the message as the last of its topic and to give it to who subscribes
    /// later (MQTT 3.1.1, section 3.3.1.3); no bytes delete what is kept. On receiving, whether it was kept so. `false` by
    /// default; transports without topics refuse to send a payload that has it.
    public var isRetained: Bool

    /// On receiving, whether the sender has sent the message before, so that it may have arrived already (MQTT 3.1.1,
    /// section 3.3.1.1: DUP). Ignored on sending. `false` by default.
    public var isDuplicate: Bool

    /// A payload of these bytes.
    public init(
        _ bytes: [UInt8],
        kind: Kind = .binary,
        topic: String? = nil,
        qos: QoS? = nil,
        isRetained: Bool = false,
        isDuplicate: Bool = false
    ) {
        self.bytes = bytes
        self.kind = kind
        self.topic = topic
        self.qos = qos
        self.isRetained = isRetained
        self.isDuplicate = isDuplicate
    }

    /// A text payload, as UTF-8.
    public init(text: String, topic: String? = nil) {
        self.init(Array(text.utf8), kind: .text, topic: topic)
    }
}
