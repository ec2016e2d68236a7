import Protocols
import TransportAPI

/// Subscribes to destinations, and has a sequence of messages for each of them, for example for each room of a chat.
///
/// ```swift
/// let client = STOMPClient(supervisor)
/// for try await message in try await client.subscribe("/topic/rooms.lunch") { … }
/// ```
///
/// Over a supervisor, subscriptions continue over all connections: the client subscribes to each destination again. STOMP
/// has no sessions, so what was sent to a topic between two connections is lost, unless the broker has queued it. Over a
/// single connection, the subscriptions end with the connection. All members can be called from any task.
public final class STOMPClient: Sendable {
    private let client: TopicClient

    /// Creates a client that takes the messages of a connection of `stomp://` or `stomp+ws://`, or of the same over TLS.
    /// Only this client receives from the connection.
    ///
    /// - Parameters:
    ///   - connection: The connection.
    ///   - buffer: The maximum number of messages in the buffer of a sequence. Default 256. If a buffer is full, the
    ///     connection is not read until half of it is free. This affects all sequences.
    /// - Throws: `.unsupported` for a connection of another transport.
    public init(_ connection: any Connection, buffer: Int = 256) throws(TransportError) {
        client = try TopicClient(.stomp, connection, buffer: buffer)
    }

    /// Creates a client that takes the messages of a supervisor. Create it before
    /// ``/TransportAPI/Supervisor/connect()``, and create one client for a supervisor. Connections of other transports
    /// than STOMP, and of other loops than the supervisor's, carry no subscriptions.
    ///
    /// - Parameters:
    ///   - supervisor: The supervisor.
    ///   - buffer: The maximum number of messages in the buffer of a sequence. Default 256. If a buffer is full, the
    ///     supervisor's own buffer fills, and then the connection is not read.
    public init(_ supervisor: Supervisor, buffer: Int = 256) {
        client = TopicClient(.stomp, supervisor, buffer: buffer)
    }

    // MARK: Destinations

    /// Returns the messages of a destination from now on, without a subscription request. Use it for destinations to which
    /// the URL subscribes.
    ///
    /// - Throws: `.invalidConfiguration` for a destination that cannot be written.
    public nonisolated(nonsending) func listen(to destination: String) async throws(TransportError) -> TopicMessages {
        try Self.check(destination)
        return await client.listen(to: destination)
    }

    /// Subscribes to a destination, and returns its messages until it is unsubscribed or the client ends. Waits for the
    /// broker's receipt; over a supervisor for the first one on any connection. From a broker that gives none (the option
    /// `subscribe-receipt`), it returns when the frame is written. Cancelling the task ends the subscription. Subscribing
    /// again to the same destination returns another sequence of the same messages.
    ///
    /// Wildcards and the kinds of destinations depend on the broker. A message belongs to the subscription that the broker
    /// names, whatever its own destination is. The option `ack` of the URL says how messages are acknowledged.
    ///
    /// - Throws:
    ///   - `.forbidden` if the broker refuses, and gives receipts. This also ends the destination's other sequences. The broker ends the
    ///     connection too; a supervisor opens the next one without this destination.
    ///   - `.invalidConfiguration` for a destination that cannot be written.
    ///   - `.wouldBlock` while there are 1,024 subscriptions.
    ///   - `.cancelled` if the task is cancelled, or if the destination is unsubscribed before the receipt.
    ///   - The error that ended the connection or the supervisor.
    @discardableResult
    public nonisolated(nonsending) func subscribe(
        _ destination: String
    ) async throws(TransportError) -> TopicMessages {
        try Self.check(destination)
        return try await client.subscribe(destination, qos: .atLeastOnce)
    }

    /// Subscribes like ``subscribe(_:)``, with a callback instead of a sequence. The callback is called on the
    /// connection's loop and must not block.
    public nonisolated(nonsending) func subscribe(
        _ destination: String,
        onMessage: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) {
        try Self.check(destination)
        try await client.subscribe(destination, qos: .atLeastOnce, onMessage: onMessage)
    }

    /// Unsubscribes, and ends the destination's sequences and callbacks. Over a supervisor without a connection it returns
    /// at once.
    ///
    /// - Throws: The same errors as ``subscribe(_:)``, except `.forbidden`.
    public nonisolated(nonsending) func unsubscribe(_ destination: String) async throws(TransportError) {
        try Self.check(destination)
        try await client.unsubscribe(destination)
    }

    /// Sends a message to the destination that is its topic, like ``/TransportAPI/Connection/send(_:)`` or
    /// ``/TransportAPI/Supervisor/send(_:)``. At ``/TransportAPI/Payload/QoS/atLeastOnce`` the outcome is
    /// ``/TransportAPI/SendOutcome/acknowledged`` on the broker's receipt.
    public nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        await client.send(payload)
    }

    /// Closes the connection or the supervisor, and ends all sequences. Returns when the connection is closed, as
    /// ``/TransportAPI/Connection/close(_:)`` does.
    ///
    /// - Returns: The number of accepted bytes that are not known to have reached the broker; 0 if all did.
    @discardableResult
    public nonisolated(nonsending) func close() async -> Int {
        await client.close()
    }

    // MARK: Messages without a listener

    /// Says that the app has made all its calls of ``listen(to:)``. Messages of the URL's subscriptions without a listener
    /// then wait no longer: they go to ``unclaimed``, or are acknowledged and dropped. Until this call, and at most for the
    /// option `unclaimed-wait` (30 s by default), they wait.
    public nonisolated(nonsending) func listenersAreComplete() async {
        await client.filtersAreComplete()
    }

    /// The messages that have waited for a listener and got none, from now on. They are acknowledged. While no sequence of
    /// this kind exists, each of these messages is dropped, and a supervisor's observer receives
    /// ``/TransportAPI/SupervisorEvent/unclaimed(_:)``.
    public var unclaimed: Subscription<Payload> { client.unclaimed }

    /// Returns the number of received messages that had no listener, without those that wait for one.
    public nonisolated(nonsending) func unclaimedCount() async -> UInt64 {
        await client.unclaimedCount()
    }

    private static func check(_ destination: String) throws(TransportError) {
        try STOMPConfiguration.check(destination: destination)
    }
}
