import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

/// A RabbitMQ on free ports: MQTT and STOMP, and both over WebSocket. It needs some 15 seconds to start. It
/// can be killed, and started again with its stored messages.
final class RabbitMQ: Sendable {
    private let reserved: [ReservedPort]
    private let folder: ScratchFolder
    private let words: [String]
    private let process: Locked<Peer?>

    /// - Parameter plugins: The plugins to start. With fewer of them the broker starts faster.
    init(_ plugins: String = "rabbitmq_mqtt,rabbitmq_web_mqtt,rabbitmq_web_stomp") throws {
        reserved = try (0..<6).map { _ in try ReservedPort(isDatagram: false) }
        folder = try ScratchFolder()
        let plugins = try folder.write("plugins", "[\(plugins)].\n")
        _ = try folder.write(
            "rabbitmq.conf",
            """
            listeners.tcp = none
            mqtt.listeners.tcp.1 = 127.0.0.1:\(reserved[0].port)
            mqtt.allow_anonymous = true
            web_mqtt.tcp.ip = 127.0.0.1
            web_mqtt.tcp.port = \(reserved[1].port)
            stomp.listeners.tcp.1 = 127.0.0.1:\(reserved[5].port)
            web_stomp.tcp.ip = 127.0.0.1
            web_stomp.tcp.port = \(reserved[4].port)
            log.console = true
            log.file = false

            """
        )
        // With these two settings the script becomes the Erlang process. Otherwise it waits for that, as its parent.
        let settings = [
            "RABBITMQ_ALLOW_INPUT=1", "RABBITMQ_SERVER_START_ARGS=-noinput",
            "HOME=\(folder.path)", "RABBITMQ_NODENAME=tests\(reserved[0].port)@localhost",
            "RABBITMQ_MNESIA_BASE=\(folder.path)/mnesia", "RABBITMQ_LOG_BASE=\(folder.path)/log",
            "RABBITMQ_CONFIG_FILE=\(folder.path)/rabbitmq", "RABBITMQ_ENABLED_PLUGINS_FILE=\(plugins)",
            "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_DIST_PORT=\(reserved[2].port)",
            "ERL_EPMD_PORT=\(reserved[3].port)", "ERL_EPMD_ADDRESS=127.0.0.1",
        ]
        words = settings + [try #require(Peers.rabbitmq)]
        process = Locked(nil)
        try start()
    }

    func kill() { process.withLock { $0?.destroy() } }

    /// Ends the broker in order, which writes everything to its files.
    func stop() throws {
        let peer = process.withLock { $0.take() }
        peer?.signal(SIGTERM)
        _ = try peer?.finish()
    }

    /// Starts the broker, and waits until it accepts clients.
    func start() throws {
        let peer = try Peer("/usr/bin/env", words, leadsGroup: true)
        try #require(peer.wait(for: "Server startup complete"))
        process.withLock { $0 = peer }
    }

    deinit {
        kill()
        // The port mapper of Erlang has left the group of processes. It ends once it knows no node.
        if let epmd = Peers.epmd, let end = try? Peer(epmd, ["-port", "\(reserved[3].port)", "-kill"]) {
            _ = try? end.finish()
        }
    }

    /// The endpoint for MQTT, over WebSocket if the scheme says so.
    func endpoint(_ scheme: String) throws -> Endpoint {
        try Endpoint("\(scheme)://127.0.0.1:\(reserved[scheme == "mqtt" ? 0 : 1].port)/ws")
    }

    /// The URL for STOMP, over WebSocket if the scheme says so, as the user guest of the virtual host `/`.
    func stomp(_ scheme: String) -> String {
        scheme == "stomp"
            ? "stomp://guest:guest@127.0.0.1:\(reserved[5].port)/?host=/"
            : "\(scheme)://guest:guest@127.0.0.1:\(reserved[4].port)/ws?host=/"
    }

    /// The endpoint of a WebSocket for STOMP. The user is guest, with the password guest.
    func stomp() throws -> Endpoint { try Endpoint("ws://127.0.0.1:\(reserved[4].port)/ws?subprotocol=v12.stomp") }
}
