import Protocols
import TransportAPI

/// Receives the events of connections in place of their inboxes, synchronously and on the loop: what servers are made of.
package protocol ConnectionHandler: AnyObject {
    /// The core reports something.
    func handle(_ event: CoreEvent, on driver: ConnectionDriver)
    /// Little of the output is left, of which the driver was asked to tell (``ConnectionDriver/wantsRoom``). Comes
    /// while it is handed to the kernel: what is to be sent now is sent later.
    func roomMade(_ driver: ConnectionDriver)
    /// The connection has ended; the last call for it.
    func ended(_ driver: ConnectionDriver, _ reason: CloseReason)
}

extension ConnectionHandler {
    package func roomMade(_: ConnectionDriver) {}
}

/// The peer of a connection as a message handler sees it, whatever the protocol. Lives on its loop.
package protocol MessagePeer: AnyObject {
    /// Tells it from all others of its loop.
    var number: UInt64 { get }
    /// Sends at once or not at all.
    func sendNow(_ payload: Payload) -> SendOutcome
    /// What it has just said was work for many others: the clock is looked at before more of it is heard.
    func noteMuchWork()
    /// Says goodbye and ends the connection without waiting for the answer.
    func endNow(_ reason: CloseReason)
}
