import Protocols
import TransportAPI
import Transports

extension TransportRegistry {
    /// What can be measured: the transports, and a mode of one that costs and promises so much else that it is a row of
    /// its own.
    static let measured = {
        var registry = TransportRegistry.standard
        registry.register(.reliableUDP)
        return registry
    }()
}

extension TransportDescriptor {
    /// `udp://` with `reliable=ordered`, under a name of its own.
    static let reliableUDP = {
        var descriptor = TransportDescriptor.udp
        let make = descriptor.make
        descriptor.name = "udp-reliable"
        descriptor.make = { (endpoint, loop) throws(TransportError) in
            var endpoint = endpoint
            endpoint.options.append(.init(name: "reliable", value: "ordered"))
            return try make(endpoint, loop)
        }
        return descriptor
    }()
}
