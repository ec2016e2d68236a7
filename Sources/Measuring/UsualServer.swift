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
}
