import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

/// A NATS server with MQTT on a free port. It can be killed, and started again with its stored messages. A client
/// without a name is the user `ann`.
final class NATS: Sendable {
    private let reserved: [ReservedPort]
    private let folder: ScratchFolder
    private let configuration: String
    private let process: Locked<Peer?>

    /// - Parameter mqtt: Further settings of MQTT.
    init(mqtt: [String] = []) throws {
        reserved = try (0..<2).map { _ in try ReservedPort(isDatagram: false) }
        folder = try ScratchFolder()
        let text = """
            listen: "127.0.0.1:\(reserved[0].port)"
            server_name: tests
            jetstream { store_dir: "\(folder.path)" }
            mqtt {
                listen: "127.0.0.1:\(reserved[1].port)"
                \(mqtt.joined(separator: "\n"))
            }
            authorization { users = [ {user: ann, password: secret} ] }
            no_auth_user: ann

            """
        configuration = try folder.write("nats.conf", text)
        process = Locked(nil)
        try start()
    }

    func kill() { process.withLock { $0?.destroy() } }

    /// Starts the server, and waits until it accepts clients.
    func start() throws {
        let peer = try Peer(try #require(Peers.nats), ["-c", configuration])
        try #require(peer.wait(for: "Server is ready"))
        process.withLock { $0 = peer }
    }

    func endpoint() throws -> Endpoint { try Endpoint("mqtt://127.0.0.1:\(reserved[1].port)") }
}
