import SocketIO
import TransportAPI
import Transports

/// A small MQTT 3.1.1 broker: QoS 0 to 2, wildcards, keep alive, retained messages, wills, and sessions that outlive their
/// links, all in memory. Lives on its loop, and so do all its clients, so that routing a message is a plain loop over its
/// subscribers.
final class Broker: LinkHandler {
    /// A client with a link.
    struct Client {
        let driver: LinkDriver
        /// What is published if the link ends without DISCONNECT.
        var will: MQTTWill?
    }

    let loop: EventLoop
    /// Every session that is known, by its number; those that outlive their links may be without one.
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
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> (listener: any Listener, broker: LoopConfined<Broker>) {
        let kept = MQTTSessions(
            maximumKept: limits.keptSessions,
            expiry: limits.sessionExpiry,
            queuedMessages: limits.queuedMessages,
            queuedBytes: limits.queuedBytes
        )
        var options = try TransportDescriptor.brokerOptions(endpoint) {
            $0.sessions = kept
            if let authenticate {
                $0.authentication = { authenticate(BrokerCredentials($0, peer: $1)).code }
            }
        }
        if !endpoint.options.contains(where: { $0.name == "write-buffer" }) {
            options.links.writeBuffer = limits.queuedBytes
        }
        let filterLevels = try limits.checkedFilterLevels()
        options.routing.maximumFilterLevels = options.filterLevels ?? filterLevels
        options.routing.maximumNodesPerSession = limits.filterLevelsPerSession
        options.routing.maximumNodes = limits.filterNodes
        options.routing.maximumWildNodes = limits.wildFilterNodes
        let (links, bounds, makeCore) = (options.links, options.bounds, options.makeCore)
        let broker = LoopConfined(Broker(options.routing, kept, limits, on: loop, tap), to: loop)
        var mode = ServerMode.behave { Echo() }
        mode.observer = observer
        let listener = try await CoreListener.listen(at: endpoint, on: loop, mode: mode) {
            (address, queue) throws(SystemError) in
            try StreamAcceptor(
                address,
                queue,
                on: loop,
                limits: links,
                bounds: bounds,
                handler: broker.value,
                makeCore: makeCore
            )
        }
        return (listener, broker)
    }

    var now: Instant { Instant(nanoseconds: loop.now) }

    func handle(_ event: CoreEvent, on driver: LinkDriver) {
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

    func roomMade(_ driver: LinkDriver) {
        guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
        retainedDeliveries[identifier]?.waitForShare()
    }

    func ended(_ driver: LinkDriver, _ reason: CloseReason) {
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
            links: clients.count,
            sessions: sessions.count,
            subscriptions: core.subscriptionCount,
            retainedMessages: retained.count,
            retainedBytes: retained.bytes,
            pendingRetained: retainedDeliveries.count,
            queuedBytes: kept.ledger.bytes,
            dropped: dropped
        )
    }
}
