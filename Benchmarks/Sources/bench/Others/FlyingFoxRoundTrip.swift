import FlyingFox
import FlyingSocks

extension Recipe {
    /// FlyingFox has no WebSocket client, so our connection is the client of its server.
    static let webSocketFlyingFox = Recipe(name: "FlyingFox server, our connection", workload: .webSocketRoundTrip) {
        try ConnectionRoundTrip($0, FlyingFoxEcho())
    }
}

/// FlyingFox's server with its own echo handler.
final class FlyingFoxEcho: EchoService {
    let url: String
    private let running: Task<Void, any Error>

    init() throws {
        (url, running) = try blocking {
            // Longer than any run, so that idle connections are not closed.
            let server = HTTPServer(
                address: try .inet(ip4: "127.0.0.1", port: 0),
                timeout: 3600,
                logger: quiet(.disabled)
            )
            await server.appendRoute("GET /", to: .webSocket(EchoWSMessageHandler()))
            let running = Task { try await server.run() }
            try await server.waitUntilListening()
            guard case .ip4(_, let port) = await server.listeningAddress else {
                throw WrongResult(description: "FlyingFox does not listen")
            }
            return ("ws://127.0.0.1:\(port)/", running)
        }
    }

    deinit { running.cancel() }
}

/// Converts the logger to the existential type that the server takes.
private func quiet(_ logger: some Logging) -> any Logging { logger }
