import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Subscribes and unsubscribes, and reads the messages of each filter apart: one for each room of a chat.
///
///     let client = MQTTClient(supervisor)
///     for try await message in try await client.subscribe("rooms/+/lunch") { … }
///
/// Over a supervisor, what is subscribed to stays so, connection after connection: where the broker has begun a new
/// session, each filter is asked for again, and where it has gone on with the former one, what has changed meanwhile.
/// Over a single connection, all ends with that. All members may be used from any task.
public final class MQTTClient: Sendable {
    private enum Carrier: Sendable {
        case connection(any TopicConnection)
        case supervisor(Supervisor)
    }

    private let carrier: Carrier
    private let runtime: any SupervisorRuntime
    private let subscriber: RuntimeBound<MQTTSubscriber>
    private let answers: RuntimeBound<MulticastBuffer<MQTTGrant>>
    /// Gives out messages; waits for the end.
    private let tasks: [Task<Void, Never>]

    /// Takes over the messages of a connection of `mqtt://` or `mqtt+ws://`. Only this client receives from it.
    ///
    /// - Parameter buffer: how many messages a sequence holds; 256 by default. When one holds as many, the connection
    ///   is not read, for anybody, until half of them are taken: the broker then keeps or drops what comes.
    /// - Throws: `.unsupported` for a connection of another transport.
    public init(_ connection: any Connection, buffer: Int = 256) throws(TransportError) {
        guard connection.capabilities.routesByTopic, let core = connection as? any TopicConnection else {
            throw TransportError(.unsupported, .configure, "this transport has no topics")
        }
        let loop = core.driver.loop
        let (subscriber, answers) = Self.make(buffer, isSupervised: false, on: loop)
        (carrier, runtime, self.subscriber, self.answers) = (.connection(core), loop, subscriber, answers)
        Self.run(on: loop) { subscriber.value.linked(core, to: nil) }
        let reading = Task(executorPreference: loop) {
            do throws(TransportError) {
                while let payload = try await core.receive() { await Self.deliver(payload, subscriber) }
                subscriber.value.routes.finish()
            } catch {
                subscriber.value.routes.finish(error)
            }
        }
        let ending = Task(executorPreference: loop) { subscriber.value.end(await core.closed().asError) }
        tasks = [reading, ending]
    }

    /// Takes over the messages of a supervisor, to be made before ``Supervisor/connect()``: one client for a
    /// supervisor. Connections of other transports than MQTT, and of other loops than the supervisor's, carry none of
    /// its subscriptions.
    ///
    /// - Parameter buffer: how many messages a sequence holds; 256 by default. When one holds as many, the supervisor's own
    ///   buffer fills, and then the connection is not read.
    public init(_ supervisor: Supervisor, buffer: Int = 256) {
        let runtime = supervisor.runtime
        let (subscriber, answers) = Self.make(buffer, isSupervised: true, on: runtime)
        (carrier, self.runtime, self.subscriber, self.answers) = (.supervisor(supervisor), runtime, subscriber, answers)
        supervisor.onConnection { connection, endpoint in subscriber.value.linked(connection, to: endpoint) }
        let messages = supervisor.messages
        let reading = Task(executorPreference: runtime.taskExecutor) {
            for await payload in messages { await Self.deliver(payload, subscriber) }
            guard case .closed(let reason) = await supervisor.state() else { return }
            if case .failure(let error) = reason.receiveResult {
                subscriber.value.routes.finish(error)
            } else {
                subscriber.value.routes.finish()
            }
        }
        let ending = Task(executorPreference: runtime.taskExecutor) {
            await supervisor.closed()
            if case .closed(let reason) = await supervisor.state() { subscriber.value.end(reason.asError) }
        }
        tasks = [reading, ending]
    }

    deinit {
        // Nobody can listen any more.
        runtime.execute { [carrier, subscriber, tasks] in
            if case .connection(let core) = carrier { return core.driver.value.beginClose(.user) }
            for task in tasks { task.cancel() }
            subscriber.value.end(.cancelled(.open))
            subscriber.value.routes.finish()
        }
    }

    private static func make(
        _ buffer: Int,
        isSupervised: Bool,
        on runtime: any SupervisorRuntime
    ) -> (RuntimeBound<MQTTSubscriber>, RuntimeBound<MulticastBuffer<MQTTGrant>>) {
        let subscriber = MQTTSubscriber(limit: max(1, buffer), isSupervised: isSupervised, on: runtime)
        let answers = RuntimeBound(subscriber.grants, to: runtime)
        return (RuntimeBound(subscriber, to: runtime), answers)
    }

    // MARK: Filters

    /// The messages of a filter from now on, without asking the broker for any: for filters that the URL subscribes to.
    public nonisolated(nonsending) func listen(to filter: String) async throws(TransportError) -> MQTTMessages {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        return MQTTMessages(
            client: self,
            elements: await subscriber.run(with: filter) { $0.routes.listen($1) }
        )
    }

