import SocketIO
import TransportAPI
import Transports

/// A session server with the fallback that sends each message back, and the log of it and of its clients.
final class FallbackHost: Sendable {
    let log = FallbackLog()
    private let listener: any Listener
    private let serving: Task<Void, any Error>
    private let texts = Locked<[String]>([])

    /// Serves at `url`, whose port is 0.
    init(_ url: String) async throws {
        let (log, texts) = (log, texts)
        let listener = try await TransportRegistry.standard.listen(
            url,
            decide: { request in
                log.note(request.header("Sec-WebSocket-Key") == nil ? .http : .webSocket)
                return .accept
            }
        )
        self.listener = listener
        let server = SessionServer(on: .shared) { session in
            let messages = session.messages
            Task {
                for await message in messages {
                    texts.withLock { $0.append(message.string) }
                    _ = try? await session.submit(message)
                }
            }
        }
        serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
    }

    var port: UInt16 { listener.endpoint.port ?? 0 }
    /// What the server has received.
    var received: [String] { texts.withLock { $0 } }

    /// Returns a client in session mode that is noted in the log.
    func client(_ url: String) throws -> Supervisor {
        var settings = SupervisorConfiguration()
        settings.delivery.mode = .session
        settings.backoff = .fixed(.milliseconds(20))
        // Few messages arrive before the test takes them.
        settings.messageBuffer = 64
        let whole = TransportConfiguration(endpoints: [try Endpoint(url)], supervisor: settings)
        return try Supervisor(whole) { $0.observer = log }
    }

    func stop() async throws {
        await listener.close()
        try await serving.value
    }
}
