import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of UDP with sessions: `udp://host:9401`.
    public static let udp = udp(nil)

    /// The descriptor of UDP with sessions over DTLS 1.2: `dtls://host:9401`. It needs OpenSSL 3 on the machine.
    public static let dtls = udp(.openSSL)

    /// Returns the descriptor of UDP with sessions.
    ///
    /// - Parameter security: How datagrams are encrypted; `nil` for the plain transport.
    static func udp(_ security: StreamSecurity?) -> TransportDescriptor {
        let isEncrypted = security != nil
        let client = UDPSettings.clientList(security, keepalive: keepalive)
        let server = UDPSettings.serverList(security, keepalive: keepalive)
        var descriptor = datagrams(security, client, server)
        descriptor.answersClients = true
        descriptor.hasPath = false
        descriptor.isEncrypted = isEncrypted
        descriptor.encryptedName = isEncrypted ? nil : "dtls"
        descriptor.annotate = { reader in
            reader.take(4, "magic, version and type: data")
            reader.take(8, "connection id")
            reader.take(4, "sequence number \(reader.number(4))")
        }
        descriptor.cores = { (endpoint) throws(TransportError) in
            let configuration = try client.read(endpoint, ignoring: server.rows).coreConfiguration
            return { () throws(TransportError) in try pairing(configuration) }
        }
        return descriptor
    }

    private static func datagrams(
        _ security: StreamSecurity?,
        _ client: SettingList<UDPSettings>,
        _ server: SettingList<UDPSettings>
    ) -> TransportDescriptor {
        TransportDescriptor(
            name: security == nil ? "udp" : "dtls",
            defaultPort: defaultPort,
            isDatagram: true,
            keepaliveInterval: keepalive,
            clientSettings: client.rows,
            serverSettings: server.rows,
            make: { (endpoint, context) throws(TransportError) in
                let settings = try client.read(endpoint, ignoring: server.rows)
                let configuration = settings.coreConfiguration
                let port = endpoint.port ?? defaultPort
                return UDPTransport(
                    endpoint: endpoint,
                    port: port,
                    loop: context.loop,
                    limits: settings.limits,
                    core: try UDPCore(client: configuration),
                    isPlain: configuration.isPlain,
                    tls: try security.map { (security) throws(TransportError) in
                        try ClientTLS(security, settings.clientTLS, host: endpoint.host, port: port)
                    }
                )
            },
            serve: { (endpoint, loop, serving) async throws(TransportError) in
                let settings = try server.read(endpoint, ignoring: client.rows)
                let limits = settings.limits
                var configuration = settings.coreConfiguration
                configuration.acceptsReliable = settings.reliability != .off
                if serving.handlesMessages { configuration.confirmsReceipt = false }
                var random = RandomSource.system()
                let core = try UDPListenerCore(configuration, random: &random)
                let dtlsLimits = DTLSServer.Limits(
                    handshakes: settings.maximumHandshakes,
                    handshakeTimeout: limits.secureTimeout,
                    sessionTimeout: configuration.isPlain ? configuration.idleTimeout : limits.secureTimeout
                )
                let tls = try await ServerTLS.load(security, settings.serverTLS, on: loop)
                return try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
                    (address, queue) throws(SystemError) in
                    try UDPAcceptor(
                        address,
                        queue,
                        on: loop,
                        limits: limits,
                        handler: serving.handler(queue),
                        core: core,
                        tls: tls?.value,
                        dtlsLimits: dtlsLimits
                    )
                }
            }
        )
    }

    /// Returns the two cores of a session. The client sends a hello, returns the listener's cookie, and is accepted.
    private static func pairing(_ configuration: UDPConfiguration) throws(TransportError) -> CorePairing {
        var random = RandomSource.system()
        var listener = try UDPListenerCore(configuration, random: &random)
        var client = try UDPCore(client: configuration)
        var context = CoreContext(random: .system())
        client.start(&context)
        for _ in 0..<4 {
            let first = context.datagramEnds.first ?? context.output.count
            guard let bytes = context.output.bytes(at: 0, count: first) else { break }
            context.output.removeAll()
            context.datagramEnds.removeAll()
            var request = ByteBuffer()
            request.append(contentsOf: bytes)
            var reply = ByteBuffer()
            switch listener.receive(request, from: [127, 0, 0, 1], now: .zero, random: &random, reply: &reply) {
            case .reply: while try client.next(&reply, &context) != nil {}
            case .accept(let server):
                var pairing = CorePairing(client: client, server: server)
                (pairing.isClientStarted, pairing.sent) = (true, bytes)
                return pairing
            case .session, .drop: break
            }
        }
        throw TransportError(.handshakeFailed, .handshake, "the listener has not accepted the client")
    }

    private static let defaultPort: UInt16 = 9401
    /// The default keepalive interval. NATs may forget a mapping of UDP after 2 minutes (RFC 4787, REQ-5), and some do
    /// after 30 s (RFC 9308, section 3.2).
    private static let keepalive = Duration.seconds(25)
}

