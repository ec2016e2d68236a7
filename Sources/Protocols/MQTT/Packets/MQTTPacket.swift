import TransportAPI

/// How hard delivery of a message is tried (MQTT 3.1.1, section 4.3).
package typealias MQTTQoS = Payload.QoS

/// A topic filter with a QoS: the highest one asked for in SUBSCRIBE, or the one granted in SUBACK.
package struct MQTTSubscription: Sendable, Hashable {
    /// The topic filter (MQTT 3.1.1, section 4.7), 1 to 65,535 bytes of UTF-8.
    package var filter: String
    /// The highest QoS at which messages are delivered.
    package var qos: MQTTQoS

    /// A subscription to this filter; at QoS 0 unless told otherwise.
    package init(_ filter: String, qos: MQTTQoS = .atMostOnce) {
        self.filter = filter
        self.qos = qos
    }
}

/// The message that a broker publishes for a client whose connection ends without DISCONNECT (MQTT 3.1.1, section 3.1.2.5).
package struct MQTTWill: Sendable, Hashable {
    /// Where it is published: a topic name, without wildcards.
    package var topic: String
    /// What is published, at most 65,535 bytes.
    package var payload: [UInt8]
    /// At which QoS.
    package var qos: MQTTQoS
    /// Whether the broker keeps it for later subscribers.
    package var retain: Bool

    /// A will; at QoS 0 and not retained unless told otherwise.
    package init(topic: String, payload: [UInt8], qos: MQTTQoS = .atMostOnce, retain: Bool = false) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
    }

    /// The bytes of its topic and its message.
    var size: Int { topic.utf8.count + payload.count }
}

/// What a client says in CONNECT (MQTT 3.1.1, section 3.1).
package struct MQTTConnect: Sendable, Hashable {
    package var clientID: String
    package var cleanSession = true
    /// Seconds; 0 turns keep alive off.
    package var keepAlive: UInt16 = 0
    package var will: MQTTWill?
    package var user: String?
    package var password: [UInt8]?

    package init(clientID: String) {
        self.clientID = clientID
    }
}

/// The answers to CONNECT (MQTT 3.1.1, section 3.2.2.3).
package enum MQTTConnackCode: UInt8, Sendable, Hashable, CaseIterable {
    case accepted, unacceptableProtocolVersion, identifierRejected, serverUnavailable
    case badUserNameOrPassword, notAuthorized
}

/// One PUBLISH (MQTT 3.1.1, section 3.3).
package struct MQTTPublish: Sendable, Hashable {
    package var topic: String
    package var payload: [UInt8]
    package var qos = MQTTQoS.atMostOnce
    package var retain = false
    /// DUP: a former attempt may have arrived already.
    package var isDuplicate = false
    /// Not zero at QoS 1 and 2; zero, and not on the wire, at QoS 0.
    package var packetID: UInt16 = 0

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

/// A PUBLISH whose payload is larger than allowed: all but the payload.
struct MQTTOversized: Sendable, Hashable {
    var topic: String
    /// The bytes of its payload.
    var size: Int
    var qos: MQTTQoS
    /// Zero at QoS 0.
    var packetID: UInt16
    var isDuplicate: Bool
    /// How many bytes of the payload are still to come.
    var left = 0
    /// It has been decided that the payload is passed over.
    var isPassedOver = false

    /// What is reported of it.
    var report: DiscardedMessage { DiscardedMessage(topic: topic, size: size) }
}

/// The fourteen packets of MQTT 3.1.1 (section 2.2.1), with their numbers on the wire.
package enum MQTTPacketType: UInt8, Sendable, Hashable, CaseIterable {
    case connect = 1
    case connack, publish, puback, pubrec, pubrel, pubcomp, subscribe, suback
    case unsubscribe, unsuback, pingreq, pingresp, disconnect

    /// As the specification writes it.
    package var name: String { "\(self)".uppercased() }
}

/// A set of packet types: those that may arrive in one state of one role.
struct MQTTPacketTypes: Sendable, Hashable {
    private var bits: UInt16 = 0

    init(_ types: MQTTPacketType...) {
        for type in types { bits |= 1 << UInt16(type.rawValue) }
    }

    /// All fourteen.
    static let all: MQTTPacketTypes = {
        var all = MQTTPacketTypes()
        all.bits = 0x7ffe
        return all
    }()

    func contains(_ type: MQTTPacketType) -> Bool {
        bits & (1 << UInt16(type.rawValue)) != 0
    }
}

/// A packet, read or to be written. Packet identifiers are never zero (MQTT-2.3.1-1).
package enum MQTTPacket: Sendable, Hashable {
    indirect case connect(MQTTConnect)
    /// A CONNECT of another protocol level than 4, of which nothing else is known; to be answered with CONNACK 1
    /// (MQTT-3.1.2-2).
    case connectOtherLevel(UInt8)
    /// The return code is as it came, since reserved ones have to be reported.
    case connack(sessionPresent: Bool, code: UInt8)
    case publish(MQTTPublish)
    case puback(UInt16)
    case pubrec(UInt16)
    case pubrel(UInt16)
    case pubcomp(UInt16)
    case subscribe(UInt16, [MQTTSubscription])
    /// The QoS granted to each filter; `nil` for a refused one (0x80).
    case suback(UInt16, [MQTTQoS?])
    case unsubscribe(UInt16, [String])
    case unsuback(UInt16)
    case pingreq
    case pingresp
    case disconnect
}
