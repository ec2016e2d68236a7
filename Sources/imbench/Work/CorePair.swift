import Protocols
import TransportAPI
import Transports

/// A client's core and a server's core, joined in memory. Each reads the output of the other.
struct CorePair {
    let client: CoreSide
    let server: CoreSide

    /// Makes pairs of cores of a transport, each after its handshake; `nil` if the transport's descriptor makes no cores.
    ///
    /// - Parameter options: Options of the client's URL, besides the topic of what it publishes over a broker.
    static func maker(
        _ name: String,
        options: [Endpoint.Option] = [],
        registry: TransportRegistry = .measured
    ) throws(TransportError) -> (() throws(TransportError) -> CorePair)? {
        let transport = try registry.transport(named: name)
        guard let cores = transport.cores else { return nil }
        var endpoint = Endpoint(scheme: name, host: "chat.example", options: options)
        if transport.broker != nil { endpoint.options.append(.init(name: "publish", value: "chat/team-lunch")) }
        let make = try cores(endpoint)
        return { () throws(TransportError) in try CorePair(try make()) }
    }

    private init(_ cores: CorePairing) throws(TransportError) {
        client = CoreSide(cores.client)
        server = CoreSide(cores.server)
        cores.sent.withUnsafeBytes { server.input.append(contentsOf: $0) }
        for side in [client, server] {
            if side === server || !cores.isClientStarted { side.core.start(&side.context) }
            try side.read()
        }
        try carry()
    }

    /// Carries the output of both until neither has any.
    func carry() throws(TransportError) {
        var isActive = true
        while isActive {
            let fromClient = try client.carry(to: server)
            let fromServer = try server.carry(to: client)
            isActive = fromClient || fromServer
        }
    }
}

/// A core with its buffers. Like those of a ``ConnectionDriver``, they are accessed without exclusivity checks.
final class CoreSide {
    @exclusivity(unchecked) var core: any ProtocolCore
    @exclusivity(unchecked) var input = ByteBuffer()
    @exclusivity(unchecked) var context = CoreContext(random: .system())
    /// The number of received messages.
    @exclusivity(unchecked) private(set) var messages = 0

    init(_ core: any ProtocolCore) {
        self.core = core
    }

    /// Processes the input.
    func read() throws(TransportError) {
        while let event = try core.next(&input, &context) {
            if case .message = event { messages += 1 }
        }
    }

    /// Passes the output to `take`: all at once, or datagram by datagram.
    func hand(_ take: (UnsafeRawBufferPointer) -> Void) {
        context.output.withUnsafeReadableBytes { all in
            var start = 0
            for end in context.datagramEnds {
                take(UnsafeRawBufferPointer(rebasing: all[start..<end]))
                start = end
            }
            if start < all.count { take(UnsafeRawBufferPointer(rebasing: all[start...])) }
        }
        context.output.removeAll()
        context.datagramEnds.removeAll(keepingCapacity: true)
    }

    /// Carries the output to the peer, which reads it. Returns `false` if there is none.
    func carry(to other: CoreSide) throws(TransportError) -> Bool {
        guard !context.output.isEmpty else { return false }
        var failure: TransportError?
        hand { bytes in
            other.input.append(contentsOf: bytes)
            do throws(TransportError) { try other.read() } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
        return true
    }
}
