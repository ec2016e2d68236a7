import TransportAPI
import Transports

extension TransportRegistry {
    /// Whether the usual server of this transport is a broker.
    package static func hasBroker(_ scheme: String) -> Bool {
        standard.transports.contains { $0.name == scheme && $0.broker != nil }
    }

    /// The options with which a broker acknowledges the messages of a client of this transport; none without a broker.
    package static func acknowledging(_ scheme: String) -> [Endpoint.Option] {
        switch standard.transports.first(where: { $0.name == scheme })?.broker {
        case .mqtt: [.init(name: "qos", value: "1")]
        case .stomp: [.init(name: "receipt", value: "on")]
        case nil: []
        }
    }

    /// A topic of this name whose messages a broker can keep for an absent client, with ``keeping(_:for:)``.
    package static func keptTopic(_ scheme: String, _ name: String) -> String {
        // A session of MQTT keeps those of any topic. STOMP has no sessions, but queues.
        if case .stomp = standard.transports.first(where: { $0.name == scheme })?.broker {
            "/queue/\(name)"
        } else {
            name
        }
    }

    /// The options with which a broker keeps the messages of ``keptTopic(_:_:)`` while their only client is absent.
    package static func keeping(_ scheme: String, for topic: String) -> [Endpoint.Option] {
        let own: [Endpoint.Option] =
            switch standard.transports.first(where: { $0.name == scheme })?.broker {
            case .mqtt: [.init(name: "client-id", value: topic), .init(name: "clean-session", value: "off")]
            case .stomp: [.init(name: "ack", value: "client-individual")]
            case nil: []
            }
        return acknowledging(scheme) + own
    }
}
