/// Told by an ``EventLoop`` that its descriptor is ready. Called on the loop only.
public protocol PollHandler: AnyObject {
    /// The descriptor is ready for `readiness`; an edge, see ``Readiness``.
    func ready(_ readiness: Readiness)
}
