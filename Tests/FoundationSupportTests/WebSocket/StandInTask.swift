import Foundation
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

@testable import FoundationSupport

/// The WebSocket of this package in the place of `URLSessionWebSocketTask`, so that the transport of the system's WebSocket runs
/// where the system has none. Like the system's it sends in order, reads only what is requested, and calls back from a thread of
/// its own.
final class StandInTask: WebSocketTask {
    private enum Operation: Sendable {
        case send(Payload, @Sendable (Bool) -> Void)
        case close(UInt16, String)
    }

    private struct State {
        var events: (@Sendable (WebSocketTaskEvent) -> Void)?
        var connection: (any Connection)?
        var opening: Task<Void, Never>?
        var isCancelled = false
    }

    private let request: WebSocketTaskRequest
    private let state = Locked(State())
    private let operations = AsyncStream<Operation>.makeStream()
    private static let loop = (try? EventLoop(name: "im-stand-in")) ?? .shared

    private init(_ request: WebSocketTaskRequest) {
        self.request = request
    }

    static let factory: WebSocketTaskFactory = { (request) throws(TransportError) in StandInTask(request) }

    /// All transports, where this one speaks the WebSocket of clients unless the URL says otherwise.
    static let registry = {
        var registry = TransportRegistry.trial
        registry.registerWebSocket(.system) { factory }
        return registry
    }()

    private func report(_ event: WebSocketTaskEvent) {
        let events = state.withLock { state in
            if case .ended = event { return state.events.take() }
            return state.events
        }
        events?(event)
    }

    // MARK: The handshake

    func resume(_ events: @escaping @Sendable (WebSocketTaskEvent) -> Void) {
        state.withLock { $0.events = events }
        let opening = Task(executorPreference: Self.loop) { [self] in await open() }
        state.withLock { $0.opening = opening }
    }

    private func open() async {
        do {
            let transport = try transport()
            switch try await transport.open(started: MonotonicClock.now(), deadline: .max) {
            case .connection(let connection):
                let isCancelled = state.withLock { state in
                    state.connection = connection
                    return state.isCancelled
                }
                guard !isCancelled else { return abandon(connection) }
                report(.opened(subprotocol: nil, connection.encryption))
                await run(connection)
            case .elsewhere(let redirection, _):
                let location = try HTTPHeader("Location", redirection.location)
                report(.ended(WebSocketTaskEnd(status: redirection.status, headers: [location])))
            }
        } catch {
            report(.ended(end(error as? TransportError)))
        }
    }

    /// The transport of this package for the same request. It follows no redirect.
    private func transport() throws -> any RedirectedTransport {
        var endpoint = try Endpoint(server: request.url)
        endpoint.options.append(.init(name: "redirects", value: "1"))
        endpoint.options.append(.init(name: "max-message", value: "\(request.maximumMessageSize)"))
        var headers: [HTTPHeader] = []
        for header in request.headers {
            switch header.name {
            case "Origin": endpoint.options.append(.init(name: "origin", value: header.value))
            case "Sec-WebSocket-Protocol":
                for name in header.value.split(separator: ",") {
                    let value = name.trimmingCharacters(in: .whitespaces)
                    endpoint.options.append(.init(name: "subprotocol", value: value))
                }
            default: headers.append(header)
            }
        }
        let context = ConnectionContext(on: Self.loop, headers: headers)
        let transport = try TransportRegistry.trial.transport(for: endpoint, in: context)
        guard let redirected = transport as? any RedirectedTransport else { throw CancellationError() }
        return redirected
    }

    /// The end as the system would report it.
    private func end(_ error: TransportError?) -> WebSocketTaskEnd {
        guard let error else { return WebSocketTaskEnd() }
        if error.phase == .handshake, let status = error.detail, 300...599 ~= status {
            var end = WebSocketTaskEnd(status: status, failure: .init(domain: .url, code: -1011))
            if let seconds = error.retryAfter?.components.seconds {
                end.headers = [HTTPHeader(parsed: "Retry-After", "\(seconds)")]
            }
            return end
        }
        return WebSocketTaskEnd(failure: Self.failure(error))
    }

    private static func failure(_ error: TransportError) -> WebSocketTaskFailure {
        switch error.code {
        case .refused: .init(domain: .url, code: -1004)
        case .nameNotFound: .init(domain: .url, code: -1003)
        case .messageTooLarge: .init(domain: .posix, code: Int(EMSGSIZE))
        case .connectionReset: .init(domain: .posix, code: Int(ECONNRESET))
        case .connectionLost: .init(domain: .posix, code: Int(ENOTCONN))
        default: .init(domain: .url, code: -1011)
        }
    }

    // MARK: The open connection

    private func run(_ connection: any Connection) async {
        for await operation in operations.stream {
            switch operation {
            case .send(let payload, let completion): completion(await connection.send(payload).isSuccess)
            case .close(let code, let text):
                await connection.close(CloseReason(.user, code: code, text: text))
                report(.ended(WebSocketTaskEnd(status: 101)))
            }
        }
    }

    func send(_ message: WebSocketTaskMessage, _ completion: @escaping @Sendable (Bool) -> Void) {
        switch message {
        case .text(let text): operations.continuation.yield(.send(Payload(text: text), completion))
        case .binary(let bytes): operations.continuation.yield(.send(Payload(bytes), completion))
        }
    }

    func receive(
        _ completion: @escaping @Sendable (Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Void
    ) {
        guard let connection = state.withLock({ $0.connection }) else { return }
        Task(executorPreference: Self.loop) { [self] in
            if let payload = try? await connection.receive() {
                let text = String(decoding: payload.bytes, as: UTF8.self)
                completion(.success(payload.kind == .text ? .text(text) : .binary(payload.bytes)))
                return
            }
            let reason = await connection.closed()
            let failure = reason.error.map(Self.failure) ?? .init(domain: .posix, code: Int(ENOTCONN))
            completion(.failure(failure))
            if let code = reason.code, code != 1006, reason.initiator != .protocolError || failure.code != Int(EMSGSIZE)
            {
                report(.closed(code: code, text: reason.text))
                report(.ended(WebSocketTaskEnd(status: 101, failure: .init(domain: .posix, code: Int(ENOTCONN)))))
            } else if reason.initiator != .user {
                report(.ended(WebSocketTaskEnd(status: 101, failure: failure)))
            }
        }
    }

    func ping(_ completion: @escaping @Sendable (Bool) -> Void) {
        guard let connection = state.withLock({ $0.connection }) else { return completion(false) }
        Task(executorPreference: Self.loop) {
            let isAnswered = (try? await connection.ping()) != nil
            completion(isAnswered)
            // The system's may call twice.
            completion(isAnswered)
        }
    }

    func close(code: UInt16, text: String) {
        operations.continuation.yield(.close(code, text))
    }

    func cancel() {
        let (connection, opening) = state.withLock { state in
            state.isCancelled = true
            return (state.connection, state.opening)
        }
        opening?.cancel()
        operations.continuation.finish()
        if let connection { abandon(connection) }
    }

    private func abandon(_ connection: any Connection) {
        guard let core = connection as? CoreConnection else { return }
        core.driver.execute { core.driver.value.close(abort: true) }
    }
}
