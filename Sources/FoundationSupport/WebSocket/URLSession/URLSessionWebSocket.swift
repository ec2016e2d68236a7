import Foundation
import Primitives
import Protocols
import SocketIO
import TransportAPI

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A `URLSessionWebSocketTask` as a ``WebSocketTask``, with a session of its own, so that its delegate is this object and its
/// certificate checks are those of one connection.
///
/// A session retains its delegate until it is invalidated. So the session is made when the task starts, and is invalidated when
/// the task has ended or is cancelled. Then nothing of the three retains another.
final class URLSessionWebSocket: NSObject, WebSocketTask, @unchecked Sendable {
    // Unchecked, because `NSObject` is not Sendable. All state is in `state`.

    let request: WebSocketTaskRequest
    private let cookies: HTTPCookieStorage?
    let state = Locked(State())

    struct State {
        fileprivate var session: URLSession?
        fileprivate var task: URLSessionWebSocketTask?
        fileprivate var events: (@Sendable (WebSocketTaskEvent) -> Void)?
        /// Whether the task was started or given up. It starts once.
        fileprivate var isStarted = false
        /// Why the server's certificate was refused.
        var refusal: TLSFailure?
        /// Whether the server's certificate was accepted.
        var isVerified = false
        #if canImport(Security)
        /// The certificate of this side with its key.
        var identity: ClientIdentity?
        #endif
    }

    private init(_ request: WebSocketTaskRequest, _ cookies: HTTPCookieStorage?) {
        (self.request, self.cookies) = (request, cookies)
    }

    /// Returns what makes the tasks of one transport, which share their cookies.
    static func factory(
        _ prepare: @escaping @Sendable (URLSessionWebSocket) -> Void = { _ in }
    ) -> WebSocketTaskFactory {
        let cookies = URLSessionConfiguration.ephemeral.httpCookieStorage
        return { (request) throws(TransportError) in
            guard URL(string: request.url) != nil else {
                throw .configuration("url", "is not accepted by Foundation; percent-encode its path and query")
            }
            let socket = URLSessionWebSocket(request, request.keepsCookies ? cookies : nil)
            prepare(socket)
            return socket
        }
    }

    private var configuration: URLSessionConfiguration {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = cookies
        configuration.httpShouldSetCookies = cookies != nil
        configuration.httpCookieAcceptPolicy = cookies == nil ? .never : .always
        configuration.urlCredentialStorage = nil
        configuration.urlCache = nil
        // The supervisor limits attempts and silence. A limit of the session would end quiet connections.
        configuration.timeoutIntervalForRequest = 7 * 24 * 3600
        configuration.timeoutIntervalForResource = 365 * 24 * 3600
        #if canImport(Security)
        configuration.waitsForConnectivity = false
        configuration.tlsMinimumSupportedProtocolVersion = request.trust.requiresTLS13 ? .TLSv13 : .TLSv12
        #endif
        return configuration
    }

    func resume(_ events: @escaping @Sendable (WebSocketTaskEvent) -> Void) {
        guard let url = URL(string: request.url) else { return }
        var urlRequest = URLRequest(url: url)
        for header in request.headers { urlRequest.addValue(header.value, forHTTPHeaderField: header.name) }
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.name = "im-websocket"
        let task: URLSessionWebSocketTask? = state.withLock { state in
            guard !state.isStarted else { return nil }
            let session = URLSession(configuration: configuration, delegate: self, delegateQueue: queue)
            let task = session.webSocketTask(with: urlRequest)
            task.maximumMessageSize = request.maximumMessageSize
            (state.isStarted, state.session, state.task, state.events) = (true, session, task, events)
            return task
        }
        task?.resume()
    }

    private var task: URLSessionWebSocketTask? { state.withLock(\.task) }

    func send(_ message: WebSocketTaskMessage, _ completion: @escaping @Sendable (Bool) -> Void) {
        guard let task else { return completion(false) }
        let converted: URLSessionWebSocketTask.Message =
            switch message {
            case .text(let text): .string(text)
            case .binary(let bytes): .data(Data(bytes))
            }
        task.send(converted) { error in completion(error == nil) }
    }

