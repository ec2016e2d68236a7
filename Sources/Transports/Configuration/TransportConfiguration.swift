import Codecs
import SocketIO
import TransportAPI

/// All that a supervised connection needs: where, in which format, and how it is kept alive.
///
/// ```swift
/// let configuration = try TransportConfiguration(json: text.utf8, label: "chat.json")
/// let transports = try configuration.transports()
/// ```
public struct TransportConfiguration: Sendable, Hashable {
    /// Where to connect, the first preferred; at least one. They may be of different transports.
    public var endpoints: [Endpoint]
    /// The format of messages. Default `.json`.
    public var codec: WireFormat
    /// Headers of each WebSocket handshake, such as Authorization. Default: none.
    public var headers: [HTTPHeader]
    /// How the link is kept alive.
    public var supervisor: SupervisorConfiguration

    /// A configuration from its parts.
    public init(
        endpoints: [Endpoint],
        codec: WireFormat = .json,
        headers: [HTTPHeader] = [],
        supervisor: SupervisorConfiguration = SupervisorConfiguration()
    ) {
        self.endpoints = endpoints
        self.codec = codec
        self.headers = headers
        self.supervisor = supervisor
    }

    /// Reads a JSON file (RFC 8259, strictly) of at most 1 MiB; ``keyReference`` lists its keys.
    ///
    /// - Parameters:
    ///   - json: the text of the file, in UTF-8.
    ///   - label: what errors call the file, usually its name.
    ///   - registry: the transports that its endpoints may name.
    /// - Throws: `.invalidConfiguration` with the file, the line, the key, what was found there and what is allowed.
    public init(
        json: some Sequence<UInt8>,
        label: String = "configuration",
        registry: TransportRegistry = .standard
    ) throws(TransportError) {
        self.init(endpoints: [])
        let root = try ConfigurationValue(
            json,
            label: label,
            maximumLength: JSONDocument.maximumLength,
            registry: registry
        )
        try Self.object.read(root, into: &self)
    }

    /// The recipes for links to the endpoints, in their order. The headers go to those that take headers.
    ///
    /// - Parameters:
    ///   - registry: the transports that there are.
    ///   - loop: where the links live; the shared loop by default.
    /// - Throws: `.invalidConfiguration` if there is no endpoint, one is wrong, or a session has servers and brokers among them.
    public func transports(
        from registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared
    ) throws(TransportError) -> [any Transport] {
        guard !endpoints.isEmpty else { throw .configuration("endpoints", "are empty; at least one is needed") }
        var transports: [any Transport] = []
        for endpoint in endpoints {
            let full = withHeaders(endpoint, registry)
            let transport = try registry.transport(for: full, on: loop)
            transports.append(full == endpoint ? transport : DiscreetTransport(endpoint: endpoint, whole: transport))
        }
        if let stray = strayEndpoint(transports) { throw .configuration("endpoints[\(stray.index)]", stray.problem) }
        return transports
    }

    /// The first endpoint that leads to another kind of far side than those before it, though a session is to go over all of
    /// them: no server knows what is between a client and those behind a broker, nor the other way round.
    func strayEndpoint(_ transports: [any Transport]) -> (index: Int, problem: String)? {
        let styles = transports.map { Delivery.style(supervisor.delivery, $0.capabilities) }
        guard let first = styles.first, let index = styles.firstIndex(where: { $0 != first }) else { return nil }
        let (here, there) = first == .origin ? ("a server", "a broker") : ("a broker", "a server")
        return (
            index,
            #"leads to \#(here), and "endpoints[0]" to \#(there); allowed beside "delivery.mode": "session" "#
                + "are servers only, or brokers only"
        )
    }

    /// The endpoint with the headers, if its transport takes any.
    func withHeaders(_ endpoint: Endpoint, _ registry: TransportRegistry) -> Endpoint {
        registry.takesHeaders(endpoint.scheme) ? endpoint.adding(headers) : endpoint
    }

    /// The table of all keys of the file: what each may be, its default, and what it means.
    public static var keyReference: String {
        KeyReferenceRow.table(object.reference(defaults: TransportConfiguration(endpoints: [])))
    }
}

extension TransportConfiguration: CustomReflectable {
    /// What debuggers and failed tests show: all but the values of headers, which may be secrets.
    public var customMirror: Mirror {
        let children: KeyValuePairs<String, Any> = [
            "endpoints": endpoints, "codec": codec, "headers": headers.map(\.name), "supervisor": supervisor,
        ]
        return Mirror(self, children: children, displayStyle: .struct)
    }
}

/// A transport that shows its endpoint without the headers, which may be secrets.
private struct DiscreetTransport: Transport {
    let endpoint: Endpoint
    let whole: any Transport

    var capabilities: Capabilities { whole.capabilities }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Link {
        try await whole.connect(timeout: timeout)
    }
}

extension TransportRegistry {
    /// Whether the transport of this name has the option `header`.
    func takesHeaders(_ name: String) -> Bool {
        transports.contains { $0.name == name && $0.options.contains { $0.name == "header" } }
    }
}

extension Endpoint {
    /// With these headers among its options.
    func adding(_ headers: [HTTPHeader]) -> Endpoint {
        var endpoint = self
        endpoint.options += headers.map { Option(name: "header", value: "\($0.name):\($0.value)") }
        return endpoint
    }
}
