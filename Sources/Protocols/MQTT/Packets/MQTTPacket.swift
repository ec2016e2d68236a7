import TransportAPI

/// The delivery guarantee of a message (MQTT 3.1.1, section 4.3).
package typealias MQTTQoS = Payload.QoS

/// A topic filter with a QoS: the highest one requested in SUBSCRIBE, or the one granted in SUBACK.
package struct MQTTSubscription: Sendable, Hashable {
    /// The topic filter (MQTT 3.1.1, section 4.7), 1 to 65,535 bytes of UTF-8.
    package var filter: String
    /// The highest QoS at which messages are delivered.
    package var qos: MQTTQoS

    /// Creates a subscription to `filter`, at QoS 0 by default.
    package init(_ filter: String, qos: MQTTQoS = .atMostOnce) {
        self.filter = filter
        self.qos = qos
    }
}

/// The message that a broker publishes for a client whose connection ends without DISCONNECT (MQTT 3.1.1, section 3.1.2.5).
package struct MQTTWill: Sendable, Hashable {
    /// The topic name, without wildcards.
    package var topic: String
    /// The message, at most 65,535 bytes.
    package var payload: [UInt8]
    /// The QoS of the message.
    package var qos: MQTTQoS
    /// Whether the broker retains the message for later subscribers.
    package var retain: Bool

    /// Creates a will, by default at QoS 0 and not retained.
    package init(topic: String, payload: [UInt8], qos: MQTTQoS = .atMostOnce, retain: Bool = false) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
    }

    /// The size of its topic and its message together, in bytes.
    var size: Int { topic.utf8.count + payload.count }
}

/// The content of CONNECT (MQTT 3.1.1, section 3.1).
package struct MQTTConnect: Sendable, Hashable {
    /// The client identifier. An empty one requests an identifier from the server.
    package var clientID: String
    /// Whether the session starts empty and ends with the connection; `true` by default.
    package var cleanSession = true
    /// The keep alive in seconds; 0, the default, turns it off.
    package var keepAlive: UInt16 = 0
    /// The message to publish if the connection ends without DISCONNECT.
    package var will: MQTTWill?
    /// The user name.
    package var user: String?
    /// The password, which requires a user name.
    @Secret package var password: [UInt8]? = nil

    /// Creates the CONNECT of a clean session without keep alive, will and credentials.
    package init(clientID: String) {
        self.clientID = clientID
    }
}

/// The return codes of CONNACK (MQTT 3.1.1, section 3.2.2.3).
package enum MQTTConnackCode: UInt8, Sendable, Hashable, CaseIterable {
    /// The codes 0 to 3: the client is accepted, or the server refuses its protocol version or identifier, or is
    /// unavailable.
    case accepted, unacceptableProtocolVersion, identifierRejected, serverUnavailable
    /// The codes 4 and 5: the credentials are malformed or wrong, or the client is not authorized.
    case badUserNameOrPassword, notAuthorized
}

/// One PUBLISH (MQTT 3.1.1, section 3.3).
package struct MQTTPublish: Sendable, Hashable {
    /// The topic name, without wildcards.
    package var topic: String
    /// The message.
    package var payload: [UInt8]
    /// The QoS of the message; 0 by default.
    package var qos = MQTTQoS.atMostOnce
    /// Whether the server retains the message, or sends it because it was retained; `false` by default.
    package var retain = false
    /// The flag DUP: an earlier transmission may have arrived; `false` by default.
    package var isDuplicate = false
    /// The packet identifier: not zero at QoS 1 and 2; zero, and not on the wire, at QoS 0.
    package var packetID: UInt16 = 0

    /// Creates a message at QoS 0 that is not retained.
    package init(topic: String, payload: [UInt8]) {
        self.topic = topic
        self.payload = payload
    }

    init(_ topic: String, _ payload: [UInt8], _ qos: MQTTQoS, retain: Bool, _ packetID: UInt16) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.packetID = packetID
    }
}

/// A PUBLISH whose payload is larger than allowed, without the payload.
struct MQTTOversized: Sendable, Hashable {
    var topic: String
    /// The size of its payload, in bytes.
    var size: Int
    var qos: MQTTQoS
    /// The packet identifier; zero at QoS 0.
    var packetID: UInt16
    var isDuplicate: Bool
    /// How many bytes of the payload have not been read.
    var left = 0
    /// Whether the payload is passed over.
    var isPassedOver = false

    /// The report for the user.
    var report: DiscardedMessage { DiscardedMessage(topic: topic, size: size) }
}

/// The fourteen packets of MQTT 3.1.1 (section 2.2.1), by their numbers on the wire.
package enum MQTTPacketType: UInt8, Sendable, Hashable, CaseIterable {
    /// CONNECT, the first packet of a client. The other types follow in the order of their numbers.
    case connect = 1
    /// The answer to CONNECT, the packets of messages, and the packets of subscription requests.
    case connack, publish, puback, pubrec, pubrel, pubcomp, subscribe, suback
    /// The packets that end subscriptions, check the connection, and end it.
    case unsubscribe, unsuback, pingreq, pingresp, disconnect

    /// The name in the specification, such as "PUBACK".
    package var name: String { "\(self)".uppercased() }
}

/// A set of packet types, for those that may arrive in one state of one role.
struct MQTTPacketTypes: Sendable, Hashable {
    private var bits: UInt16 = 0

    init(_ types: MQTTPacketType...) {
        for type in types { bits |= 1 << UInt16(type.rawValue) }
    }

    /// All fourteen types.
    static let all: MQTTPacketTypes = {
        var all = MQTTPacketTypes()
        all.bits = 0x7ffe
        return all
    }()

    func contains(_ type: MQTTPacketType) -> Bool {
        bits & (1 << UInt16(type.rawValue)) != 0
    }
}

/// A packet that was read or is to be written. Packet identifiers are never zero (MQTT-2.3.1-1).
package enum MQTTPacket: Sendable, Hashable {
    /// The first packet of a client (section 3.1).
    indirect case connect(MQTTConnect)
    /// A CONNECT of another protocol level than 4, of which nothing else is known. The answer is CONNACK 1
    /// (MQTT-3.1.2-2).
    case connectOtherLevel(UInt8)
    /// The answer to CONNECT (section 3.2). The return code is not checked, because reserved codes have to be reported.
    case connack(sessionPresent: Bool, code: UInt8)
    /// A message (section 3.3).
    case publish(MQTTPublish)
    /// The acknowledgement of a message at QoS 1.
    case puback(UInt16)
    /// The first of the three acknowledgements at QoS 2: the receiver has the message.
    case pubrec(UInt16)
    /// The second acknowledgement at QoS 2: the sender has received PUBREC.
    case pubrel(UInt16)
    /// The third acknowledgement at QoS 2: the packet identifier is free again.
    case pubcomp(UInt16)
    /// A subscription request, with its packet identifier (section 3.8).
    case subscribe(UInt16, [MQTTSubscription])
    /// The answer to SUBSCRIBE: the QoS granted to each filter, or `nil` for a refused one (0x80).
    case suback(UInt16, [MQTTQoS?])
    /// A request to end the subscriptions to these filters (section 3.10).
    case unsubscribe(UInt16, [String])
    /// The answer to UNSUBSCRIBE.
    case unsuback(UInt16)
    /// The ping of a client (section 3.12).
    case pingreq
    /// The answer to PINGREQ.
    case pingresp
    /// The last packet of a client that closes its connection (section 3.14).
    case disconnect
}
