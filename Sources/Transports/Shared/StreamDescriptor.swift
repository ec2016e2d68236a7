import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of a transport that is a protocol core over TCP.
    ///
    /// - Parameters:
    ///   - client: reads an endpoint and gives what makes a client's core for each attempt.
    ///   - server: the same for the core of each accepted connection.
    static func stream(
        _ name: String,
        defaultPort: UInt16,
        options: [TransportOption],
        client: @escaping @Sendable (Endpoint, OptionReader) throws(TransportError) -> @Sendable () -> any ProtocolCore,
        server: @escaping @Sendable (Endpoint, OptionReader) throws(TransportError) -> @Sendable () -> any ProtocolCore
    ) -> TransportDescriptor {
        let options = options + TransportOption.streamServer
        return TransportDescriptor(
            name: name,
            defaultPort: defaultPort,
            options: options,
            make: { (endpoint, loop) throws(TransportError) in
                let reader = try OptionReader(endpoint, allowed: options)
                return StreamTransport(
                    endpoint,
                    defaultPort: defaultPort,
                    on: loop,
                    limits: try reader.limits(),
                    makeCore: try client(endpoint, reader)
                )
            },
            listen: { (endpoint, loop, mode) async throws(TransportError) in
                let reader = try OptionReader(endpoint, allowed: options)
                let limits = try reader.limits()
                let bounds = try reader.serverLimits()
                let makeCore = try server(endpoint, reader)
                return try await CoreListener.listen(at: endpoint, on: loop, mode: mode) {
                    (address, queue) throws(SystemError) in
                    try StreamAcceptor(
                        address,
                        queue,
                        on: loop,
                        limits: limits,
                        bounds: bounds,
                        handler: mode.handler(queue),
                        makeCore: makeCore
                    )
                }
            }
        )
    }
}
