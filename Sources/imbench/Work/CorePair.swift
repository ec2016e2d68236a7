import Protocols
import TransportAPI
import Transports

/// A client's core and a server's core, joined in memory. Each reads the output of the other.
struct CorePair {
    let client: CoreSide
    let server: CoreSide

    /// Two cores of a transport, after their handshake; `nil` if there is no such transport.
    static func open(_ name: String) throws(TransportError) -> CorePair? {
        switch name {
        case "tcp": return try CorePair(try FramedTCPCore(), try FramedTCPCore())
        case "ws":
            let configuration = WebSocketConfiguration(host: "chat.example", path: "/")
            return try CorePair(try WebSocketCore(.client, configuration), try WebSocketCore(.server, configuration))
        case "mqtt": return try CorePair(.atMostOnce)
        case "mqtt-qos1": return try CorePair(.atLeastOnce)
        case "udp": return try datagrams()
        default: return nil
        }
    }

    private init(_ qos: MQTTQoS) throws(TransportError) {
        var configuration = MQTTConfiguration()
        configuration.publishTopic = "chat/team-lunch"
        configuration.qos = qos
        try self.init(try MQTTCore(client: configuration), try MQTTCore(server: MQTTServerConfiguration()))
    }

    private init(_ client: any ProtocolCore, _ server: any ProtocolCore) throws(TransportError) {
        self.client = CoreSide(client)
        self.server = CoreSide(server)
        for side in [self.client, self.server] {
            side.core.start(&side.context)
            try side.read()
        }
        try carry()
    }

    private init(joined client: CoreSide, _ server: CoreSide) {
        (self.client, self.server) = (client, server)
    }

    /// A session of a listener: the client sends a hello, returns its cookie, and is accepted.
    private static func datagrams() throws(TransportError) -> CorePair? {
        var random = RandomSource.system()
        var listener = try UDPListenerCore(random: &random)
        let client = CoreSide(try UDPCore(client: UDPConfiguration()))
        client.core.start(&client.context)
        for _ in 0..<4 {
            var request = ByteBuffer()
            client.hand { request.append(contentsOf: $0) }
            var reply = ByteBuffer()
            switch listener.receive(request, from: [127, 0, 0, 1], now: .zero, random: &random, reply: &reply) {
            case .reply:
                reply.withUnsafeReadableBytes { client.input.append(contentsOf: $0) }
                try client.read()
            case .accept(let core):
                let server = CoreSide(core)
                server.core.start(&server.context)
                request.withUnsafeReadableBytes { server.input.append(contentsOf: $0) }
                try server.read()
                let pair = CorePair(joined: client, server)
                try pair.carry()
                return pair
            case .session, .drop: return nil
            }
        }
        return nil
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
