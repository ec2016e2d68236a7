import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A small MQTT 3.1.1 broker: QoS 0 to 2, wildcards, keep alive, retained messages, wills, and sessions that outlive their
/// connections, all in memory. Lives on its loop, and so do all its clients, so that routing a message is a plain loop over its
/// subscribers.
final class Broker: ConnectionHandler {
    /// A client with a connection.
    struct Client {
        let driver: ConnectionDriver
        /// What is published if the connection ends without DISCONNECT.
        var will: MQTTWill?
    }

    let loop: EventLoop
    /// Every session that is known, by its number; those that outlive their connections may be without one.
    var core: BrokerCore
    let kept: MQTTSessions
    var sessions: [UInt64: MQTTSession] = [:]
    var clients: [UInt64: Client] = [:]
    var identifiers: [ObjectIdentifier: UInt64] = [:]
    var retained: RetainedMessages
    /// What subscribers have still to get of what is retained.
    var retainedDeliveries: [UInt64: RetainedDelivery] = [:]
    let limits: BrokerLimits
    var deliveries: [BrokerCore.Delivery] = []
    /// How many have got the message just taken, and what it led to.
    var routed = 0
    var encoded = ByteBuffer()
    var isRouting = false
    /// What came up while a message was being routed: a will for each client at most.
    var unrouted: [MQTTPublish] = []
    /// Messages that a subscriber was too slow for, and those that there was no room for.
    var dropped: UInt64 = 0
    /// Shown each message that is taken.
    let tap: (@Sendable (Payload) -> Void)?

    init(
        _ routing: BrokerCore.Limits,
        _ kept: MQTTSessions,
        _ limits: BrokerLimits,
        on loop: EventLoop,
        _ tap: (@Sendable (Payload) -> Void)?
    ) {
        core = BrokerCore(limits: routing)
        self.kept = kept
        self.limits = limits
        self.tap = tap
        self.loop = loop
        retained = RetainedMessages(maximumCount: limits.retainedMessages, maximumBytes: limits.retainedBytes)
    }

    /// Starts a broker at `endpoint`, which lets in whom `authenticate` accepts; everybody by default.
    nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        _ readOptions: BrokerOptions.Read,
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> (listener: any Listener, broker: LoopBound<Broker>) {
        let kept = MQTTSessions(
            maximumKept: limits.keptSessions,
            expiry: limits.sessionExpiry,
            queuedMessages: limits.queuedMessages,
            queuedBytes: limits.queuedBytes
        )
        var options = try readOptions(endpoint) {
            $0.sessions = kept
            if let authenticate {
                $0.authentication = { authenticate(BrokerCredentials($0, peer: $1)).code }
            }
        }
        if !endpoint.options.contains(where: { $0.name == "write-buffer" }) {
            options.connections.writeBuffer = limits.queuedBytes
        }
        let filterLevels = try limits.checkedFilterLevels()
        options.routing.maximumFilterLevels = options.filterLevels ?? filterLevels
        options.routing.maximumNodesPerSession = limits.filterLevelsPerSession
        options.routing.maximumNodes = limits.filterNodes
        options.routing.maximumWildNodes = limits.wildFilterNodes
        let (connections, bounds, makeCore) = (options.connections, options.bounds, options.makeCore)
        let broker = LoopBound(Broker(options.routing, kept, limits, on: loop, tap), to: loop)
        var serving = Serving.handle { Echo() }
        serving.observer = observer
        let listener = try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
            (address, queue) throws(SystemError) in
            try StreamAcceptor(
                address,
                queue,
                on: loop,
                limits: connections,
                bounds: bounds,
                handler: broker.value,
                makeCore: makeCore
            )
        }
        return (listener, broker)
    }

    var now: Instant { Instant(nanoseconds: loop.now) }

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        guard case .signal(let any) = event, let signal = any.mqtt else { return }
        if case .connected(let connect) = signal { return add(driver, connect) }
        // A client whose identifier was taken over is no longer listened to.
        guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
        switch signal {
        case .published(let publish):
            routed = 0
            take(publish)
            if routed >= 8 { driver.noteMuchWork() }
        case .subscribed(let packetID, let subscriptions):
            subscribe(identifier, packetID, subscriptions, driver)
            driver.noteMuchWork()
        case .unsubscribed(let packetID, let filters):
            unsubscribe(identifier, packetID, filters, driver)
            driver.noteMuchWork()
        case .connected, .subscribeAnswered, .unsubscribeAnswered: break
        }
    }

    func roomMade(_ driver: ConnectionDriver) {
        guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
        retainedDeliveries[identifier]?.deferRest()
    }

    func ended(_ driver: ConnectionDriver, _ reason: CloseReason) {
        guard let identifier = identifiers.removeValue(forKey: ObjectIdentifier(driver)),
            let client = clients.removeValue(forKey: identifier)
        else { return leaveUnknown(driver) }
        leave(identifier, driver)
        // DISCONNECT takes the will back (MQTT-3.1.2-10), and who stops the broker means nobody's.
        if reason.error != nil, let will = client.will { publish(will) }
    }

    /// What it has to do with at this moment.
    var statistics: BrokerStatistics {
        BrokerStatistics(
            connections: clients.count,
            sessions: sessions.count,
            subscriptions: core.subscriptionCount,
            retainedMessages: retained.count,
            retainedBytes: retained.bytes,
            pendingRetained: retainedDeliveries.count,
            queuedBytes: kept.quota.bytes,
            dropped: dropped
        )
    }
}

