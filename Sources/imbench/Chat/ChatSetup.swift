import Codecs
import Protocols
import TransportAPI
import Transports

/// All that a chat needs to begin.
struct ChatSetup: Sendable {
    var configuration: TransportConfiguration
    var name: String
    var room: String
    /// How long a message of somebody else's waits for the one before it, which its writer sends again after an outage.
    var longestHold = Duration.seconds(30)

    /// What the command line and its configuration file say.
    ///
    /// - Throws: what is wrong with the file or with a URL.
    init(_ options: Options, registry: TransportRegistry = .standard) throws(TransportError) {
        name = options.chat.name
        room = options.chat.room
        if let path = options.config {
            configuration = try readConfiguration(path)
            if let url = options.chat.url { configuration.endpoints = [url] }
        } else {
            configuration = TransportConfiguration(endpoints: options.chat.url.map { [$0] } ?? [])
            configuration.supervisor = Self.supervisor
        }
        if options.isCodecGiven, let codec = options.codecs.first.flatMap(WireFormat.init(rawValue:)) {
            configuration.codec = codec
        }
        try joinRoom(registry)
    }

    /// With a configuration made by the program.
    init(
        _ configuration: TransportConfiguration,
        name: String,
        room: String,
        registry: TransportRegistry = .standard
    ) throws(TransportError) {
        (self.configuration, self.name, self.room) = (configuration, name, room)
        try joinRoom(registry)
    }

    /// Sessions, and signs of life often enough for somebody who looks at the screen.
    private static let supervisor: SupervisorConfiguration = {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.keepalive.interval = .seconds(15)
        configuration.keepalive.timeout = .seconds(5)
        return configuration
    }()

    /// A broker knows no rooms: they are topics there, unless the URL names others. At QoS 1 the broker acknowledges.
    private mutating func joinRoom(_ registry: TransportRegistry) throws(TransportError) {
        for index in configuration.endpoints.indices {
            let endpoint = configuration.endpoints[index]
            guard try registry.transport(for: endpoint).capabilities.routesByTopic else { continue }
            let topic = "imbench/chat/\(room)"
            for (name, value) in [("publish", topic), ("subscribe", topic), ("qos", "1")]
            where !endpoint.options.contains(where: { $0.name == name }) {
                configuration.endpoints[index].options.append(.init(name: name, value: value))
            }
        }
    }
}
