import Protocols
import TransportAPI

/// Receives the events of connections in place of their inboxes, synchronously and on the loop. Servers are built on
/// it.
package protocol ConnectionHandler: AnyObject {
    /// Handles an event of the core.
    func handle(_ event: CoreEvent, on driver: ConnectionDriver)
    /// Little of the output is left, as ``ConnectionDriver/notifyOfRoom()`` requested. Called during a flush, so
    /// messages that are sent now leave later.
    func roomMade(_ driver: ConnectionDriver)
    /// The connection has ended. This is the last call for it.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason)
}

extension ConnectionHandler {
    package func roomMade(_: ConnectionDriver) {}
}

/// The peer of a connection as a message handler sees it, for all protocols. Lives on its loop.
package protocol MessagePeer: AnyObject {
    /// Identifies the peer among all others of its loop.
    var number: UInt64 { get }
    /// Sends at once, or refuses the message.
    func sendNow(_ payload: Payload) -> SendOutcome
    /// Notes that the last event caused work for many other connections. The clock is read before the next event.
    func noteMuchWork()
    /// Sends a close frame and ends the connection without waiting for the answer.
    func endNow(_ reason: CloseReason)
}
