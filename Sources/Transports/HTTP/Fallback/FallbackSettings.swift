import Protocols
import TransportAPI

/// The settings of a client that connects over HTTP where WebSocket is blocked.
struct FallbackSettings: Sendable {
    var isOn = false
    /// How long the fallback is tried first after it has worked.
    var retry = Duration.seconds(300)

    static let list = SettingList(
        FallbackSettings(),
        [
            .init(
                "fallback",
                .flag,
                \.isOn,
                "whether messages go over HTTP where the network blocks WebSocket; the server must offer it"
            ),
            .init(
                "retry-preferred",
                .duration(),
                \.retry,
                "how long the fallback is tried first after it has worked; in session mode a connection then returns"
            ),
        ]
    )
}

extension TransportDescriptor {
    /// Returns this transport, whose connections go over another one where the network blocks it if the option `fallback`
    /// says so. Its settings must have those of ``FallbackSettings``. The options that the other transport has too are those of the
    /// same URL.
    ///
    /// - Parameter other: The transport in its place, for the same host, port and path.
    func falling(backTo other: TransportDescriptor) -> TransportDescriptor {
        var descriptor = self
        let others = clientSettings + serverSettings
        descriptor.make = { [make, defaultPort] (endpoint, context) throws(TransportError) in
            let preferred = try make(endpoint, context)
            let settings = try FallbackSettings.list.read(endpoint, ignoring: others)
            guard settings.isOn else { return preferred }
            var target = endpoint
            target.scheme = other.name
            target.port = endpoint.port ?? defaultPort
            target.options.removeAll { !other.hasSetting($0.name) }
            return FallbackTransport(preferred, try other.make(target, context), settings, in: context)
        }
        return descriptor
    }
}