/// The transport of a client's session over UDP.
struct UDPTransport: Transport {
    let endpoint: Endpoint
    let port: UInt16
    let loop: EventLoop
    let limits: ConnectionLimits
    let core: UDPCore
    let isPlain: Bool
    /// How datagrams are encrypted; `nil` for the plain transport.
    let tls: ClientTLS?

    var capabilities: Capabilities { limits.describe(core.capabilities) }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let started = MonotonicClock.now()
        let deadline = Instant(nanoseconds: started).advanced(by: max(.zero, timeout)).nanoseconds
        return try await running(on: loop) { () async throws(TransportError) in
            let addresses: [SocketAddress]
            do throws(ConnectError) {
                addresses = try await Resolver.resolve(endpoint.host, port: port, on: loop, deadline: deadline)
            } catch {
                throw TransportError(error)
            }
            let ordered = loop.failedAddresses.order(addresses, at: loop.now)
            return try await firstAnswering(
                ordered[...],
                hasSeveral: addresses.count > 1,
                deadline: deadline,
                started: started
            )
        }
    }

    /// Tries one address after the other. A host without a server refuses at once by ICMP. A silent address uses an
    /// equal part of the remaining time.
    @concurrent
    private func firstAnswering(
        _ addresses: ArraySlice<SocketAddress>,
        hasSeveral: Bool,
        deadline: Int64,
        started: Int64
    ) async throws(TransportError) -> any Connection {
        guard let address = addresses.first else {
            throw TransportError(.nameNotFound, .resolve, "\(endpoint.host) has no address")
        }
        let rest = addresses.dropFirst()
        let left = deadline - MonotonicClock.now()
        let share = rest.isEmpty ? deadline : deadline - left + left / Int64(addresses.count)
        do throws(TransportError) {
            return try await open(address, hasOthers: hasSeveral, deadline: share, started: started)
        } catch {
            if hasSeveral, error.isWithoutAnswer { loop.failedAddresses.failed(address, at: loop.now) }
            guard !rest.isEmpty, error.isRetryable else { throw error }
        }
        return try await firstAnswering(rest, hasSeveral: hasSeveral, deadline: deadline, started: started)
    }

    @concurrent
    private func open(
        _ address: SocketAddress,
        hasOthers: Bool,
        deadline: Int64,
        started: Int64
    ) async throws(TransportError) -> any Connection {
        let engine = try await tls?.datagramEngine(largest: core.largestDatagram, on: loop, deadline: deadline)
        let channel: any ByteChannel
        do throws(SystemError) {
            channel = try makeChannel(address, engine, deadline)
        } catch {
            throw TransportError(error, .connect, at: address.description, isDatagram: true)
        }
        let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits, started: started)
        if hasOthers { driver.unanswered.action = { [loop] in loop.failedAddresses.failed(address, at: loop.now) } }
        let connection = try await driver.openConnection(deadline: deadline)
        if driver.hasHeard { loop.failedAddresses.worked(address) }
        return connection
    }

    private func makeChannel(
        _ address: SocketAddress,
        _ engine: (any DatagramTLSEngine)?,
        _ deadline: Int64
    ) throws(SystemError) -> any ByteChannel {
        guard let engine else {
            return try DatagramChannel(to: address, largest: core.largestDatagram, on: loop) {
                () throws(SystemError) in
                try DatagramSocket(connectedTo: address, on: loop)
            }
        }
        let largest = max(core.largestDatagram + DTLS.overhead, DTLS.largestHandshakeDatagram)
        return try DTLSChannel(to: address, engine, largest: largest, hasPings: !isPlain, deadline: deadline, on: loop)
        {
            () throws(SystemError) in
            try DatagramSocket(connectedTo: address, on: loop)
        }
    }
}
