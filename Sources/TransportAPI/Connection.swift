@_exported import struct Primitives.Secret
@_exported import struct Primitives.TLSCertificate
@_exported import struct Primitives.TLSDescription
@_exported import enum Primitives.TLSProblem

/// One open connection to a peer. It never reconnects. After it has ended, every `send` is rejected, and the caller
/// gets a new connection from the ``Transport``.
///
/// All members can be called from any task. Calls from a task that prefers the connection's event loop as its executor
/// do not change threads, and suspend only if they must wait. The same applies to other tasks while that loop sleeps.
/// The caller's thread then runs the protocol, up to passing the bytes to the kernel.
public protocol Connection: AnyObject, Sendable {
    /// The capabilities of this connection.
    var capabilities: Capabilities { get }

    /// The client at the other end, if this is a server's connection and its handshake has authenticated the client, by
    /// a decision of the app or by a certificate. `nil` by default.
    var identity: Identity? { get }

    /// The result of the TLS handshake; `nil` if the connection is not encrypted. `nil` by default.
    var encryption: TLSDescription? { get }

    /// Sends one message. If the transport has acknowledgements, the call returns when the peer has acknowledged the
    /// message. Otherwise it returns when the message is in the kernel's buffer or in this connection's bounded buffer,
    /// and waits while that buffer is full. Cancelling the task ends the wait at once. The outcome then shows whether a
    /// part of the message can have been sent. The messages of one task are sent in order. There is no order between
    /// tasks.
    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome

    /// Sends one message like ``send(_:)``, under an identifier by which the next connection of the same transport
    /// recognizes it (``Capabilities/completesSends``). The default implementation sends the message and recognizes
    /// none.
    ///
    /// - Parameters:
    ///   - payload: The message.
    ///   - id: An identifier that no other message of the transport has.
    ///   - isRepeated: Whether an earlier connection got the message under this identifier and ended before it was
    ///     acknowledged. Then nothing is sent, and the call returns when this connection has completed the message.
    /// - Returns: `.unknown` with ``TransportError/Code-swift.enum/notFound`` for a repeated message that this
    ///   connection does not know. Any other `.unknown` means that this connection has ended, and that the next one can
    ///   complete the message.
    nonisolated(nonsending) func send(_ payload: Payload, as id: MessageID, isRepeated: Bool) async -> SendOutcome

    /// Waits for the next message. Returns `nil` after the connection has ended in a clean close. Only one task can
    /// wait at a time.
    ///
    /// - Throws: The error that ended the connection, ``TransportError/Code-swift.enum/cancelled`` if the task was
    ///   cancelled (the connection stays open), or `.busy` if another task is already waiting.
    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload?

    /// Pings the peer and returns the round-trip time. Up to sixteen pings can wait for their answers. Once the oldest
    /// has waited for a second, a further ping replaces it, and the oldest throws `.timedOut`. Before that, a further
    /// ping throws `.busy`.
    ///
    /// - Throws: `.unsupported` if the protocol has no ping (``Capabilities/hasNativePing``), or the error that ended
    ///   the connection if it ends before the answer.
    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration

    /// Closes the connection. Sends the buffered output and the protocol's close frame. Returns when the peer has
    /// answered by its close frame or by the end of its half of the connection. So a process can exit right after this
    /// call.
    ///
    /// Messages that still wait for room end as `rejected`. The close takes at most the transport's close timeout after
    /// the peer last took bytes, and at most its total (`close-timeout`, 5 s, and `close-total`, 60 s, in URLs).
    /// Cancelling the task ends the wait, but the connection still closes. Closing a closed connection returns at once.
    ///
    /// - Returns: How many accepted bytes are not known to have reached the peer, framing included; 0 if all did. Over
    ///   transports that lose messages (UDP without `reliable`), datagrams that have left are not counted.
    @discardableResult
    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int

    /// Waits for the connection's end and returns the reason.
    nonisolated(nonsending) func closed() async -> CloseReason

    /// Returns the counts of sent and received data so far.
    nonisolated(nonsending) func statistics() async -> ConnectionStatistics
}

extension Connection {
    /// `nil`: no handshake has authenticated the peer.
    public var identity: Identity? { nil }

    /// `nil`: the connection is not encrypted.
    public var encryption: TLSDescription? { nil }

    /// Sends the message, unless an earlier connection can have sent it.
    public nonisolated(nonsending) func send(
        _ payload: Payload,
        as id: MessageID,
        isRepeated: Bool
    ) async -> SendOutcome {
        isRepeated ? .unknown(.nothingLeft) : await send(payload)
    }

    /// Closes the connection like ``close(_:)``, with the reason ``CloseReason/user``.
    @discardableResult
    public nonisolated(nonsending) func close() async -> Int {
        await close(.user)
    }
}

extension TransportError {
    /// The error of a repeated message whose outcome this connection does not know.
    package static let nothingLeft = TransportError(
        .notFound,
        .open,
        "the connection that the message was sent over has ended, and this one knows nothing of it"
    )
}
