import EmbeddedServers
import TransportAPI

@testable import Protocols
@testable import Transports

/// A core that passes bytes unchanged, for a peer of hand-written packets.
struct BytesCore: PackageCore {
    private var isOpen = false
    private var closing: CloseReason?

    var capabilities: Capabilities { Capabilities(hasNativePing: false, maximumMessageSize: 1 << 20) }
    var deadline: Instant? { nil }

    mutating func start(_ context: inout CoreContext) {}

    mutating func next(_ input: inout ByteBuffer, _ context: inout CoreContext) throws(TransportError) -> CoreEvent? {
        guard isOpen else {
            isOpen = true
            return .opened
        }
        if let reason = closing.take() { return .closed(reason) }
        guard let bytes = input.bytes(at: 0, count: input.count), !bytes.isEmpty else { return nil }
        input.removeAll()
        return .message(Payload(bytes))
    }

    mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        .closed(CloseReason(.peer))
    }

    mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        context.output.append(contentsOf: payload.bytes)
        return .written
    }

    mutating func ping(_ context: inout CoreContext) throws(TransportError) -> UInt64 { 0 }
    mutating func close(_ reason: CloseReason, _ context: inout CoreContext) { closing = reason }
    mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {}
}

extension EmbeddedServer {
    /// Connects over TCP, for bytes that are written by hand.
    nonisolated(nonsending) func connectByHand() async throws -> any Connection {
        let dialer = StreamDialer(
            host: endpoint.host,
            port: endpoint.port ?? 1883,
            loop: .shared,
            proxy: nil,
            tls: nil
        )
        let transport = StreamTransport(
            endpoint,
            dialer,
            makeCore: { BytesCore() },
            follow: { (redirection) throws(TransportError) in throw .httpStatus(redirection.status) }
        )
        return try await transport.connect(timeout: .seconds(10))
    }
}
