import TransportAPI

/// The far side of a link as a server's behaviour sees it, whatever the protocol. Lives on its loop.
package protocol MessagePeer: AnyObject {
    /// Tells it from all others of its loop.
    var number: UInt64 { get }
    /// Sends at once or not at all.
    func sendNow(_ payload: Payload) -> SendOutcome
    /// What it has just said was work for many others: the clock is looked at before more of it is heard.
    func noteMuchWork()
    /// Says goodbye and ends the link without waiting for the answer.
    func endNow(_ reason: CloseReason)
}
