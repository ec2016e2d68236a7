import TransportAPI

/// Receives the events of links in place of their inboxes, synchronously and on the loop: what servers are made of.
package protocol LinkHandler<Core>: AnyObject {
    associatedtype Core: ProtocolCore

    /// The core reports something.
    func handle(_ event: CoreEvent<Core.Signal>, on driver: LinkDriver<Core>)
    /// The link has ended; the last call for it.
    func ended(_ driver: LinkDriver<Core>, _ reason: CloseReason)
}
