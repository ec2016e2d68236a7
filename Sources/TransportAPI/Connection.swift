/// One live session with a peer, from the open connection to its end. Never reused: after it has ended, every `send`
/// is rejected, and whoever wants to go on asks the ``Transport`` for a new connection.
///
/// All members may be called from any task. Called from a task that prefers the connection's event loop as its executor, they
/// neither hop threads nor, when nothing has to be waited for, suspend. Nor do they elsewhere while that loop sleeps: the
/// caller's thread then does the protocol's work itself, up to handing the bytes to the kernel.
public protocol Connection: AnyObject, Sendable {
    /// What this connection can do.
    var capabilities: Capabilities { get }

    /// Sends one message. Returns when the peer has acknowledged it, where the transport has acknowledgements, and
    /// otherwise when the message lies in the kernel's or this connection's bounded buffer; waits while that is full.
    /// Cancelling the task ends the wait at once; the outcome then says whether anything of the message may have left.
    /// What one task sends leaves in its order; there is none between tasks.
    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome

    /// Sends one message as ``send(_:)``, under an identifier by which the next connection of the same transport knows it again
    /// (``Capabilities/completesSends``). Default: sends it, and knows none again.
    ///
    /// - Parameters:
    ///   - id: no other message of the transport has it.
    ///   - isRepeated: a connection before this one was given the message under this identifier, and ended before the message was
    ///     acknowledged. Then nothing is sent: the call returns when this connection has completed what that one has left.
    /// - Returns: `.unknown` with ``TransportError/Code-swift.enum/notFound`` for a repeated message of which this
    ///   connection knows nothing. Any other `.unknown` means that this connection has ended, and that the next one may
    ///   complete the message.
    nonisolated(nonsending) func send(_ payload: Payload, as id: MessageID, isRepeated: Bool) async -> SendOutcome

    /// Waits for the next message; `nil` after the connection has ended in a clean close. One task at a time may wait.
    ///
    /// - Throws: the error that ended the connection, ``TransportError/Code-swift.enum/cancelled`` if the task was
    ///   cancelled (the connection lives on), or `.busy` if another task is already waiting.
    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload?

    /// Asks the peer for a sign of life and returns the round-trip time. Throws `.unsupported` where the protocol
    /// has no ping (``Capabilities/hasNativePing``), and what ended the connection if it ends before the answer.
    /// Sixteen pings may wait for their answers: a further one is refused as `.busy`, or takes the place of the oldest,
    /// which throws `.timedOut`, once that has waited for a second.
    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration

    /// Closes the connection: sends what was accepted and is still buffered, and the protocol's close frame. Returns
    /// when the peer has answered by its close frame or by the end of its half of the connection. So a process may exit
    /// right after it.
    ///
    /// Messages that still wait for room end `rejected`. The close takes no longer than the transport's close timeout after the
    /// peer last took bytes, and no longer than its total (`close-timeout`, 5 s, and `close-total`, 60 s, in URLs). Cancelling
    /// the task ends the wait; the connection closes all the same. Closing a connection that is closed returns at once.
    ///
    /// - Returns: how many bytes were accepted that are not known to have reached the peer, framing included; 0 if all
    ///   did. Over transports that lose messages (UDP without `reliable`), datagrams that have left are not counted.
    @discardableResult
    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int

    /// Waits for the connection's end and says why it ended.
    nonisolated(nonsending) func closed() async -> CloseReason

    /// What has been sent and received so far.
    nonisolated(nonsending) func statistics() async -> ConnectionStatistics
}

extension Connection {
    /// Sends the message, unless a connection before may have sent it.
    public nonisolated(nonsending) func send(
        _ payload: Payload,
        as id: MessageID,
        isRepeated: Bool
    ) async -> SendOutcome {
        isRepeated ? .unknown(.nothingLeft) : await send(payload)
    }

    /// Closes the connection in the user's name, as ``close(_:)``.
    @discardableResult
    public nonisolated(nonsending) func close() async -> Int {
        await close(.user)
    }
}

extension TransportError {
    /// The connection can't say what became of a message that one before it has sent.
    package static let nothingLeft = TransportError(
        .notFound,
        .open,
        "the connection that the message was sent over has ended, and this one knows nothing of it"
    )
}
