import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A small MQTT 3.1.1 broker: QoS 0 to 2, wildcards, keep alive, retained messages, wills, and sessions that outlive
/// their connections. All state is in memory. The broker and all its clients are on one loop, so a message is routed by
/// iterating over its subscribers.
final class Broker: ConnectionHandler {
    /// A client with a connection.
    struct Client {
        let driver: ConnectionDriver
        /// The message to publish if the connection ends without DISCONNECT.
        var will: MQTTWill?
    }

    let loop: EventLoop
    /// All sessions by number. Those that outlive their connections may have none.
    var core: BrokerCore
    let kept: MQTTSessions
    var sessions: [UInt64: MQTTSession] = [:]
    var clients: [UInt64: Client] = [:]
    var identifiers: [ObjectIdentifier: UInt64] = [:]
    var retained: RetainedMessages<MQTTTopic, MQTTPublish>
    /// The retained messages that subscribers have not received yet.
    var retainedDeliveries: [UInt64: RetainedDelivery] = [:]
    let limits: BrokerLimits
    var deliveries: [BrokerCore.Delivery] = []
    /// To how many subscribers the last message went, including the wills that were published because of it.
    var routed = 0
    var encoded = ByteBuffer()
    var isRouting = false
    /// Messages to route after the current one: the will of each client at most.
    var unrouted = Deque<MQTTPublish>()
    /// Messages for which a subscriber was too slow or there was no room.
    var dropped: UInt64 = 0
    /// Called with each message that is received.
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
        retained = .init(maximumCount: limits.retainedMessages, maximumBytes: limits.retainedBytes)
    }

    /// Starts a broker at `endpoint`. `authenticate` decides about each client. By default, all are accepted.
    nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        _ readSettings: BrokerSettings<MQTTServerSettings>.Read,
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> (listener: any Listener, broker: LoopBound<Broker>) {
        try limits.check()
        let kept = MQTTSessions(
            maximumKept: limits.keptSessions,
            expiry: limits.sessionExpiry,
            queuedMessages: limits.queuedMessages,
            queuedBytes: limits.queuedBytes
        )
        let read = try readSettings(endpoint) { settings in
            settings.own.configuration.sessions = kept
            if let authenticate {
                settings.own.configuration.authentication = {
                    authenticate(BrokerCredentials($0, peer: $1, certificate: $2)).code
                }
            }
            settings.limits.writeBuffer = limits.queuedBytes
            settings.own.routing.maximumFilterLevels = limits.filterLevels
            settings.own.routing.maximumNodesPerSession = limits.filterLevelsPerSession
            settings.own.routing.maximumNodes = limits.filterNodes
            settings.own.routing.maximumWildNodes = limits.wildFilterNodes
        }
        let (settings, makeCore) = (read.settings, read.makeCore)
        let tls = try await read.loadTLS(on: loop)
        let broker = LoopBound(Broker(settings.own.routing, kept, limits, on: loop, tap), to: loop)
        var serving = Serving.handle { Echo() }
        serving.observer = observer
        let listener = try await CoreListener.listen(at: endpoint, on: loop, serving: serving) {
            (address, queue) throws(SystemError) in
            try StreamAcceptor(
                address,
                queue,
                on: loop,
                limits: settings.limits,
                bounds: settings.bounds,
                tls: tls?.value,
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
        // A client whose identifier was taken over is ignored.
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
        case .connected: break
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
        // DISCONNECT discards the will (MQTT-3.1.2-10). When the broker stops, no will is published.
        if reason.error != nil, let will = client.will { publish(will) }
    }

    /// The current statistics.
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

// Routing from publishers to subscribers.
extension Broker {
    /// Receives a message from a client: passes it to the tap, retains it if requested, and routes it.
    func take(_ publish: MQTTPublish) {
        tap?(Payload(publish.payload, topic: publish.topic, qos: publish.qos, isRetained: publish.retain))
        if publish.retain, !retained.keep(publish) { dropped += 1 }
        kept.expire(now)
        endForgotten()
        // Sending may end a connection, whose will must then be routed too.
        guard !isRouting else { return unrouted.append(publish) }
        isRouting = true
        route(publish)
        while let next = unrouted.popFirst() { route(next) }
        isRouting = false
    }

    /// Publishes the will of a client whose connection has ended (MQTT-3.1.2-8).
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
        // An existing subscriber receives it as a new message (MQTT-3.3.1-9), not as a repetition (MQTT-3.3.1-3).
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

    /// Sends at QoS 0. The packet is the same for all subscribers and is encoded once. Clients without a connection do
    /// not receive it.
    private func sendOnce(_ publish: MQTTPublish, to identifier: UInt64) {
        guard let client = clients[identifier] else { return }
        guard client.driver.hasRoom else { return overflowed(identifier) }
        if encoded.isEmpty {
            do throws(TransportError) {
                let (topic, retain) = (publish.topic, publish.retain)
                try MQTTServerCore.encode(topic: topic, payload: publish.payload, retain: retain, into: &encoded)
            } catch {
                // The topic arrived in a packet that passed the same checks.
                dropped += 1
                return
            }
        }
        encoded.withUnsafeReadableBytes { client.driver.sendEncoded($0) }
    }

    /// Sends at QoS 1 and 2 through the session, which stores the message if the client has no connection or its window
    /// is full.
    private func sendConfirmed(_ publish: MQTTPublish, to identifier: UInt64) {
        // Making room may have ended this session.
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

    /// Returns whether there is room for one more message. If all sessions together buffer too much, sessions end until
    /// there is room. First come those without a connection, then those with one, the session with the most bytes
    /// first.
    private func makeRoom(for publish: MQTTPublish) -> Bool {
        let most = limits.maximumQueuedBytes
        if kept.quota.bytes + publish.bufferedBytes <= most { return true }
        guard publish.bufferedBytes <= most else { return false }
        while kept.quota.bytes + kept.quota.cost(of: publish) > most {
            if kept.forgetLargest() {
                endForgotten()
                continue
            }
            guard let largest = sessions.values.max(by: { $0.bufferedBytes < $1.bufferedBytes }),
                largest.bufferedBytes > 0,
                let driver = clients[largest.id]?.driver
            else { return false }
            let sentence =
                "more than \(most) bytes are buffered for all subscribers, most of them for this one"
            driver.endNow(CloseReason(TransportError(.resourcesExhausted, .open, sentence)))
        }
        return true
    }

    /// Handles a message for a subscriber whose queue is full.
    private func overflowed(_ identifier: UInt64) {
        dropped += 1
        guard limits.whenQueueFull == .disconnect, let client = clients[identifier] else { return }
        let error = TransportError(.bufferFull, .open, "the subscriber reads too slowly")
        client.driver.endNow(CloseReason(error))
    }
}

// Clients, sessions and subscriptions.
extension Broker {
    private static func takenOver(_ name: some Collection<UInt8>) -> CloseReason {
        let sentence = "another client took over this client identifier, '\(String(excerptOf: name))'"
        return CloseReason(TransportError(.closedByPeer, .open, sentence))
    }

    /// Assigns its session to an accepted client. An earlier connection of that session is closed (MQTT-3.1.4-2).
    func add(_ driver: ConnectionDriver, _ connect: MQTTConnect) {
        endForgotten()
        guard let session = driver.liveSession else { return driver.endNow(Self.takenOver(connect.clientID.utf8)) }
        if let former = clients[session.id] { takeOver(session.id, former, session.name) }
        if sessions[session.id] == nil {
            do throws(TransportError) {
                if let former = try core.connect(session.id, clientID: session.name) { end(former) }
            } catch {
                return driver.endNow(CloseReason(error))
            }
            sessions[session.id] = session
        }
        core.note(session.id, isAbsent: false)
        identifiers[ObjectIdentifier(driver)] = session.id
        clients[session.id] = Client(driver: driver, will: connect.will)
        retainedDeliveries[session.id]?.deferRest()
    }

    /// Handles the end of a session's connection. A clean session ends too.
    func leave(_ identifier: UInt64, _ driver: ConnectionDriver) {
        guard let session = sessions[identifier] else { return }
        if session.isClean {
            forget(identifier)
        } else if driver.liveSession === session {
            core.note(identifier, isAbsent: true)
            kept.left(session, now: now)
        }
    }

    /// Handles the end of a connection that the broker has not added, or that was taken over.
    func leaveUnknown(_ driver: ConnectionDriver) {
        guard let session = driver.liveSession else { return }
        if let former = clients[session.id] { takeOver(session.id, former, session.name) }
        kept.left(session, now: now)
    }

    /// Ends the sessions that are no longer stored.
    func endForgotten() {
        for identifier in kept.takeForgotten() { end(identifier) }
    }

    private func forget(_ identifier: UInt64) {
        core.disconnect(identifier)
        if core.clear(atMost: 0) { loop.add(FilterClearing(self), to: .deferred) }
        sessions.removeValue(forKey: identifier)?.end()
        retainedDeliveries[identifier] = nil
    }

    /// Ends a session and its connection.
    private func end(_ identifier: UInt64) {
        let name = sessions[identifier]?.name ?? []
        forget(identifier)
        if let client = clients[identifier] { takeOver(identifier, client, name) }
    }

    /// Ends the connection of a client whose identifier another client uses. It does so without DISCONNECT, so the will
    /// is published.
    private func takeOver(_ identifier: UInt64, _ client: Client, _ name: [UInt8]) {
        clients[identifier] = nil
        identifiers[ObjectIdentifier(client.driver)] = nil
        client.driver.endNow(Self.takenOver(name))
        if let will = client.will { publish(will) }
    }

    // MARK: Subscriptions

    /// How many times filters of ended sessions are removed at most to make room for one filter.
    private static let clearedForRoom = 64

    /// Records the subscriptions of a client, answers, and sends the matching retained messages (MQTT-3.3.1-6).
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
            // The members of a shared subscription get no retained messages (MQTT 5.0, section 4.8.2).
            guard let qos, retained.count > 0, !MQTTTopic.isShared(subscription.filter) else { return true }
            let delivery = retainedDeliveries[identifier] ?? RetainedDelivery(identifier, self)
            retainedDeliveries[identifier] = delivery
            delivery.add(Array(subscription.filter.utf8), qos: qos, newest: retained.newest)
            return true
        } end: { [self] in
            driver.grant(packetID, granted)
            retainedDeliveries[identifier]?.goOn()
        }
    }

    /// Removes the subscriptions of a client, and then acknowledges (MQTT-3.10.4-2).
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
