import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

extension HotPath {
    /// Through everything: the public interface, the supervisor, drivers and the loop, and the system, of which the calls count
    /// and what it does does not.
    static let supervised = ["memory", "tcp", "ws", "udp"].map { scheme in
        HotPath(
            name: "supervised-\(scheme)",
            summary: "a supervisor sends a message of 128 bytes to an echo server on its loop, and receives it back"
        ) {
            let loop = try makeLoop("work")
            let url = scheme == "memory" ? "memory://work" : "\(scheme)://127.0.0.1:0"
            let supervisor = try runBlocking(on: loop) { await open(url, on: loop) }.get()
            return { times in
                let result = runBlocking(on: loop) { await exchange(supervisor.client, times) }
                if let problem = result { throw Mistake(description: problem) }
            }
        }
    }

    /// A supervisor, and the server that it talks to, which ends when nobody holds it.
    private struct Supervised: Sendable {
        let client: Supervisor
        let server: EmbeddedServer
    }

    private static func open(_ url: String, on loop: EventLoop) async -> Result<Supervised, TransportError> {
        do throws(TransportError) {
            let server = try await EmbeddedServer.start(url, on: loop)
            var setup = Supervisor.Setup(endpoints: [server.endpoint]) { endpoint throws(TransportError) in
                try TransportRegistry.standard.transport(for: endpoint, on: loop)
            }
            setup.configuration.keepalive.interval = .off
            let client = try Supervisor(setup, on: loop)
            client.connect()
            return .success(Supervised(client: client, server: server))
        } catch {
            return .failure(error)
        }
    }

    private static func exchange(_ supervisor: Supervisor, _ times: Int) async -> String? {
        let payload = Payload([UInt8](repeating: 66, count: 128))
        var answers = supervisor.messages.makeAsyncIterator()
        for _ in 0..<times {
            let outcome = await supervisor.send(payload)
            guard outcome.isSuccess else { return "a message was not sent: \(outcome)" }
            guard await answers.next() == payload else { return "another message came back" }
        }
        return nil
    }
}
