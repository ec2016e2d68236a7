import Protocols
import TransportAPI

/// Subscribes to topic filters, and has a sequence of messages for each filter, for example for each room of a chat.
///
/// ```swift
/// let client = MQTTClient(supervisor)
/// for try await message in try await client.subscribe("rooms/+/lunch") { … }
/// ```
///
/// Over a supervisor, subscriptions continue over all connections. If the broker has begun a new session, the client
/// subscribes to each filter again. If the broker has resumed the session, the client sends only what has changed. Over
/// a single connection, the subscriptions end with the connection. All members can be called from any task.
public final class MQTTClient: Sendable {
    private let client: TopicClient
    private let answers: RuntimeBound<MulticastBuffer<MQTTGrant>>

    /// Creates a client that takes the messages of a connection of `mqtt://` or `mqtt+ws://`. Only this client receives
    /// from the connection.
    ///
    /// - Parameters:
    ///   - connection: The connection.
    ///   - buffer: The maximum number of messages in the buffer of a sequence. Default 256. If a buffer is full, the
    ///     connection is not read until half of it is free. This affects all sequences, and the broker keeps or drops
    ///     further messages.
    /// - Throws: `.unsupported` for a connection of another transport.
    public init(_ connection: any Connection, buffer: Int = 256) throws(TransportError) {
        let answers = Self.answers
        client = try TopicClient(.mqtt, connection, buffer: buffer) { Self.report($0, to: answers) }
        self.answers = RuntimeBound(answers, to: client.runtime)
    }

    /// Creates a client that takes the messages of a supervisor. Create it before
    /// ``/TransportAPI/Supervisor/connect()``, and create one client for a supervisor. Connections of other transports
    /// than MQTT, and of other loops than the supervisor's, carry no subscriptions.
    ///
    /// - Parameters:
    ///   - supervisor: The supervisor.
    ///   - buffer: The maximum number of messages in the buffer of a sequence. Default 256. If a buffer is full, the
    ///     supervisor's own buffer fills, and then the connection is not read.
    public init(_ supervisor: Supervisor, buffer: Int = 256) {
        let answers = Self.answers
        client = TopicClient(.mqtt, supervisor, buffer: buffer) { Self.report($0, to: answers) }
        self.answers = RuntimeBound(answers, to: client.runtime)
    }

    private static var answers: MulticastBuffer<MQTTGrant> {
        MulticastBuffer(limit: 1024, .dropOldest, keepsBacklog: false)
    }

    private static func report(_ subscriber: TopicSubscriber, to answers: MulticastBuffer<MQTTGrant>) {
        subscriber.onGrant = { answers.send(MQTTGrant(filter: $0, qos: $1)) }
        subscriber.onEnd = { answers.finish() }
    }

    // MARK: Filters

    /// Returns the messages of a filter from now on, without a subscription request. Use it for filters to which the
    /// URL subscribes.
    ///
    /// - Throws: `.invalidConfiguration` for a malformed filter.
    public nonisolated(nonsending) func listen(to filter: String) async throws(TransportError) -> TopicMessages {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        return await client.listen(to: filter)
    }

    /// Subscribes to a filter, and returns its messages until it is unsubscribed or the client ends. Waits for the
    /// broker's answer; over a supervisor for the first answer on any connection. Cancelling the task ends the
    /// subscription. Subscribing again to the same filter returns another sequence of the same messages and sets the
    /// new QoS.
    ///
    /// - Parameters:
    ///   - filter: The topic filter (MQTT 3.1.1, section 4.7).
    ///   - qos: The maximum QoS of received messages. Default ``/TransportAPI/Payload/QoS/atLeastOnce``. The broker can
    ///     grant less, which ``grants`` reports.
    /// - Throws:
    ///   - `.forbidden` with detail 0x80 if the broker refuses. This also ends the filter's other sequences.
    ///   - `.invalidConfiguration` for a malformed filter.
    ///   - `.wouldBlock` while 65,535 packets wait for their acknowledgement.
    ///   - `.cancelled` if the task is cancelled, or if the filter is unsubscribed before the answer.
    ///   - The error that ended the connection or the supervisor.
    @discardableResult
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS = .atLeastOnce
    ) async throws(TransportError) -> TopicMessages {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        return try await client.subscribe(filter, qos: qos)
    }

    /// Subscribes like ``subscribe(_:qos:)``, with a callback instead of a sequence. The callback is called on the
    /// connection's loop and must not block. If the broker refuses the filter later, only ``grants`` reports it.
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS = .atLeastOnce,
        onMessage: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        try await client.subscribe(filter, qos: qos, onMessage: onMessage)
    }

    /// Unsubscribes, and ends the filter's sequences and callbacks. Over a supervisor without a connection it returns
    /// at once, and the next connection sends UNSUBSCRIBE if the broker still has the subscription.
    ///
    /// - Throws: The same errors as ``subscribe(_:qos:)``, except `.forbidden`, because a broker can't refuse.
    public nonisolated(nonsending) func unsubscribe(_ filter: String) async throws(TransportError) {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        try await client.unsubscribe(filter)
    }

    /// The brokers' answers to subscriptions from now on, including subscriptions that a new connection has repeated. A
    /// listener that falls 1024 answers behind misses the oldest.
    public var grants: Subscription<MQTTGrant> { Subscription(answers) }

    /// Publishes a message, like ``/TransportAPI/Connection/send(_:)`` or ``/TransportAPI/Supervisor/send(_:)``.
    public nonisolated(nonsending) func publish(_ payload: Payload) async -> SendOutcome {
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

    // MARK: Messages that match no filter

    /// Says that the app has made all its subscriptions and calls of ``listen(to:)``. Messages that match none of them
    /// then wait no longer: they go to ``unclaimed``, or are acknowledged and dropped. Filters can still be added.
    ///
    /// Until this call, and at most for the option `unclaimed-wait` (30 s by default) from the first of them
    /// on a connection, messages
    /// wait for a filter that matches them. A broker that continues a session sends its messages at once, and an app
    /// makes its subscriptions one after the other. Messages of QoS 1 and 2 of a kept session are not acknowledged
    /// meanwhile. If they fill the supervisor's buffer, or that of a client of a single connection, the connection is
    /// not read until then, so no message is lost.
    public nonisolated(nonsending) func filtersAreComplete() async {
        await client.filtersAreComplete()
    }

    /// The messages that have waited for a filter and were matched by none, from now on. They are acknowledged. The
    /// sequence's buffer is limited like that of a filter. While no sequence of this kind exists, each of these messages
    /// is dropped, a supervisor's observer receives ``/TransportAPI/SupervisorEvent/unclaimed(_:)``, and in a session
    /// that the broker has continued, the client unsubscribes from the message's topic and from the filters with
    /// wildcards that match it, because an earlier process may have subscribed to one of them.
    public var unclaimed: Subscription<Payload> { client.unclaimed }

    /// Returns the number of received messages that matched no filter, without those that wait for one.
    public nonisolated(nonsending) func unclaimedCount() async -> UInt64 {
        await client.unclaimedCount()
    }
}

extension MQTTSubscription {
    /// Returns whether the filter matches `topic` (MQTT 3.1.1, section 4.7). Both must be well-formed.
    public func matches(_ topic: String) -> Bool {
        MQTTTopic.matches(filter: filter, topic: topic)
    }
}
