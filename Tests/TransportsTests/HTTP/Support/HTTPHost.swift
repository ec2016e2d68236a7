import SocketIO
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// A server over HTTP whose sessions a test accepts.
struct HTTPHost {
    let listener: any Listener
    let port: UInt16
    let events = ServerEvents()

    /// - Parameters:
    ///   - query: The options of the URL.
    ///   - scheme: `http`, or `ws` for sessions beside WebSockets.
    init(
        _ query: String = "",
        scheme: String = "http",
        path: String = "/",
        pages: [WebPage] = [],
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws {
        listener = try await Self.registry.listen(
            "\(scheme)://127.0.0.1:0\(path)?\(query)",
            pages: pages,
            observer: events.observer,
            decide: decide
        )
        port = try #require(listener.endpoint.port)
    }

    static let registry = TransportRegistry([.http, .webSocket])

    /// Opens a session, and returns both ends.
    func open(_ query: String = "", headers: [String] = []) async throws -> (client: RawSession, app: any Connection) {
        let session = try await RawSession(port: port, query: query, headers: headers)
        return (session, try #require(try await listener.accept()))
    }

    /// Sends a request over a connection of its own.
    func ask(
        _ method: String,
        _ target: String,
        _ headers: [String] = [],
        _ body: [UInt8] = []
    ) async throws -> RawHTTPConnection.Response {
        try await RawHTTPConnection(port: port).ask(method, target, headers, body)
    }
}

extension Connection {
    /// Receives the next message as a text.
    func receiveText() async throws -> String? {
        try await receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }
}