    func receive(
        _ completion: @escaping @Sendable (Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Void
    ) {
        guard let task else { return }
        task.receive { result in
            switch result {
            case .success(.string(let text)): completion(.success(.text(text)))
            case .success(.data(let data)): completion(.success(.binary([UInt8](data))))
            case .success: completion(.failure(WebSocketTaskFailure(domain: .other("message"), code: 0)))
            case .failure(let error): completion(.failure(WebSocketTaskFailure(error)))
            }
        }
    }

    func ping(_ completion: @escaping @Sendable (Bool) -> Void) {
        guard let task else { return completion(false) }
        // The handler is called twice if the connection breaks meanwhile.
        let isFirst = Locked(true)
        task.sendPing { error in
            guard isFirst.withLock({ $0.take() }) else { return }
            completion(error == nil)
        }
    }

    func close(code: UInt16, text: String) {
        let code = URLSessionWebSocketTask.CloseCode(rawValue: Int(code)) ?? .normalClosure
        task?.cancel(with: code, reason: text.isEmpty ? nil : Data(text.utf8))
    }

    func cancel() {
        let session = state.withLock { state in
            (state.events, state.task, state.isStarted) = (nil, nil, true)
            return state.session.take()
        }
        session?.invalidateAndCancel()
    }

    private func report(_ event: WebSocketTaskEvent) {
        state.withLock(\.events)?(event)
    }
}

extension Bool {
    /// Returns the value, and leaves `false`.
    fileprivate mutating func take() -> Bool {
        defer { self = false }
        return self
    }
}

extension WebSocketTaskFailure {
    /// The domain and the number of an error of Foundation.
    init(_ error: any Error) {
        let error = error as NSError
        let domain: Domain =
            switch error.domain {
            case NSURLErrorDomain: .url
            case NSPOSIXErrorDomain: .posix
            case NSOSStatusErrorDomain: .status
            default: .other(error.domain)
            }
        self.init(domain: domain, code: error.code)
    }
}

extension URLSessionWebSocket: URLSessionWebSocketDelegate {
    func urlSession(
        _ session: URLSession,
        webSocketTask: URLSessionWebSocketTask,
        didOpenWithProtocol subprotocol: String?
    ) {
        let isEncrypted = request.url.hasPrefix("wss:")
        let isVerified = state.withLock(\.isVerified)
        // The system does not tell the version and the cipher of an open connection.
        let encryption = isEncrypted ? TLSDescription(version: "", cipher: "", isVerified: isVerified) : nil
        report(.opened(subprotocol: subprotocol, encryption))
    }

    func urlSession(
        _ session: URLSession,
        webSocketTask: URLSessionWebSocketTask,
        didCloseWith closeCode: URLSessionWebSocketTask.CloseCode,
        reason: Data?
    ) {
        let code = UInt16(clamping: closeCode.rawValue)
        report(.closed(code: code == 0 ? 1005 : code, text: String(decoding: reason ?? Data(), as: UTF8.self)))
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let answer = task.response as? HTTPURLResponse
        // As with this package's WebSocket, refused credentials end a session of cookies.
        if answer?.statusCode == 401 || answer?.statusCode == 403 {
            for cookie in cookies?.cookies ?? [] { cookies?.deleteCookie(cookie) }
        }
        let (events, end) = state.withLock { state in
            var end = WebSocketTaskEnd(status: answer?.statusCode, failure: error.map(WebSocketTaskFailure.init))
            end.headers = (answer?.allHeaderFields ?? [:]).compactMap { name, value in
                guard let name = name as? String, let value = value as? String else { return nil }
                return try? HTTPHeader(name, value)
            }
            (end.refusal, end.isVerified) = (state.refusal, state.isVerified)
            (state.session, state.task) = (nil, nil)
            return (state.events.take(), end)
        }
        events?(.ended(end))
        session.finishTasksAndInvalidate()
    }

    /// Refuses every redirect, so that its answer is the last one. The transport follows it, by the rules for all transports.
    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
