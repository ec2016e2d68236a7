/// Receives the readiness events of a descriptor from an ``EventLoop``. Called on the loop only.
package protocol PollHandler: AnyObject {
    /// The descriptor is ready for `readiness`. Readiness is reported on its edge; see ``Readiness``.
    func ready(_ readiness: Readiness)
}
