import Protocols
import TransportAPI

/// An event for the owner of a server: a client's connection has ended, or the client was refused. It has the client,
/// the reason, and whether the handshake was complete. The reason's error is `nil` for an ordinary close.
public struct ServerEvent: Sendable, Hashable {
    /// The client's address and port; `nil` if the transport has none.
    public var client: String?
    /// Whether the handshake was complete.
    public var wasOpen: Bool
    /// The reason of the end.
    public var reason: CloseReason
    /// The number of clients that this event stands for. It is more than 1 only if such events are limited to one per
    /// second. Then ``client`` is the first of them.
    public var count: Int

    /// Creates an event from its parts.
    public init(client: String?, wasOpen: Bool, reason: CloseReason, count: Int = 1) {
        self.client = client
        self.wasOpen = wasOpen
        self.reason = reason
        self.count = count
    }
}

extension ServerEvent: CustomStringConvertible {
    /// The event in one line, for a log.
    public var description: String {
        let what = reason.error?.description ?? (reason.text.isEmpty ? "\(reason.initiator)" : reason.text)
        let times = count > 1 ? ", \(count) times" : ""
        return "\(client ?? "a client") \(wasOpen ? "ended" : "turned away")\(times): \(what)"
    }
}

/// Receives each event on the thread of the server's loop. It must not block. A server under attack has many events.
public typealias ServerObserver = @Sendable (ServerEvent) -> Void

/// The object that keeps drivers alive: an acceptor. Called on its loop.
protocol DriverOwner: AnyObject {
    /// The handshake of `driver` is complete.
    func opened(_ driver: ConnectionDriver)
    /// The connection has ended for its users.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool)
    /// The memory of a connection for incomplete input, output and received messages has changed.
    func memoryChanged(by bytes: Int)
    /// The last bytes have left and the channel is closed. This is the last call for `driver`.
    func closed(_ driver: ConnectionDriver)
}

extension DriverOwner {
    func opened(_: ConnectionDriver) {}
    func ended(_: ConnectionDriver, _: CloseReason, wasOpen _: Bool) {}
    func memoryChanged(by _: Int) {}
}
