import Protocols
import TransportAPI
import Transports

/// A client's core and a server's core, joined in memory. Each reads the output of the other.
package struct CorePair {
    package let client: CoreSide
    package let server: CoreSide

    /// Makes pairs of cores of a transport, each after its handshake; `nil` if the transport's descriptor makes no cores.
    ///
    /// - Parameter options: Options of the client's URL, besides the topic of what it publishes over a broker.
    package static func maker(
        _ name: String,
        options: [Endpoint.Option] = [],
        registry: TransportRegistry
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
    package func carry() throws(TransportError) {
        // The client has new output only if it has read.
        repeat { _ = try client.carry(to: server) } while try server.carry(to: client)
    }
}

/// A core with its buffers. Like those of a ``ConnectionDriver``, they are accessed without exclusivity checks.
package final class CoreSide {
    @exclusivity(unchecked) fileprivate var core: any ProtocolCore
    @exclusivity(unchecked) fileprivate var input = ByteBuffer()
    @exclusivity(unchecked) package fileprivate(set) var context = CoreContext(random: .system())
    /// The number of received messages.
    @exclusivity(unchecked) package private(set) var messages = 0

    init(_ core: any ProtocolCore) {
        self.core = core
    }

    /// Writes a message to the output.
    package func send(_ payload: Payload, id: UInt64) throws(TransportError) {
        _ = try core.send(payload, id: id, &context)
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
