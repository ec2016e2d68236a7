import Transports

extension TransportRegistry {
    /// Whether the usual server of this transport is a broker.
    package static func hasBroker(_ scheme: String) -> Bool {
        standard.transports.contains { $0.name == scheme && $0.broker != nil }
    }
}
