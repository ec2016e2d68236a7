import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The transport of every protocol core over TCP.
package struct StreamTransport: RedirectedTransport {
    package let endpoint: Endpoint
    let dialer: StreamDialer
    let limits: ConnectionLimits
    package let capabilities: Capabilities
    /// The cookies of the servers; `nil` if none are kept.
    let cookies: CookieStore?
    /// Makes a new core for each attempt.
    let makeCore: @Sendable () -> any PackageCore
    /// Makes the transport to the target of a redirect.
    package let follow: @Sendable (Redirection) throws(TransportError) -> StreamTransport

    init(
        _ endpoint: Endpoint,
        _ dialer: StreamDialer,
        limits: ConnectionLimits = ConnectionLimits(),
        cookies: CookieStore? = nil,
        makeCore: @escaping @Sendable () -> any PackageCore,
        follow: @escaping @Sendable (Redirection) throws(TransportError) -> StreamTransport
    ) {
        self.endpoint = endpoint
        self.dialer = dialer
        self.limits = limits
        self.cookies = cookies
        self.makeCore = makeCore
        self.follow = follow
        capabilities = limits.describe(makeCore().capabilities)
    }

    package nonisolated(nonsending) func open(
        started: Int64,
        deadline: Int64
    ) async throws(TransportError) -> OpeningAnswer {
        try await running(on: loop) { () async throws(TransportError) in
            let addresses = try await addresses(deadline: deadline)
            let origin = CookieOrigin(host: endpoint.host, path: endpoint.path, isSecure: dialer.tls != nil)
            while true {
                let stream = try await addresses.next()
                let share = addresses.share
                let channel: any ByteChannel
                do throws(TransportError) {
                    channel = try await dialer.openChannel(over: stream, deadline: share)
                } catch {
                    try addresses.failed(error)
                    continue
                }
                let core = cookies?.adding(to: makeCore(), for: origin, on: loop) ?? makeCore()
                let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
                driver.unanswered.action = addresses.whenMute
                driver.unanswered.hint = addresses.unanswered
                do throws(TransportError) {
                    let connection = try await driver.openConnection(deadline: deadline, silentUntil: share)
                    cookies?.keep(driver.core, from: origin, on: loop)
                    if driver.hasHeard { addresses.succeeded() }
                    return .connection(connection)
                } catch {
                    cookies?.keep(driver.core, from: origin, on: loop, refusal: error)
                    if let redirection = driver.core.redirection {
                        return .elsewhere(redirection, error)
                    }
                    try addresses.failed(error)
                }
            }
        }
    }

    private var loop: EventLoop { dialer.loop }

    /// The addresses of the server or of the proxy. Call this on the loop.
    nonisolated(nonsending) func addresses(deadline: Int64) async throws(TransportError) -> AddressAttempts {
        try await dialer.addresses(unanswered, deadline: deadline)
    }

    private var unanswered: UnansweredHint { UnansweredHint(makeCore(), isEncrypted: dialer.tls != nil) }
}

extension StreamTransport: CompletingTransport {
    // The cores of all connections share the state that completes messages.
    package func forget(_ id: MessageID) {
        loop.execute { [makeCore] in makeCore().forget(id.number | SendID.named) }
    }
}

extension ConnectionDriver {
    /// Starts, waits until the handshake is complete, and returns the connection. Call this on the loop.
    ///
    /// - Parameters:
    ///   - deadline: When the attempt ends, in nanoseconds of ``MonotonicClock``.
    ///   - silence: When it ends if nothing has been received after the channel's own handshake. By default the same.
    package nonisolated(nonsending) func openConnection(
        deadline: Int64,
        silentUntil silence: Int64? = nil
    ) async throws(TransportError) -> CoreConnection {
        deadlines.attempt = deadline
        deadlines.phase = silence ?? deadline
        // A protocol without a handshake is open at once, before a cancellation that was posted to the loop has its turn.
        if Task.isCancelled { end(.cancelled(.handshake), abort: true) }
        let error: TransportError? = await LoopBound(self, to: loop).suspend(with: (), #isolation) {
            // The task can have been cancelled before.
            guard $0.isOpening else { return $2.resume(returning: .cancelled(.handshake)) }
            $0.waiting.opener = $2
            $0.start()
        } onCancel: { driver, _ in
            if driver.isOpening { driver.end(.cancelled(.handshake), abort: true) }
        }
        if let error { throw error }
        return CoreConnection(self, capabilities: limits.describe(core.capabilities))
    }
}
