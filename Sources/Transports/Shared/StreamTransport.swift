import SocketIO
import TransportAPI

/// The recipe of every transport that is a protocol core over TCP.
struct StreamTransport: Transport {
    let endpoint: Endpoint
    let port: UInt16
    let loop: EventLoop
    let limits: LinkLimits
    let capabilities: Capabilities
    /// A new core for each attempt.
    let makeCore: @Sendable () -> any ProtocolCore

    init(
        _ endpoint: Endpoint,
        defaultPort: UInt16,
        on loop: EventLoop,
        limits: LinkLimits = LinkLimits(),
        makeCore: @escaping @Sendable () -> any ProtocolCore
    ) {
        self.endpoint = endpoint
        port = endpoint.port ?? defaultPort
        self.loop = loop
        self.limits = limits
        self.makeCore = makeCore
        capabilities = makeCore().capabilities
    }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Link {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: timeout).nanoseconds
        return try await running(on: loop) { () async throws(TransportError) in
            let socket: LoopConfined<StreamSocket>
            do throws(ConnectError) {
                socket = try await StreamSocket.connect(to: endpoint.host, port: port, on: loop, deadline: deadline)
            } catch {
                throw TransportError(error)
            }
            let channel = StreamChannel(socket.value)
            let driver = LinkDriver(makeCore(), over: channel, on: loop, limits: limits, started: started)
            return try await driver.openLink(deadline: deadline)
        }
    }
}

extension LinkDriver {
    /// Starts, waits until the handshake is complete, and gives the link. To be called on the loop.
    nonisolated(nonsending) func openLink(deadline: Int64) async throws(TransportError) -> CoreLink {
        let confined = LoopConfined(living: self, on: loop)
        ownDeadline = deadline
        let error: TransportError? = await suspending(on: confined, #isolation) {
            $0.waiting.opener = $1
            $0.start()
        } onCancel: {
            if $0.phase == .opening { $0.end(.cancelled(.handshake), abort: true) }
        }
        if let error { throw error }
        return CoreLink(self, capabilities: core.capabilities)
    }
}