    /// Subscribes, and gives the filter's messages until it is unsubscribed or the client ends. Waits for the broker's answer,
    /// over a supervisor for the first one that comes, however late; cancelling the task gives the filter up. Subscribing
    /// again to the same filter gives another sequence of the same messages, and the new QoS.
    ///
    /// - Parameter qos: the most at which messages shall come; the broker may grant less, which ``grants`` tells.
    /// - Throws: `.forbidden` with detail 0x80 if the broker refuses, which ends the filter's other sequences too;
    ///   `.invalidConfiguration` for a malformed filter, `.wouldBlock` while 65,535 packets wait for their acknowledgement,
    ///   `.cancelled` also if it was unsubscribed meanwhile, or what ended the connection or the supervisor.
    @discardableResult
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS = .atLeastOnce
    ) async throws(TransportError) -> MQTTMessages {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        // What is retained may come before SUBACK.
        let (isNew, elements) = await subscriber.run(with: filter) {
            (!$0.routes.has($1), $0.routes.listen($1))
        }
        try await ask(filter, qos, isNew: isNew)
        return MQTTMessages(client: self, elements: elements)
    }

    /// As ``subscribe(_:qos:)``, for a callback, which is called on the connection's loop and must not block. That the
    /// broker refuses to go on with it is told by ``grants`` alone.
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS = .atLeastOnce,
        onMessage: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        let isNew = await subscriber.run(with: (filter, onMessage)) {
            let isNew = !$0.routes.has($1.0)
            $0.routes.call($1.0, $1.1)
            return isNew
        }
        try await ask(filter, qos, isNew: isNew)
    }

    /// Unsubscribes, and ends the filter's sequences and callbacks. Over a supervisor without a connection it returns
    /// at once, and the next connection tells the broker, if that still has the subscription.
    ///
    /// - Throws: as ``subscribe(_:qos:)``, but never `.forbidden`: a broker can't refuse.
    public nonisolated(nonsending) func unsubscribe(_ filter: String) async throws(TransportError) {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        try await ask(filter, nil, isNew: false)
    }

    /// What brokers answer to subscriptions from now on, also to those that a new connection has made again. Who falls
    /// 1024 answers behind misses the oldest.
    public var grants: Subscription<MQTTGrant> { Subscription(answers) }

    /// Publishes; see ``Connection/send(_:)`` and ``Supervisor/send(_:)``.
    public nonisolated(nonsending) func publish(_ payload: Payload) async -> SendOutcome {
        switch carrier {
        case .connection(let core): await core.send(payload)
        case .supervisor(let supervisor): await supervisor.send(payload)
        }
    }

    /// Closes the connection or the supervisor, and with it all sequences; returns when the connection is closed, as
    /// ``Connection/close(_:)`` does.
    ///
    /// - Returns: how many bytes were accepted that are not known to have reached the broker; 0 if all did.
    @discardableResult
    public nonisolated(nonsending) func close() async -> Int {
        switch carrier {
        case .connection(let core): await core.close()
        case .supervisor(let supervisor): await supervisor.close()
        }
    }

    /// How many messages came that nobody listens to.
    public nonisolated(nonsending) func unclaimed() async -> UInt64 {
        await subscriber.run(with: ()) { subscriber, _ in subscriber.routes.unclaimed }
    }

    // MARK: On the loop

    private static func run(on loop: EventLoop, _ work: @escaping @Sendable () -> Void) {
        if loop.isCurrent { work() } else { loop.execute(work) }
    }

    /// Gives out a message, as soon as there is room for the next.
    private static func deliver(_ payload: Payload, _ subscriber: RuntimeBound<MQTTSubscriber>) async {
        let routes = subscriber.value.routes
        await routes.deliver(payload, RuntimeBound(routes, to: subscriber.runtime))
    }

    /// Asks for a filter, or without a QoS for its end, and waits for the answer.
    private nonisolated(nonsending) func ask(
        _ filter: String,
        _ qos: Payload.QoS?,
        isNew: Bool
    ) async throws(TransportError) {
        let answer = await subscriber.suspend(
            with: (id: WaitID.next(), filter: filter, qos: qos, isNew: isNew),
            #isolation
        ) {
            $0.request($1.filter, $1.qos, isNew: $1.isNew, $1.id, $2)
        } onCancel: {
            $0.cancel($1.id, for: $1.filter)
        }
        try answer.get()
    }
}

extension MQTTSubscription {
    /// Whether messages of `topic` come to this filter (MQTT 3.1.1, section 4.7). Both must be well-formed.
    public func matches(_ topic: String) -> Bool {
        MQTTTopic.matches(filter: filter, topic: topic)
    }
}
