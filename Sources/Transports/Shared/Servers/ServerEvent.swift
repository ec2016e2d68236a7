import Protocols
import TransportAPI

/// What the owner of a server hears of a client whose connection has ended, or that was turned away: who, how far it
/// had come, and why. The reason's error is `nil` for an ordinary goodbye.
public struct ServerEvent: Sendable, Hashable {
    /// The client's address and port; `nil` where the transport has none.
    public var client: String?
    /// Whether its handshake had been complete.
    public var wasOpen: Bool
    /// Why it ended.
    public var reason: CloseReason
    /// How often this happened since the last such note, where notes are bounded to one a second; otherwise 1. The
    /// client is then the first of them.
    public var count: Int

    /// A note spelled out.
    public init(client: String?, wasOpen: Bool, reason: CloseReason, count: Int = 1) {
        self.client = client
        self.wasOpen = wasOpen
        self.reason = reason
        self.count = count
    }
}

extension ServerEvent: CustomStringConvertible {
    /// One line for a log.
    public var description: String {
        let what = reason.error?.description ?? (reason.text.isEmpty ? "\(reason.initiator)" : reason.text)
        let times = count > 1 ? ", \(count) times" : ""
        return "\(client ?? "a client") \(wasOpen ? "ended" : "turned away")\(times): \(what)"
    }
}

/// Called with each event on the thread of the server's loop; must neither block nor wait. A server under attack has
/// many events.
public typealias ServerObserver = @Sendable (ServerEvent) -> Void

/// Who keeps drivers: an acceptor. Told on its loop.
protocol DriverOwner: AnyObject {
    /// The handshake is complete.
    func opened(_ driver: ConnectionDriver)
    /// The connection has ended for its users.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool)
    /// The connection keeps more, or less, of what has not arrived whole and of what the peer has not taken.
    func memoryChanged(by bytes: Int)
    /// The last byte is gone and the channel closed; the last call for this driver.
    func closed(_ driver: ConnectionDriver)
}

extension DriverOwner {
    func opened(_: ConnectionDriver) {}
    func ended(_: ConnectionDriver, _: CloseReason, wasOpen _: Bool) {}
    func memoryChanged(by _: Int) {}
}
