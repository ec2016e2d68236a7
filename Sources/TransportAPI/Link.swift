/// One live session with a far side, from the open connection to its end. Never reused: after it has ended, every `send`
/// is rejected, and whoever wants to go on asks the ``Transport`` for a new link.
///
/// All members may be called from any task. Called from a task that prefers the link's event loop as its executor, they
/// neither hop threads nor, when nothing has to be waited for, suspend. Nor do they elsewhere while that loop sleeps: the
/// caller's thread then does the protocol's work itself, up to handing the bytes to the kernel.
public protocol Link: AnyObject, Sendable {
    /// What this link can do.
    var capabilities: Capabilities { get }

    /// Sends one message. Returns when the far side has acknowledged it, where the transport has acknowledgements, and
    /// otherwise when the message lies in the kernel's or this link's bounded buffer; waits while that is full. Cancelling
    /// the task ends the wait at once; the outcome then says whether anything of the message may have left.
    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome

    /// Waits for the next message; `nil` after the link has ended in a clean close. One task at a time may wait.
    ///
    /// - Throws: the error that ended the link, ``TransportError/Code-swift.enum/cancelled`` if the task was cancelled (the
    ///   link lives on), or `.busy` if another task is already waiting.
    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload?

    /// Asks the far side for a sign of life and returns the round-trip time. Throws `.unsupported` where the protocol has no
    /// ping (``Capabilities/hasNativePing``), and what ended the link if it ends before the answer. Sixteen pings may wait for
    /// their answers: a further one is refused as `.busy`, or takes the place of the oldest, which throws `.timedOut`, once that
    /// has waited for a second.
    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration

    /// Says goodbye as the protocol does, sends what is still buffered, and ends the link; returns when it has ended.
    /// Bounded by the transport's close timeout. Closing a link that has ended does nothing.
    nonisolated(nonsending) func close(_ reason: CloseReason) async

    /// Waits for the link's end and says why it ended.
    nonisolated(nonsending) func closed() async -> CloseReason

    /// What has been sent and received so far.
    nonisolated(nonsending) func statistics() async -> LinkStatistics
}

extension Link {
    /// Closes the link in the user's name.
    public nonisolated(nonsending) func close() async {
        await close(.user)
    }
}
