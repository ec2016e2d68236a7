import TransportAPI

/// Receives the events of links in place of their inboxes, synchronously and on the loop: what servers are made of.
package protocol LinkHandler: AnyObject {
    /// The core reports something.
    func handle(_ event: CoreEvent, on driver: LinkDriver)
    /// The link has ended; the last call for it.
    func ended(_ driver: LinkDriver, _ reason: CloseReason)
}
