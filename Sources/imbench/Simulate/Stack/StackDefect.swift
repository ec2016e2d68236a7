import TransportAPI

/// A defect that this package once had, or that a change could easily bring. A simulation has one to prove that its checks
/// find it.
enum StackDefect: String, Sendable, CaseIterable {
    /// A tick of the loop ends only when no handler is left, and a full connection requests another flush.
    case endlessTick = "endless-tick"
    /// `close` returns before the output has left.
    case earlyClose = "early-close"
    /// A message over the limit of an MQTT client is acknowledged and dropped, and its connection stays open.
    case oversizedDropped = "oversized-dropped"
    /// Messages of a session that arrive too early are limited by their count only.
    case unboundedEarly = "unbounded-early"
    /// Sessions without a connection are not ended for new clients.
    case squatting
    /// The next connection does not know the pending sends of a kept MQTT session.
    case keptForgotten = "kept-forgotten"
    /// A message is acknowledged when it is received, not when the app has processed it.
    case earlyReceipt = "early-receipt"
    /// A room sends all messages to a member that acknowledges none.
    case unboundedRoom = "unbounded-room"
    /// A server has no limit on the buffers of all clients together.
    case unboundedSum = "unbounded-sum"
    /// The end of an encrypted stream without close_notify counts as the peer's own end.
    case acceptedTruncation = "accepted-truncation"
    /// An encrypted connection ends without close_notify.
    case silentEnd = "silent-end"
    /// A client does not check whether it trusts the authority of an encrypted server.
    case anyAuthority = "any-authority"
    /// A server of DTLS does not answer a client that repeats its last flight, because the server's was lost.
    case unrepeatedFlight = "unrepeated-flight"
}

/// A transport whose connections do not complete the pending sends of earlier ones (``StackDefect/keptForgotten``).
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
