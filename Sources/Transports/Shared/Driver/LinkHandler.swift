import TransportAPI

/// Receives the events of links in place of their inboxes, synchronously and on the loop: what servers are made of.
package protocol LinkHandler: AnyObject {
    /// The core reports something.
    func handle(_ event: CoreEvent, on driver: LinkDriver)
    /// Little of the output is left, of which the driver was asked to tell (``LinkDriver/wantsRoom``). Comes while it is handed
    /// to the kernel: what is to be sent now is sent later.
    func roomMade(_ driver: LinkDriver)
    /// The link has ended; the last call for it.
    func ended(_ driver: LinkDriver, _ reason: CloseReason)
}

extension LinkHandler {
    package func roomMade(_: LinkDriver) {}
}
