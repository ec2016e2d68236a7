import Primitives
import Protocols
import SocketIO
import TransportAPI

/// What the clients of all protocols with topics share: the app's subscriptions over one connection after the other, and a
/// sequence of messages for each of them. ``MQTTClient`` and ``STOMPClient`` check what their protocols demand.
final class TopicClient: Sendable {
    private enum Carrier: Sendable {
        case connection(CoreConnection)
        case supervisor(Supervisor)
    }

    private let carrier: Carrier
    let runtime: any SupervisorRuntime
    private let subscriber: RuntimeBound<TopicSubscriber>
    private let unmatched: RuntimeBound<MulticastBuffer<Payload>>
    /// The tasks that pass on messages and wait for the end.
    private let tasks: [Task<Void, Never>]

    /// Creates a client that takes the messages of a connection.
    ///
    /// - Parameter prepare: Called with the subscriber on the loop before anything else.
    /// - Throws: `.unsupported` for a connection of another protocol.
    init(
        _ spoken: SubscriptionProtocol,
        _ connection: any Connection,
        buffer: Int,
        prepare: (TopicSubscriber) -> Void = { _ in }
    ) throws(TransportError) {
        guard let core = connection as? CoreConnection, core.subscriptions == spoken else {
            throw TransportError(.unsupported, .configure, "this connection has no subscriptions of this protocol")
        }
        let loop = core.driver.loop
        let (subscriber, unmatched) = Self.make(spoken, buffer, isSupervised: false, on: loop, prepare) { _ in }
        (carrier, runtime, self.subscriber, self.unmatched) = (.connection(core), loop, subscriber, unmatched)
        Self.run(on: loop) { subscriber.value.linked(core, to: nil) }
        let reading = Task(executorPreference: loop) {
            do throws(TransportError) {
                while let payload = try await core.receive() {
                    if subscriber.value.takes(payload) {
                        await Self.deliver(payload, subscriber)
                    } else {
                        await subscriber.value.routes.waitForRoom(Self.routes(of: subscriber))
                    }
                }
                subscriber.value.routes.finish()
            } catch {
                subscriber.value.routes.finish(error)
            }
        }
        let ending = Task(executorPreference: loop) { subscriber.value.end(await core.closed().asError) }
        tasks = [reading, ending]
    }

    /// Creates a client that takes the messages of a supervisor. Connections of other protocols, and of other loops than
    /// the supervisor's, carry no subscriptions.
    init(
        _ spoken: SubscriptionProtocol,
        _ supervisor: Supervisor,
        buffer: Int,
        prepare: (TopicSubscriber) -> Void = { _ in }
    ) {
        let runtime = supervisor.runtime
        let (subscriber, unmatched) = Self.make(spoken, buffer, isSupervised: true, on: runtime, prepare) {
            [weak supervisor] in supervisor?.report(.unclaimed($0))
        }
        (carrier, self.runtime) = (.supervisor(supervisor), runtime)
        (self.subscriber, self.unmatched) = (subscriber, unmatched)
        supervisor.onConnection { connection, endpoint in subscriber.value.linked(connection, to: endpoint) }
        supervisor.claim(as: .topics) { subscriber.value.claims($0, $1) }
        supervisor.makeReceipts()
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
        // No caller can listen any more.
        runtime.execute { [carrier, subscriber, tasks] in
            guard case .supervisor(let supervisor) = carrier else {
                if case .connection(let core) = carrier { core.driver.value.beginClose(.user) }
                return
            }
            for task in tasks { task.cancel() }
            supervisor.claim(as: .topics, nil)
            for message in subscriber.value.takeWaiting() {
                if case .receipt(let received, _) = message.acknowledgement {
                    supervisor.giveBack(message.payload, received)
                } else {
                    supervisor.giveBack(message.payload, nil)
                }
            }
            subscriber.value.end(.cancelled(.open))
            subscriber.value.routes.finish()
        }
    }

