import SocketIO
import TransportAPI

/// Subscribes and unsubscribes while a link lives, and reads the messages of each filter apart: one for each room of a chat.
///
///     let client = try MQTTClient(await registry.connect("mqtt://127.0.0.1/?qos=1"))
///     for await message in try await client.subscribe("rooms/+/lunch") { … }
///
/// Like its link it has one life: who connects anew subscribes anew, or lets the URL do it (`subscribe=`), whose messages
/// come here as well, to whoever ``listen(to:)``s. All members may be used from any task.
public final class MQTTClient: Sendable {
    /// The link, for sending, pings and its end. Only this client receives from it.
    public let link: any Link
    private let core: CoreLink
    private let routes: LoopConfined<MQTTRoutes>

    /// Takes over the messages of a link of `mqtt://` or `mqtt+ws://`.
    ///
    /// - Parameter buffer: how many messages a sequence holds; 256 by default. When one holds as many, the link is not read,
    ///   for anybody, until half of them are taken: the broker then keeps or drops what comes.
    /// - Throws: `.unsupported` for a link of another transport.
    public init(_ link: any Link, buffer: Int = 256) throws(TransportError) {
        guard link.capabilities.routesByTopic, let core = link as? CoreLink else {
            throw TransportError(.unsupported, .configure, "this transport has no topics")
        }
        let loop = core.driver.loop
        let routes = LoopConfined(MQTTRoutes(limit: max(1, buffer), on: loop), to: loop)
        (self.link, self.core, self.routes) = (link, core, routes)
        Task(executorPreference: loop) {
            // How the link ended is told by the link.
            while let payload = try? await core.receive() { await routes.value.deliver(payload, routes) }
            routes.value.finish()
        }
        Task(executorPreference: loop) { routes.value.end(await core.closed().endError) }
    }

    deinit {
        // Nobody can listen any more.
        core.driver.loop.execute { [core] in core.driver.value.beginClose(.user) }
    }

    /// The messages of a filter from now on, without asking the broker for any: for filters that the URL subscribes to.
    public nonisolated(nonsending) func listen(to filter: String) async throws(TransportError) -> Subscription<Payload>
    {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        return await onLoop { $0.listen(filter) }
    }

    /// Subscribes, and gives the filter's messages until it is unsubscribed or the link ends. Subscribing again to the same
    /// filter gives another sequence of the same messages, and the new QoS.
    ///
    /// - Parameter qos: the most at which messages shall come; the broker may grant less.
    /// - Throws: `.forbidden` with detail 0x80 if the broker refuses, `.invalidConfiguration` for a malformed filter,
    ///   `.wouldBlock` while 65,535 packets wait for their acknowledgement, `.cancelled`, or what ended the link.
    @discardableResult
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: MQTTQoS = .atLeastOnce
    ) async throws(TransportError) -> Subscription<Payload> {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        let isNew = await onLoop { !$0.has(filter) }
        // What is retained may come before SUBACK.
        let messages = await onLoop { $0.listen(filter) }
        try await subscribe(filter, qos, isNew)
        return messages
    }

    /// As ``subscribe(_:qos:)``, for a callback, which is called on the link's loop and must not block.
    public nonisolated(nonsending) func subscribe(
        _ filter: String,
        qos: MQTTQoS = .atLeastOnce,
        onMessage: @escaping @Sendable (Payload) -> Void
    ) async throws(TransportError) {
        try MQTTCheck.subscriptions([MQTTSubscription(filter)])
        let isNew = await onLoop { !$0.has(filter) }
        await onLoop { $0.call(filter, onMessage) }
        try await subscribe(filter, qos, isNew)
    }

    /// Unsubscribes, and ends the filter's sequences and callbacks.
    ///
    /// - Throws: as ``subscribe(_:qos:)``, but never `.forbidden`: a broker can't refuse.
    public nonisolated(nonsending) func unsubscribe(_ filter: String) async throws(TransportError) {
        _ = try await ask { (core, id, context) throws(TransportError) in
            try core.unsubscribe([filter], id: id, &context)
        }.get()
        await onLoop { $0.remove(filter) }
    }

    /// Publishes; see ``Link/send(_:)``.
    public nonisolated(nonsending) func publish(_ payload: Payload) async -> SendOutcome {
        await link.send(payload)
    }

    /// Says goodbye and ends the link, and with it all sequences.
    public nonisolated(nonsending) func close() async {
        await link.close()
    }

    /// How many messages came that nobody listens to.
    public nonisolated(nonsending) func unclaimed() async -> UInt64 {
        await onLoop { $0.unclaimed }
    }

    // MARK: On the loop

    private nonisolated(nonsending) func subscribe(
        _ filter: String,
        _ qos: MQTTQoS,
        _ isNew: Bool
    ) async throws(TransportError) {
        if isNew { await onLoop { $0.ask(filter) } }
        let answer = await ask { (core, id, context) throws(TransportError) in
            try core.subscribe([MQTTSubscription(filter, qos: qos)], id: id, &context)
        }
        if isNew { await onLoop { $0.answered(filter) } }
        if case .success(let granted) = answer, granted.first != .some(nil) { return }
        if isNew { await onLoop { $0.remove(filter) } }
        _ = try answer.get()
        throw TransportError(.forbidden, .open, "the broker refuses the subscription to '\(filter)'", detail: 0x80)
    }

    private nonisolated(nonsending) func onLoop<Value: Sendable>(
        _ body: @escaping @Sendable (MQTTRoutes) -> Value
    ) async -> Value {
        let routes = routes
        return await withTaskExecutorPreference(routes.loop) { await Self.perform(routes, body) }
    }

    @concurrent
    private static func perform<Value: Sendable>(
        _ routes: LoopConfined<MQTTRoutes>,
        _ body: @Sendable (MQTTRoutes) -> Value
    ) async -> Value {
        body(routes.value)
    }

    /// Writes a packet, and waits for its answer.
    private nonisolated(nonsending) func ask(
        _ write: @escaping @Sendable (inout any TopicCore, UInt64, inout CoreContext) throws(TransportError) -> Void
    ) async -> MQTTRoutes.Answer {
        let (routes, driver) = (routes, core.driver)
        return await withTaskExecutorPreference(routes.loop) { await Self.ask(routes, driver, write) }
    }

    @concurrent
    private static func ask(
        _ routes: LoopConfined<MQTTRoutes>,
        _ driver: LoopConfined<LinkDriver>,
        _ write: @Sendable (inout any TopicCore, UInt64, inout CoreContext) throws(TransportError) -> Void
    ) async -> MQTTRoutes.Answer {
        let id = routes.value.newID()
        do throws(TransportError) {
            driver.value.onSignal = { routes.value.take($0) }
            try driver.value.withTopicCore { (core, context) throws(TransportError) in try write(&core, id, &context) }
        } catch {
            return .failure(error)
        }
        return await suspending(on: routes, #isolation) {
            $0.wait(id, $1)
        } onCancel: {
            $0.cancel(id)
        }
    }
}

extension MQTTSubscription {
    /// Whether messages of `topic` come to this filter (MQTT 3.1.1, section 4.7). Both must be well-formed.
    public func matches(_ topic: String) -> Bool {
        MQTTTopic.matches(filter: filter, topic: topic)
    }
}
