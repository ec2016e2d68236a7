import CommandSupport
import EmbeddedServers
import SocketIO
import TransportAPI
import Transports
import Workloads

/// The servers that pass a message on to all other clients.
enum FanoutServerKind: String, Sendable, Hashable, CaseIterable {
    /// The embedded server that sends each message to all connections, and does nothing else.
    case fanOut = "fan-out"
    /// The embedded chat room, whose clients have sessions.
    case room
    /// The embedded broker.
    case broker
    /// A mosquitto process on this machine.
    case mosquitto

    /// Whether it serves clients of a transport.
    func serves(_ transport: TransportDescriptor) -> Bool {
        switch self {
        case .fanOut, .room: transport.broker == nil
        case .broker, .mosquitto: transport.broker != nil
        }
    }

    /// Why it cannot be measured with a transport; `nil` if it can.
    func obstacle(_ transport: TransportDescriptor) -> String? {
        guard self == .mosquitto else { return nil }
        guard case .mqtt? = transport.broker else { return "mosquitto speaks MQTT only" }
        if transport.isEncrypted { return "mosquitto is started without TLS" }
        return Mosquitto.path == nil ? "mosquitto is not installed" : nil
    }

    /// The transport of its clients.
    func transport(_ transport: TransportDescriptor) -> TransportDescriptor {
        self == .room ? transport.withSessions : transport
    }
}

/// The server of one repeat of a row. A mosquitto process stays for all rows.
final class FanoutServer: Sendable {
    private enum Kind: Sendable {
        case embedded(EmbeddedServer)
        case room(ChatServer)
        case mosquitto(Mosquitto)
    }

    let endpoint: Endpoint
    private let kind: Kind
    private let loop: EventLoop

    private init(_ endpoint: Endpoint, _ kind: Kind, on loop: EventLoop) {
        (self.endpoint, self.kind, self.loop) = (endpoint, kind, loop)
    }

    /// Starts an embedded server on `loop`. Call it there.
    ///
    /// - Parameter clients: how many clients will connect.
    static func start(
        _ kind: FanoutServerKind,
        _ transport: TransportDescriptor,
        host: String,
        clients: Int,
        on loop: EventLoop
    ) async throws(TransportError) -> FanoutServer {
        let url = "\(transport.name)://\(host):0"
        switch kind {
        case .fanOut, .broker:
            let server = try await EmbeddedServer.start(url, .fanOut, on: loop, registry: .measured)
            return FanoutServer(server.endpoint, .embedded(server), on: loop)
        case .room:
            var limits = ChatRoom.Limits()
            limits.sessions = max(limits.sessions, clients)
            let server = try await ChatServer.start(url, room: ChatRoom(limits, on: loop), registry: .measured)
            return FanoutServer(server.endpoint, .room(server), on: loop)
        case .mosquitto:
            let broker = try await Mosquitto.start(transport, host: host, on: loop)
            return FanoutServer(broker.endpoint, .mosquitto(broker), on: loop)
        }
    }

    /// The processor time that the server has used, in nanoseconds: that of its loop, or of its process. `nil` if the system
    /// does not tell.
    func cpu() async -> Int64? {
        if case .mosquitto(let broker) = kind { return broker.cpu }
        return await loop.perform { Clocks.threadCPU() }
    }

    func stop() async {
        switch kind {
        case .embedded(let server): await server.stop()
        case .room(let server): await server.stop()
        case .mosquitto(let broker): broker.stop()
        }
    }
}
