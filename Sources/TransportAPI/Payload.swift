import Primitives

/// One message as a transport carries it: its bytes and a few attributes that transports support.
public struct Payload: Sendable, Hashable {
    /// Whether the bytes are UTF-8 text. WebSocket has an opcode for each kind (RFC 6455, section 5.6). Every other
    /// transport here carries text as bytes and delivers `.binary`.
    public enum Kind: Sendable, Hashable {

        /// UTF-8 text.
        case text
        /// Any bytes.
        case binary
    }

    /// The delivery guarantee of a message, for transports that have a choice (MQTT 3.1.1, section 4.3).
    public enum QoS: UInt8, Sendable, Hashable, Comparable, CaseIterable {
        /// QoS 0: sent once, not acknowledged.
        case atMostOnce = 0
        /// QoS 1: acknowledged with PUBACK. The message can arrive twice over two connections.
        case atLeastOnce = 1
        /// QoS 2: a handshake of four packets. The message arrives once, also over several connections of a persistent
        /// session.
        case exactlyOnce = 2

        /// Orders by the strength of the guarantee.
        public static func < (left: QoS, right: QoS) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    // Few fields let a core pass a payload, and an enum that has one, in registers.

    /// The message's bytes.
    public var bytes: [UInt8]
    /// The topic of the message, for transports that route by topic (MQTT 3.1.1, section 3.3.2.1). On sending, `nil`
    /// means the topic of the configuration. Transports without topics leave it `nil` on receiving. They refuse to send
    /// a payload with a topic, so that a topic is never dropped silently.
    public var topic: String?
    /// All that follows.
    private var attributes = PayloadAttributes()

    /// Text or binary; `.binary` by default.
    public var kind: Kind {
        get { attributes.isText ? .text : .binary }
        set { attributes.isText = newValue == .text }
    }
    /// The delivery guarantee. On sending, `nil`, the default, means the QoS of the configuration. At 1 and 2, sending
    /// ends in ``SendOutcome/acknowledged``. A server sends at no more than the QoS that its client was granted. On
    /// receiving, it is the QoS at which the message came. A received payload that is sent again is sent at that QoS
    /// unless this is set to `nil`. Transports without QoS ignore it on sending and leave it `nil` on receiving.
    public var qos: QoS? {
        get { attributes.qos }
        set { attributes.qos = newValue }
    }
    /// On sending, whether the peer keeps the message as the last of its topic and delivers it to later subscribers
    /// (MQTT 3.1.1, section 3.3.1.3). A message without bytes deletes the kept one. On receiving, whether the message
    /// was kept in this way. `false` by default. Transports without topics refuse to send a payload with `true`.
    public var isRetained: Bool {
        get { attributes.isRetained }
        set { attributes.isRetained = newValue }
    }
    /// On receiving, whether the sender has sent the message before, so that it can have arrived already (MQTT 3.1.1,
    /// section 3.3.1.1: DUP). Ignored on sending. `false` by default.
    public var isDuplicate: Bool {
        get { attributes.isDuplicate }
        set { attributes.isDuplicate = newValue }
    }
    /// On receiving, the number of the subscription by which the message has come, if the protocol names it; 0 otherwise.
    /// It tells the way of a message and not what it is, so it does not count when payloads are compared. At most
    /// ``largestSubscription``.
    package var subscription: UInt32 {
        get { attributes.subscription }
        set { attributes.subscription = newValue }
    }
    /// The largest ``subscription``.
    package static var largestSubscription: UInt32 { PayloadAttributes.largestSubscription }

    /// Creates a payload of these bytes.
    public init(
        _ bytes: [UInt8],
        kind: Kind = .binary,
        topic: String? = nil,
        qos: QoS? = nil,
        isRetained: Bool = false,
        isDuplicate: Bool = false
    ) {
        self.bytes = bytes
        self.topic = topic
        self.kind = kind
        self.qos = qos
        self.isRetained = isRetained
        self.isDuplicate = isDuplicate
    }

    /// Compares all fields but the subscription, the bytes last. The derived comparison would compare one byte at a time.
    public static func == (left: Payload, right: Payload) -> Bool {
        left.attributes == right.attributes && left.bytes.count == right.bytes.count && left.topic == right.topic
            && left.bytes.withUnsafeBytes { bytes in
                right.bytes.withUnsafeBytes { bytes.hasSameBytes(as: $0) }
            }
    }

    /// Hashes what is compared.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(bytes)
        hasher.combine(topic)
        hasher.combine(attributes)
    }

    /// Creates a text payload, as UTF-8.
    public init(text: String, topic: String? = nil, qos: QoS? = nil, isRetained: Bool = false) {
        self.init(Array(text.utf8), kind: .text, topic: topic, qos: qos, isRetained: isRetained)
    }
}