    private static func make(
        _ spoken: SubscriptionProtocol,
        _ buffer: Int,
        isSupervised: Bool,
        on runtime: any SupervisorRuntime,
        _ prepare: (TopicSubscriber) -> Void,
        report: @escaping @Sendable (DiscardedMessage) -> Void
    ) -> (RuntimeBound<TopicSubscriber>, RuntimeBound<MulticastBuffer<Payload>>) {
        let subscriber = TopicSubscriber(
            spoken,
            limit: max(1, buffer),
            isSupervised: isSupervised,
            on: runtime,
            report: report
        )
        prepare(subscriber)
        let unmatched = RuntimeBound(subscriber.routes.unclaimed, to: runtime)
        return (RuntimeBound(subscriber, to: runtime), unmatched)
    }

    // MARK: Filters

    /// Returns the messages of a filter from now on, without a subscription request.
    nonisolated(nonsending) func listen(to filter: String) async -> TopicMessages {
        TopicMessages(client: self, elements: await subscriber.run(with: filter) { $0.routes.listen($1) })
    }

    /// Subscribes to a filter, and returns its messages once the broker has answered.
    nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS
    ) async throws(TransportError) -> TopicMessages {
        // Messages can arrive before the answer.
        let (isNew, elements) = await subscriber.run(with: filter) {
            (!$0.routes.has($1), $0.routes.listen($1))
        }
        try await ask(filter, qos, isNew: isNew)
        return TopicMessages(client: self, elements: elements)
    }

    /// Subscribes with a callback instead of a sequence.
    nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: Payload.QoS,
        onMessage: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) {
        let isNew = await subscriber.run(with: (filter, onMessage)) {
            let isNew = !$0.routes.has($1.0)
            $0.routes.call($1.0, $1.1)
            return isNew
        }
        try await ask(filter, qos, isNew: isNew)
    }

    /// Unsubscribes, and ends the filter's sequences and callbacks.
    nonisolated(nonsending) func unsubscribe(_ filter: String) async throws(TransportError) {
        try await ask(filter, nil, isNew: false)
    }

    /// Sends a message over the connection or the supervisor.
    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        switch carrier {
        case .connection(let core): await core.send(payload)
        case .supervisor(let supervisor): await supervisor.send(payload)
        }
    }

    /// Closes the connection or the supervisor, and ends all sequences.
    nonisolated(nonsending) func close() async -> Int {
        switch carrier {
        case .connection(let core): await core.close()
        case .supervisor(let supervisor): await supervisor.close()
        }
    }

    // MARK: Messages that match no filter

    /// Notes that the app has made all its subscriptions.
    nonisolated(nonsending) func filtersAreComplete() async {
        await subscriber.run(with: ()) { subscriber, _ in subscriber.routes.complete() }
    }

    /// The messages that no filter has matched in time.
    var unclaimed: Subscription<Payload> { Subscription(unmatched) }

    /// How many messages no filter has matched.
    nonisolated(nonsending) func unclaimedCount() async -> UInt64 {
        await subscriber.run(with: ()) { subscriber, _ in subscriber.routes.unclaimedCount }
    }

    // MARK: On the loop

    private static func run(on loop: EventLoop, _ work: @escaping @Sendable () -> Void) {
        if loop.isCurrent { work() } else { loop.execute(work) }
    }

    /// Passes on a message, and waits until there is room for the next.
    private static func deliver(_ payload: Payload, _ subscriber: RuntimeBound<TopicSubscriber>) async {
        await subscriber.value.routes.deliver(payload, routes(of: subscriber))
    }

    private static func routes(
        of subscriber: RuntimeBound<TopicSubscriber>
    ) -> RuntimeBound<SubscriptionRouter> {
        RuntimeBound(subscriber.value.routes, to: subscriber.runtime)
    }

    /// Requests a subscription, or its end if `qos` is `nil`, and waits for the answer.
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
