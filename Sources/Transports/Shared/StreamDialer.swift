import Protocols
import SocketIO
import TransportAPI

/// The way to a server over byte streams: its addresses, a proxy, and TLS. A recipe, which can be used again and again.
struct StreamDialer: Sendable {
    /// The host of the server.
    let host: String
    let port: UInt16
    let loop: EventLoop
    /// The way through a proxy; `nil` to connect directly.
    let proxy: ProxyRoute?
    /// TLS to the server; `nil` for a plain transport.
    let tls: ClientTLS?

    /// Resolves the name of the server or of the proxy. Call this on the loop.
    ///
    /// - Parameters:
    ///   - unanswered: What to say about a server that sends nothing.
    ///   - deadline: When the attempt ends, in nanoseconds of ``MonotonicClock``.
    nonisolated(nonsending) func addresses(
        _ unanswered: UnansweredHint,
        deadline: Int64
    ) async throws(TransportError) -> AddressAttempts {
        guard let proxy else {
            return try await .resolve(
                host,
                port: port,
                tls: tls,
                isProxy: false,
                unanswered,
                on: loop,
                deadline: deadline
            )
        }
        return try await .resolve(
            proxy.host,
            port: proxy.port,
            tls: proxy.tls,
            isProxy: true,
            unanswered,
            on: loop,
            deadline: deadline
        )
    }

    /// Opens the tunnel through the proxy if there is one. If the transport is encrypted, the TLS handshake follows when the
    /// channel is used. Call this on the loop.
    ///
    /// - Parameter stream: The connection to the server or to the proxy.
    nonisolated(nonsending) func openChannel(
        over stream: any ByteChannel,
        deadline: Int64
    ) async throws(TransportError) -> any ByteChannel {
        guard let proxy else { return stream }
        let tunnel = ProxyTunnel(over: stream, proxy.handshake, on: loop)
        try await tunnel.open(deadline: deadline)
        guard let tls else { return tunnel }
        return try await tls.protect(tunnel, on: loop, deadline: deadline)
    }
}
