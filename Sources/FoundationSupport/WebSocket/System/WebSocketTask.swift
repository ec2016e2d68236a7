import Primitives
import Protocols
import SocketIO
import TransportAPI

/// One WebSocket connection that the system makes, as `URLSessionWebSocketTask` does it: it sends and receives whole
/// messages, and speaks the protocol itself. A test can put any other WebSocket into its place.
///
/// Any thread may call it. It calls back on any thread, one call at a time and in order. A callback may come late or twice.
protocol WebSocketTask: AnyObject, Sendable {
    /// Opens the connection. From now on it reports to `events`, which it releases after ``WebSocketTaskEvent/ended(_:)``.
    func resume(_ events: @escaping @Sendable (WebSocketTaskEvent) -> Void)
    /// Sends a message. `completion` is called when the system has passed it on, or with an error that also ends the task.
    func send(_ message: WebSocketTaskMessage, _ completion: @escaping @Sendable (_ isSent: Bool) -> Void)
    /// Receives one message. The system reads no more from the peer than this needs. Only one receive waits at a time. After a
    /// failure there is no further message, and the end of the task follows.
    func receive(_ completion: @escaping @Sendable (Result<WebSocketTaskMessage, WebSocketTaskFailure>) -> Void)
    /// Sends a ping. `completion` is called at its answer, or with `false` if none can come.
    func ping(_ completion: @escaping @Sendable (_ isAnswered: Bool) -> Void)
    /// Sends a close frame. The end follows once the peer has answered.
    func close(code: UInt16, text: String)
    /// Ends the connection at once. The end follows if it was not reported.
    func cancel()
}

/// A message of a ``WebSocketTask``.
enum WebSocketTaskMessage: Sendable, Hashable {
    case text(String)
    case binary([UInt8])
}

/// What a ``WebSocketTask`` reports.
enum WebSocketTaskEvent: Sendable {
    /// The handshake is complete, with this subprotocol, and over this encryption if there is any.
    case opened(subprotocol: String?, TLSDescription?)
    /// The peer has sent a close frame, without a code as 1005.
    case closed(code: UInt16, text: String)
    /// The task is over. This is the last event.
    case ended(WebSocketTaskEnd)
}

/// How a ``WebSocketTask`` has ended.
struct WebSocketTaskEnd: Sendable {
    /// The status of the server's answer to the handshake; `nil` if there was none.
    var status: Int?
    /// The headers of this answer.
    var headers: [HTTPHeader] = []
    /// The error of the system; `nil` after a close.
    var failure: WebSocketTaskFailure?
    /// Why this side has refused the server's certificate; `nil` if it has not.
    var refusal: TLSFailure?
    /// Whether the server's certificate was accepted.
    var isVerified = false
}

/// Makes the task for one attempt.
typealias WebSocketTaskFactory = @Sendable (WebSocketTaskRequest) throws(TransportError) -> any WebSocketTask

/// What a ``WebSocketTask`` connects to.
struct WebSocketTaskRequest: Sendable {
    /// The URL with path and query, which may be secret.
    @Secret var url: String
    /// All headers, those of subprotocols and origin included.
    var headers: [HTTPHeader] = []
    /// The largest message that is received, in bytes.
    var maximumMessageSize: Int
    /// Which servers are trusted.
    var trust: TrustPolicy
    /// Whether cookies that a handshake sets are sent in the next one.
    var keepsCookies = true
    /// Whether the server may get the client's certificate. A server to which another one has redirected may not.
    var presentsIdentity = true
    /// The host, for errors.
    var host: String
}

extension WebSocketTaskRequest {
    /// The size of the request of the handshake (RFC 6455, section 4.1) with these headers, in bytes. The system may send more.
    func size(path: String) -> Int {
        let authority = url.utf8.count - path.utf8.count - (url.hasPrefix("wss:") ? 6 : 5)
        let fixed =
            "GET  HTTP/1.1\r\nHost: \r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \r\n"
            + "Sec-WebSocket-Version: 13\r\n\r\n"
        let key = 24
        return headers.reduce(fixed.utf8.count + key + path.utf8.count + authority) {
            $0 + $1.name.utf8.count + $1.value.utf8.count + 4
        }
    }

    /// The size of an answer with nothing but what a server has to send.
    static let answerSize = 129
}
