import Foundation
import Testing
import Transports

/// A mosquitto that can be stopped or killed and started again with what it has saved.
final class PersistentMosquitto {
    let port: UInt16
    /// Where it listens for WebSockets.
    let webSocketPort: UInt16
    private let folder: ScratchFolder
    private let configuration: String
    private var process: Peer

    init() async throws {
        (port, webSocketPort) = (try await Self.freePort(), try await Self.freePort())
        folder = try ScratchFolder()
        // Its output is not read, so it says no more than what a pipe holds: not that it saves, which it does all the time.
        let text = """
            \(getuid() == 0 ? "user root" : "")
            log_dest stderr
            log_type error
            persistence true
            persistence_location \(folder.path)/
            autosave_on_changes true
            autosave_interval 5
            max_queued_messages 0
            set_tcp_nodelay true
            allow_anonymous true
            listener \(port) 127.0.0.1
            listener \(webSocketPort) 127.0.0.1
            protocol websockets

            """
        configuration = try folder.write("mosquitto.conf", text)
        process = try Self.spawn(configuration)
        await answer()
    }

    /// Below the ports that the system chooses: a client of such a port that nobody listens at may happen to connect to
    /// itself, and then nobody can listen there.
    private static func freePort() async throws -> UInt16 {
        while true {
            let port = UInt16.random(in: 20_000..<32_768)
            guard let probe = try? await TransportRegistry.standard.listen("tcp://127.0.0.1:\(port)") else { continue }
            await probe.close()
            return port
        }
    }

    private static func spawn(_ configuration: String) throws -> Peer {
        try Peer(try #require(Peers.mosquitto), ["-c", configuration])
    }

    /// Waits until it lets clients in.
    private func answer() async {
        while true {
            if let link = try? await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)") {
                return await link.close()
            }
            await Task.yield()
        }
    }

    /// Asks it to save its database when it has handled what it is handling.
    func save() { process.signal(SIGUSR1) }
    func kill() { process.destroy() }

    func start() async throws {
        process = try Self.spawn(configuration)
        await answer()
    }

    /// Has it save its database and end.
    func stop() throws {
        process.signal(SIGTERM)
        #expect(try process.finish() == 0)
    }
}