// From publishers to subscribers.
extension Broker {
    /// Takes a message from a client: shows it, keeps it if it is to be retained, and hands it on.
    func take(_ publish: MQTTPublish) {
        tap?(Payload(publish.payload, topic: publish.topic, qos: publish.qos, isRetained: publish.retain))
        if publish.retain, !retained.keep(publish) { dropped += 1 }
        kept.expire(now)
        endForgotten()
        // Sending may end a connection, whose will is then to be routed too.
        guard !isRouting else { return unrouted.append(publish) }
        isRouting = true
        route(publish)
        while !unrouted.isEmpty { route(unrouted.removeFirst()) }
        isRouting = false
    }

    /// Publishes the will of a client that is gone (MQTT-3.1.2-8).
    func publish(_ will: MQTTWill) {
        var publish = MQTTPublish(topic: will.topic, payload: will.payload)
        publish.qos = will.qos
        publish.retain = will.retain
        take(publish)
    }

    private func route(_ message: MQTTPublish) {
        core.route(topic: message.topic, qos: message.qos, into: &deliveries)
        routed += deliveries.count
        guard !deliveries.isEmpty else { return }
        // Who has subscribed already gets it as a fresh message (MQTT-3.3.1-9), and not as a repeated one (MQTT-3.3.1-3).
        var publish = message
        publish.retain = false
        publish.isDuplicate = false
        encoded.removeAll()
        for index in deliveries.indices {
            publish.qos = deliveries[index].qos
            send(publish, to: deliveries[index].session)
        }
    }

    private func send(_ publish: MQTTPublish, to identifier: UInt64) {
        switch publish.qos {
        case .atMostOnce: sendOnce(publish, to: identifier)
        case .atLeastOnce, .exactlyOnce: sendConfirmed(publish, to: identifier)
        }
    }

    /// QoS 0: the packet is the same for all subscribers, and is encoded once. Nobody who is away gets it.
    private func sendOnce(_ publish: MQTTPublish, to identifier: UInt64) {
        guard let client = clients[identifier] else { return }
        guard client.driver.hasRoom else { return overflowed(identifier) }
        if encoded.isEmpty {
            do throws(TransportError) {
                let (topic, retain) = (publish.topic, publish.retain)
                try MQTTCore.encode(topic: topic, payload: publish.payload, retain: retain, into: &encoded)
            } catch {
                // It came in a packet that was checked as this one is.
                dropped += 1
                return
            }
        }
        encoded.withUnsafeReadableBytes { client.driver.sendEncoded($0) }
    }

    /// QoS 1 and 2: by way of the session, which keeps it for a client that is away or has its window full.
    private func sendConfirmed(_ publish: MQTTPublish, to identifier: UInt64) {
        // The session itself may be the one that has to make room.
        guard makeRoom(for: publish), let session = sessions[identifier] else {
            dropped += 1
            return
        }
        let isLinked = clients[identifier] != nil
        if !session.outbox.append(publish, mayPass: isLinked && session.outbox.count == 0) {
            overflowed(identifier)
            let count = session.outbox.count
            guard limits.whenQueueFull == .dropOldest, session.outbox.replaceOldest(by: publish, mayPass: isLinked)
            else {
                return
            }
            dropped += UInt64(count - session.outbox.count)
        }
        clients[identifier]?.driver.sendOutbox()
    }

    /// Whether a message may be kept once more. Where all keep too much, sessions without connections end, the one that
    /// keeps most first; then those with connections, in the same order.
    private func makeRoom(for publish: MQTTPublish) -> Bool {
        let most = limits.maximumQueuedBytes
        if kept.quota.bytes + publish.keptBytes <= most { return true }
        guard publish.keptBytes <= most else { return false }
        while kept.quota.bytes + kept.quota.cost(of: publish) > most {
            if kept.forgetLargest() {
                endForgotten()
                continue
            }
            guard let largest = sessions.values.max(by: { $0.keptBytes < $1.keptBytes }), largest.keptBytes > 0,
                let driver = clients[largest.id]?.driver
            else { return false }
            let sentence =
                "more than \(most) bytes wait for all subscribers, and most for this one"
            driver.endNow(CloseReason(TransportError(.resourcesExhausted, .open, sentence)))
        }
        return true
    }

