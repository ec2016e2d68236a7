import TransportAPI
import Transports

extension TransportDescriptor {
    /// A transport as another package writes it, by public API only: its listener only accepts connections, and these
    /// have nothing that this package's own ones have. Below it is TCP.
    static let foreign = TransportDescriptor(
        name: "foreign",
        defaultPort: 9401,
        clientSettings: tcp.clientSettings,
        serverSettings: tcp.serverSettings,
        make: { (endpoint, context) throws(TransportError) in
            ForeignTransport(inner: try tcp.make(endpoint, context))
        },
        serve: { (endpoint, loop, serving) async throws(TransportError) in
            ForeignListener(try await tcp.serve(endpoint, loop, serving))
        }
    )
}

private struct ForeignTransport: Transport {
    let inner: any Transport

    var capabilities: Capabilities { inner.capabilities }
    var endpoint: Endpoint { inner.endpoint }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        ForeignConnection(try await inner.connect(timeout: timeout))
    }
}

private final class ForeignListener: Listener {
    private let inner: any Listener

    init(_ inner: any Listener) {
        self.inner = inner
    }

    var endpoint: Endpoint { inner.endpoint }

    nonisolated(nonsending) func accept() async throws(TransportError) -> (any Connection)? {
        try await inner.accept().map { ForeignConnection($0) }
    }

    nonisolated(nonsending) func close() async {
        await inner.close()
    }
}

private final class ForeignConnection: Connection {
    private let inner: any Connection

    init(_ inner: any Connection) {
        self.inner = inner
    }

    var capabilities: Capabilities { inner.capabilities }

    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        await inner.send(payload)
    }

    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? {
        try await inner.receive()
    }

    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration {
        try await inner.ping()
    }

    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int {
        await inner.close(reason)
    }

    nonisolated(nonsending) func closed() async -> CloseReason {
        await inner.closed()
    }

    nonisolated(nonsending) func statistics() async -> ConnectionStatistics {
        await inner.statistics()
    }
}
