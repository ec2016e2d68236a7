import Protocols
import TransportAPI
import Transports
import TrialCertificates

/// One mode of a transport, which is measured as a row of its own, because its cost or its guarantees differ from those of
/// the transport's default mode.
package struct TransportMode: Sendable {
    /// The transport of the row, whose name has the mode behind a hyphen.
    package let descriptor: TransportDescriptor
    /// A guarantee that ``Capabilities`` do not show.
    package let guarantee: String?

    /// - Parameters:
    ///   - name: The name of the row.
    ///   - base: The transport.
    ///   - options: The options of its URL that choose the mode.
    ///   - serverOptions: The options that a server needs for the mode.
    ///   - guarantee: A guarantee that ``Capabilities`` do not show.
    private init(
        _ name: String,
        of base: TransportDescriptor,
        _ options: [Endpoint.Option],
        serverOptions: [Endpoint.Option] = [],
        guarantee: String? = nil
    ) {
        var descriptor = base
        descriptor.name = name
        (descriptor.cores, descriptor.annotate) = (nil, nil)
        descriptor.make = { (endpoint, context) throws(TransportError) in
            var endpoint = endpoint
            // The endpoint of a server has its options.
            endpoint.options.removeAll { own in options.contains { $0.name == own.name } }
            endpoint.options += options
            return try base.make(endpoint, context)
        }
        if !serverOptions.isEmpty {
            descriptor.serve = { (endpoint, loop, serving) async throws(TransportError) in
                var endpoint = endpoint
                endpoint.options += serverOptions
                return try await base.serve(endpoint, loop, serving)
            }
        }
        self.descriptor = descriptor
        self.guarantee = guarantee
    }

    /// UDP whose messages all arrive in order.
    static let reliableUDP = TransportMode("udp-reliable", of: .udp, [.init(name: "reliable", value: "ordered")])

    /// WebSocket with compression. All messages of a row have the same text, so a window that keeps earlier ones would
    /// shorten it to a few bytes. Each message is compressed by itself.
    private static let compressed = TransportMode(
        "ws-deflate",
        of: .webSocket,
        [
            .init(name: "deflate", value: "on"), .init(name: "deflate-context", value: "off"),
            .init(name: "deflate-peer-context", value: "off"),
        ],
        serverOptions: [.init(name: "deflate", value: "on")]
    )

    /// The interval of `http-poll`.
    package static let pollInterval = Duration.seconds(1)

    /// Messages over HTTP, by how the client gets those of the server.
    private static let overHTTP = [
        TransportMode("http-sse", of: .http, [.init(name: "mode", value: "sse")]),
        TransportMode("http-long-poll", of: .http, [.init(name: "mode", value: "long-poll")]),
        TransportMode(
            "http-poll",
            of: .http,
            [.init(name: "mode", value: "poll"), .init(name: "interval", value: pollInterval.settingText)]
        ),
    ]

    /// The modes that `run`, `overhead`, `open` and `fanout` measure on request. Other commands choose such options themselves.
    static let measuredOnly =
        (ZLib.shared == nil ? [] : [compressed]) + [
            TransportMode("udp-unordered", of: .udp, [.init(name: "reliable", value: "unordered")]),
            TransportMode("mqtt-qos1", of: .mqtt, [.init(name: "qos", value: "1")]),
            TransportMode("mqtt-qos2", of: .mqtt, [.init(name: "qos", value: "2")], guarantee: "none twice"),
            TransportMode("mqtt-early", of: .mqtt, [.init(name: "early-publish", value: "on")]),
        ] + overHTTP

    /// The names of the modes over HTTP.
    package static var namesOverHTTP: [String] { overHTTP.map(\.descriptor.name) }

    /// The names of these modes.
    package static var namesOfMeasuredOnly: [String] { measuredOnly.map(\.descriptor.name) }

    /// The mode with this name; `nil` for a transport in its default mode.
    package static func named(_ name: String) -> TransportMode? {
        ([reliableUDP] + measuredOnly).first { $0.descriptor.name == name }
    }
}

extension TransportRegistry {
    /// The transports that can be measured: all of this machine, and their modes.
    package static let measured = {
        var registry = TransportRegistry.available
        for mode in [TransportMode.reliableUDP] + TransportMode.measuredOnly { registry.register(mode.descriptor) }
        return registry
    }()
}

extension Capabilities {
    /// The promise of a connection for each message that was sent, in a few words.
    package var guarantee: String {
        guard isReliable else { return "nothing: messages can be lost or reordered" }
        let order = isOrdered ? "in order" : "in any order"
        guard acknowledgesMessages else { return "\(order) until the connection ends" }
        return "\(order), each message confirmed by the \(routesByTopic ? "broker" : "peer")"
    }
}