    /// A message finds the queue of a subscriber full.
    private func overflowed(_ identifier: UInt64) {
        dropped += 1
        guard limits.whenQueueFull == .disconnect, let client = clients[identifier] else { return }
        let error = TransportError(.bufferFull, .open, "the subscriber reads too slowly")
        client.driver.endNow(CloseReason(error))
    }
}

// Who is there, who is remembered, and what they subscribe to.
extension Broker {
    private static let takenOver = CloseReason(
        TransportError(.closedByPeer, .open, "another client took over this client identifier")
    )

    /// Gives a client that was let in its session; who had it before loses the connection (MQTT-3.1.4-2).
    func add(_ driver: ConnectionDriver, _ connect: MQTTConnect) {
        endForgotten()
        guard let session = driver.liveSession else { return driver.endNow(Self.takenOver) }
        if let former = clients[session.id] { takeOver(session.id, former) }
        if sessions[session.id] == nil {
            do throws(TransportError) {
                if let former = try core.connect(session.id, clientID: session.name) { end(former) }
            } catch {
                return driver.endNow(CloseReason(error))
            }
            sessions[session.id] = session
        }
        identifiers[ObjectIdentifier(driver)] = session.id
        clients[session.id] = Client(driver: driver, will: connect.will)
        retainedDeliveries[session.id]?.deferRest()
    }

    /// The connection of a session has ended; the session has too, if it is a clean one.
    func leave(_ identifier: UInt64, _ driver: ConnectionDriver) {
        guard let session = sessions[identifier] else { return }
        if session.isClean {
            forget(identifier)
        } else if driver.liveSession === session {
            kept.left(session, now: now)
        }
    }

    /// A connection that the broker has not heard of, or no longer listens to, has ended.
    func leaveUnknown(_ driver: ConnectionDriver) {
        guard let session = driver.liveSession else { return }
        if let former = clients[session.id] { takeOver(session.id, former) }
        kept.left(session, now: now)
    }

    /// Ends the sessions that are not kept any longer.
    func endForgotten() {
        for identifier in kept.takeForgotten() { end(identifier) }
    }

    private func forget(_ identifier: UInt64) {
        core.disconnect(identifier)
        if core.clear(atMost: 0) { loop.add(FilterClearing(self), to: .deferred) }
        sessions.removeValue(forKey: identifier)?.end()
        retainedDeliveries[identifier] = nil
    }

    /// Ends a session, whose connection goes with it.
    private func end(_ identifier: UInt64) {
        forget(identifier)
        if let client = clients[identifier] { takeOver(identifier, client) }
    }

    /// Ends the connection of a client whose identifier another uses: without DISCONNECT, so that its will is published.
    private func takeOver(_ identifier: UInt64, _ client: Client) {
        clients[identifier] = nil
        identifiers[ObjectIdentifier(client.driver)] = nil
        client.driver.endNow(Self.takenOver)
        if let will = client.will { publish(will) }
    }

    // MARK: Subscriptions

    /// How many filters of sessions that are gone make room for one at most.
    private static let clearedForRoom = 64

    /// Notes what a client subscribes to, answers, and gives it what is retained there (MQTT-3.3.1-6).
    func subscribe(
        _ identifier: UInt64,
        _ packetID: UInt16,
        _ subscriptions: [MQTTSubscription],
        _ driver: ConnectionDriver
    ) {
        var granted: [MQTTQoS?] = []
        var cleared = 0
        let isWanted = { [self] in clients[identifier]?.driver === driver }
        SubscribeJob.begin(subscriptions.count, of: driver, while: isWanted) { [self] index in
            let subscription = subscriptions[index]
            let qos = core.subscribe(identifier, to: subscription.filter, qos: subscription.qos)
            if qos == nil, cleared < Self.clearedForRoom,
                core.makeRoom(for: subscription.filter, of: identifier)
            {
                cleared += 1
                return false
            }
            cleared = 0
            granted.append(qos)
            guard let qos, retained.count > 0 else { return true }
            let delivery = retainedDeliveries[identifier] ?? RetainedDelivery(identifier, self)
            retainedDeliveries[identifier] = delivery
            delivery.add(Array(subscription.filter.utf8), qos: qos, newest: retained.newest)
            return true
        } end: { [self] in
            driver.grant(packetID, granted)
            retainedDeliveries[identifier]?.goOn()
        }
    }

    /// Forgets what a client no longer subscribes to, and then says so (MQTT-3.10.4-2).
    func unsubscribe(_ identifier: UInt64, _ packetID: UInt16, _ filters: [String], _ driver: ConnectionDriver) {
        let isWanted = { [self] in clients[identifier]?.driver === driver }
        SubscribeJob.begin(filters.count, of: driver, while: isWanted) { [self] index in
            core.unsubscribe(identifier, from: filters[index])
            retainedDeliveries[identifier]?.remove(Array(filters[index].utf8))
            return true
        } end: {
            driver.confirmUnsubscribe(packetID)
        }
    }
}
