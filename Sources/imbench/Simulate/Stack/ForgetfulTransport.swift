import TransportAPI

/// A transport whose connections know nothing of what those before them have left (``StackDefect/keptForgotten``).
struct ForgetfulTransport: Transport {
    let whole: any Transport

    var endpoint: Endpoint { whole.endpoint }
    var capabilities: Capabilities { ForgetfulConnection.capabilities(whole.capabilities) }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        ForgetfulConnection(try await whole.connect(timeout: timeout))
    }
}

private final class ForgetfulConnection: Connection {
    private let whole: any Connection

    init(_ whole: any Connection) {
        self.whole = whole
    }

    static func capabilities(_ whole: Capabilities) -> Capabilities {
        var capabilities = whole
        capabilities.completesSends = false
        return capabilities
    }

    var capabilities: Capabilities { Self.capabilities(whole.capabilities) }

    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome { await whole.send(payload) }
    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? { try await whole.receive() }
    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration { try await whole.ping() }
    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int { await whole.close(reason) }
    nonisolated(nonsending) func closed() async -> CloseReason { await whole.closed() }
    nonisolated(nonsending) func statistics() async -> ConnectionStatistics { await whole.statistics() }
}
