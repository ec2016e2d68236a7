import Protocols
import SocketIO
import TransportAPI
import Transports

extension TransportRegistry {
    /// Lets the system speak WebSocket: `ws` and `wss` get the option `engine`, whose value `system` means
    /// `URLSessionWebSocketTask`, and `openssl` the WebSocket of this package. Without the option it is `system` on an Apple
    /// system without OpenSSL, such as every iPhone, and otherwise `openssl`.
    ///
    /// ```swift
    /// var registry = TransportRegistry.standard
    /// registry.registerSystemWebSocket()
    /// let supervisor = try Supervisor("wss://chat.example/socket", registry: registry)
    /// ```
    ///
    /// With `system`, a URL can have only the options that the system has an equivalent for. Any other one is an error that names
    /// it. Servers are always those of this package.
    public mutating func registerSystemWebSocket() {
        registerWebSocket(.standard) { URLSessionWebSocket.factory() }
    }

    /// Registers `ws` and `wss` with the option `engine`.
    ///
    /// - Parameters:
    ///   - standard: What speaks the WebSocket of a URL without the option.
    ///   - makeFactory: Makes what makes the tasks of one transport.
    mutating func registerWebSocket(
        _ standard: WebSocketEngine,
        _ makeFactory: @escaping @Sendable () -> WebSocketTaskFactory
    ) {
        for transport in transports where ["ws", "wss"].contains(transport.name) {
            register(transport.choosingEngine(standard, makeFactory))
        }
    }
}

/// The setting that both engines have.
private struct EngineSettings: Sendable {
    var engine = WebSocketEngine.standard

    static let list = SettingList(
        EngineSettings(),
        [
            .init(
                "engine",
                .word,
                \.engine,
                "what speaks WebSocket: the system (URLSession), or this package over OpenSSL"
            )
        ]
    )
}

extension TransportDescriptor {
    /// This transport of WebSocket, whose client may be the system's.
    fileprivate func choosingEngine(
        _ standard: WebSocketEngine,
        _ makeFactory: @escaping @Sendable () -> WebSocketTaskFactory
    ) -> TransportDescriptor {
        let own = self
        let settings = SystemWebSocketSettings.list(isEncrypted: name == "wss")
        var descriptor = self
        descriptor.clientSettings += EngineSettings.list.rows
        descriptor.make = { (endpoint, context) throws(TransportError) in
            var engine = EngineSettings(engine: standard)
            let options = ConfigurationValue(endpoint.options.filter { $0.name == "engine" })
            try EngineSettings.list.read(options, into: &engine)
            let endpoint = endpoint.withoutEngine
            guard engine.engine == .system else { return try own.make(endpoint, context) }
            try own.checkOptions(of: endpoint, with: settings)
            let ignored = own.clientSettings + own.serverSettings
            let read = try settings.read(endpoint, ignoring: ignored) { $0.handshake.contextHeaders = context.headers }
            return try SystemWebSocketTransport(endpoint, read, on: context.loop, makeFactory())
        }
        descriptor.serve = { (endpoint, loop, serving) async throws(TransportError) in
            try await own.serve(endpoint.withoutEngine, loop, serving)
        }
        if let cores = own.cores {
            descriptor.cores = { (endpoint) throws(TransportError) in try cores(endpoint.withoutEngine) }
        }
        return descriptor
    }

    /// Refuses options that only the WebSocket of this package has. A URL that needs one must not lose it silently.
    private func checkOptions(
        of endpoint: Endpoint,
        with settings: SettingList<SystemWebSocketSettings>
    ) throws(TransportError) {
        let names = settings.settings.map(\.name)
        for option in endpoint.options where !names.contains(option.name) {
            guard clientSettings.contains(where: { $0.name == option.name }) else { continue }
            let advice =
                ["certificate", "key"].contains(option.name)
                ? "give a certificate of the client to registerSystemWebSocket(identity:)"
                : "leave it out, or write engine=openssl"
            throw .configuration(option.name, "has no equivalent in the system's WebSocket (engine=system): \(advice)")
        }
    }
}

extension Endpoint {
    /// The endpoint without the option that chooses between the two.
    fileprivate var withoutEngine: Endpoint {
        var endpoint = self
        endpoint.options.removeAll { $0.name == "engine" }
        return endpoint
    }
}
