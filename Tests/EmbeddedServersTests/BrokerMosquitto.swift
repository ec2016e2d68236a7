import Foundation
import SocketIO
import Testing

/// A mosquitto that can be stopped or killed and started again with what it has saved.
final class PersistentMosquitto {
    private let reserved: ReservedPort
    private let reservedForWebSocket: ReservedPort
    private let folder: ScratchFolder
    private let configuration: String
    private var process: Peer

    init() throws {
        reserved = try ReservedPort(isDatagram: false)
        reservedForWebSocket = try ReservedPort(isDatagram: false)
        folder = try ScratchFolder()
        // Its output is read up to the line that says that it runs, and it says little behind that.
        let text = """
            \(getuid() == 0 ? "user root" : "")
            log_dest stderr
            log_type error
            log_type information
            connection_messages false
            persistence true
            persistence_location \(folder.path)/
            autosave_on_changes true
            autosave_interval 5
            max_queued_messages 0
            set_tcp_nodelay true
            allow_anonymous true
            listener \(reserved.port) 127.0.0.1
            listener \(reservedForWebSocket.port) 127.0.0.1
            protocol websockets

            """
        configuration = try folder.write("mosquitto.conf", text)
        process = try Self.spawn(configuration)
    }

    var port: UInt16 { reserved.port }
    /// Where it listens for WebSockets.
    var webSocketPort: UInt16 { reservedForWebSocket.port }

    private static func spawn(_ configuration: String) throws -> Peer {
        let process = try Peer(try #require(Peers.mosquitto), ["-c", configuration])
        try #require(process.wait(for: "running"))
        return process
    }

    /// Asks it to save its database when it has handled what it is handling.
    func save() { process.signal(SIGUSR1) }
    func kill() { process.destroy() }
    func start() throws { process = try Self.spawn(configuration) }

    /// Has it save its database and end.
    func stop() throws {
        process.signal(SIGTERM)
        #expect(try process.finish() == 0)
    }
}
