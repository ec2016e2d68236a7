import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Options of an endpoint, in order. A name can occur several times.
struct EndpointOptions: Sendable, ExpressibleByDictionaryLiteral {
    let list: [Endpoint.Option]

    init(dictionaryLiteral pairs: (String, String)...) {
        list = pairs.map { Endpoint.Option(name: $0, value: $1) }
    }

    private init(_ list: [Endpoint.Option]) {
        self.list = list
    }

    static func + (left: EndpointOptions, right: EndpointOptions) -> EndpointOptions {
        EndpointOptions(left.list + right.list)
    }
}

/// Returns an endpoint on this machine. A text in PEM format cannot be in a URL, because it has several lines.
func tlsEndpoint(_ scheme: String, port: UInt16?, _ options: EndpointOptions = [:]) -> Endpoint {
    Endpoint(scheme: scheme, host: "127.0.0.1", port: port ?? 0, path: "", options: options.list)
}

extension TransportRegistry {
    /// Listens at an endpoint.
    func listen(
        _ endpoint: Endpoint,
        observer: ServerObserver? = nil,
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws(TransportError) -> any Listener {
        try await listen(at: endpoint, on: .shared, Serving(observer: observer, decide: decide))
    }
}

/// The options of a topic that a client of this scheme sends to and receives from; none for most schemes.
func topics(of scheme: String) -> EndpointOptions {
    scheme.hasPrefix("mqtt") ? ["subscribe": "loopback/tls", "publish": "loopback/tls"] : [:]
}

/// Collects the events of a server.
final class ObservedEvents: Sendable {
    private typealias Waiter = (
        fits: @Sendable (ServerEvent) -> Bool, continuation: UnsafeContinuation<ServerEvent, Never>
    )
    private struct State: Sendable {
        var events: [ServerEvent] = []
        var waiters: [Waiter] = []
    }

    private let state = Locked(State())

    var all: [ServerEvent] { state.withLock { $0.events } }

    var observer: ServerObserver {
        { [self] event in
            let ready = state.withLock { state in
                state.events.append(event)
                defer { state.waiters.removeAll { $0.fits(event) } }
                return state.waiters.filter { $0.fits(event) }
            }
            for waiter in ready { waiter.continuation.resume(returning: event) }
        }
    }

    /// Waits for the first event that fits.
    func first(_ fits: @escaping @Sendable (ServerEvent) -> Bool = { _ in true }) async -> ServerEvent {
        await withUnsafeContinuation { continuation in
            let event: ServerEvent? = state.withLock { state in
                let event = state.events.first(where: fits)
                if event == nil { state.waiters.append((fits, continuation)) }
                return event
            }
            if let event { continuation.resume(returning: event) }
        }
    }

    /// The error of the first event that has one.
    func firstError() async throws -> TransportError {
        try #require(await first { $0.reason.error != nil }.reason.error)
    }
}

/// A server over TLS on this machine.
final class TLSHost: Sendable {
    let scheme: String
    let listener: any Listener
    let events = ObservedEvents()
    private let registry: TransportRegistry

    /// Listens.
    ///
    /// - Parameters:
    ///   - chain: the certificates between the server's own and the authority.
    init(
        _ scheme: String,
        _ issued: ThrowAwayAuthority.Issued,
        chain: [String] = [],
        _ options: EndpointOptions = [:],
        registry: TransportRegistry = .standard,
        decide: (@Sendable (ClientRequest) -> ClientDecision)? = nil
    ) async throws {
        self.scheme = scheme
        self.registry = registry
        let own: EndpointOptions = ["certificate": ([issued.certificate] + chain).joined(), "key": issued.key]
        listener = try await registry.listen(
            tlsEndpoint(scheme, port: 0, own + options),
            observer: events.observer,
            decide: decide
        )
    }

    /// Listens with the scheme `wss`.
    convenience init(
        _ issued: ThrowAwayAuthority.Issued,
        chain: [String] = [],
        _ options: EndpointOptions = [:],
        registry: TransportRegistry = .standard
    ) async throws {
        try await self.init("wss", issued, chain: chain, options, registry: registry)
    }

    var port: UInt16? { listener.endpoint.port }

    /// Connects with these options.
    func connect(
        _ options: EndpointOptions,
        registry: TransportRegistry? = nil
    ) async throws(TransportError) -> any Connection {
        try await (registry ?? self.registry).connect(tlsEndpoint(scheme, port: port, topics(of: scheme) + options))
    }

    /// Connects with these options, and returns both sides.
    func pair(
        _ options: EndpointOptions,
        registry: TransportRegistry? = nil
    ) async throws -> (client: any Connection, server: any Connection) {
        async let accepted = listener.accept()
        let client = try await connect(options, registry: registry)
        return (client, try #require(try await accepted))
    }

    /// The error of an attempt with these options, or of the connection. With TLS 1.3, a server checks its client after the
    /// client's own handshake.
    func refusal(_ options: EndpointOptions, registry: TransportRegistry? = nil) async throws -> TransportError {
        let connection: any Connection
        do throws(TransportError) {
            connection = try await connect(options, registry: registry)
        } catch {
            return error
        }
        return try #require(await connection.closed().error)
    }

    func stop() async { await listener.close() }
}
