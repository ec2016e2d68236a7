import Foundation
import SocketIO
import TestSupport
import Testing
import Transports

/// A mosquitto that can be stopped or killed, and started again with its saved state.
final class PersistentMosquitto {
    private let reserved: ReservedPort
    private let reservedForWebSocket: ReservedPort
    private let folder: ScratchFolder
    private let configuration: String
    private var process: Peer

    /// Allows more messages in flight than any test has. Messages beyond this limit may be repeated after a restart
    /// (Docs/reference/mqtt.md).
    static let roomy = ["max_inflight_messages 65534"]

    /// - Parameter settings: Further settings. By default, mosquitto saves its database after every five changes.
    init(_ settings: [String] = ["autosave_on_changes true", "autosave_interval 5"]) async throws {
        reserved = try ReservedPort(isDatagram: false)
        reservedForWebSocket = try ReservedPort(isDatagram: false)
        folder = try ScratchFolder()
        // The output is not read, so it must fit into a pipe. At this log level it does not report each save.
        let text = """
            \(getuid() == 0 ? "user root" : "")
            log_dest stderr
            log_type error
            persistence true
            persistence_location \(folder.path)/
            max_queued_messages 0
            \(settings.joined(separator: "\n"))
            set_tcp_nodelay true
            allow_anonymous true
            listener \(reserved.port) 127.0.0.1
            listener \(reservedForWebSocket.port) 127.0.0.1
            protocol websockets

            """
        configuration = try folder.write("mosquitto.conf", text)
        process = try Self.spawn(configuration)
        await answer()
    }

    var port: UInt16 { reserved.port }
    /// The port for WebSockets.
    var webSocketPort: UInt16 { reservedForWebSocket.port }

    private static func spawn(_ configuration: String) throws -> Peer {
        try Peer(try #require(Peers.mosquitto), ["-c", configuration])
    }

    /// Waits until the broker accepts clients.
    private func answer() async {
        while !Task.isCancelled {
            if let connection = try? await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)") {
                await connection.close()
                return
            }
            await Task.yield()
        }
    }

    /// Tells mosquitto to save its database after its current work.
    func save() { process.signal(SIGUSR1) }
    func kill() { process.destroy() }

    func start() async throws {
        process = try Self.spawn(configuration)
        await answer()
    }

    /// Makes mosquitto save its database and exit.
    func stop() throws {
        process.signal(SIGTERM)
        #expect(try process.finish() == 0)
    }
}
