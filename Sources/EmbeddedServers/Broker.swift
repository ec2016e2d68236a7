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
        let clientID: String
        /// What is published if the link ends without DISCONNECT.
        var will: MQTTWill?
    }

    /// Every session that is known, by its number; those that outlive their links may be without one.
    var core: BrokerCore
    let kept: MQTTSessions
    var sessions: [UInt64: MQTTSession] = [:]
    var clients: [UInt64: Client] = [:]
    var retained: RetainedMessages
    let limits: BrokerLimits
    var deliveries: [BrokerCore.Delivery] = []
    var encoded = ByteBuffer()
    var isRouting = false
    /// What came up while a message was being routed: a will for each client at most.
    var unrouted: [MQTTPublish] = []
    /// Messages that a subscriber was too slow for, and retained ones that there was no room for.
    var dropped: UInt64 = 0
    /// Shown each message that is taken.
    let tap: (@Sendable (Payload) -> Void)?
    private var identifiers: [ObjectIdentifier: UInt64] = [:]

    init(
        _ routing: BrokerCore.Limits,
        _ kept: MQTTSessions,
        _ limits: BrokerLimits,
        _ tap: (@Sendable (Payload) -> Void)?
    ) {
        core = BrokerCore(limits: routing)
        self.kept = kept
        self.limits = limits
        self.tap = tap
        retained = RetainedMessages(limits)
    }

    /// Starts a broker at `endpoint`, which lets in whom `authentication` accepts; everybody by default.
    nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authentication: MQTTServerConfiguration.Authentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> any Listener {
        let outbox = MQTTOutbox(maximumCount: limits.queuedMessages, maximumBytes: limits.queuedBytes)
        let kept = MQTTSessions(maximumKept: limits.keptSessions, outbox: outbox)
        var options = try TransportDescriptor.brokerOptions(endpoint) {
            $0.sessions = kept
            $0.authentication = authentication
        }
        if !endpoint.options.contains(where: { $0.name == "write-buffer" }) {
            options.links.writeBuffer = limits.queuedBytes
        }
        let (links, bounds, routing, makeCore) = (options.links, options.bounds, options.routing, options.makeCore)
        var mode = ServerMode.behave { Echo() }
        mode.observer = observer
        return try await CoreListener.listen(at: endpoint, on: loop, mode: mode) {
            (address, queue) throws(SystemError) in
            try StreamAcceptor(
                address,
                queue,
                on: loop,
                limits: links,
                bounds: bounds,
                handler: Broker(routing, kept, limits, tap),
                makeCore: makeCore
            )
        }
    }

    func handle(_ event: CoreEvent, on driver: LinkDriver) {
        guard case .signal(let signal as MQTTSignal) = event else { return }
        if case .connected(let connect) = signal { return add(driver, connect) }
        // A client whose identifier was taken over is no longer listened to.
        guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
        switch signal {
        case .published(let publish): take(publish)
        case .subscribed(let packetID, let subscriptions): subscribe(identifier, packetID, subscriptions, driver)
        case .unsubscribed(let filters): for filter in filters { core.unsubscribe(identifier, from: filter) }
        case .connected, .subscribeAnswered, .unsubscribeAnswered: break
        }
    }

    func ended(_ driver: LinkDriver, _ reason: CloseReason) {
        guard let identifier = identifiers.removeValue(forKey: ObjectIdentifier(driver)),
            let client = clients.removeValue(forKey: identifier)
        else { return }
        leave(identifier, client)
        // DISCONNECT takes the will back (MQTT-3.1.2-10), and who stops the broker means nobody's.
        if reason.error != nil, let will = client.will { publish(will) }
    }

    // MARK: Sessions

    /// Gives a client that was let in its session; who had it before loses the link (MQTT-3.1.4-2).
    private func add(_ driver: LinkDriver, _ connect: MQTTConnect) {
        guard let session = driver.mqttSession else { return }
        for identifier in kept.takeForgotten() where identifier != session.id { end(identifier) }
        if let former = clients[session.id] { takeOver(session.id, former) }
        if sessions[session.id] == nil {
            do throws(TransportError) {
                if let former = try core.connect(session.id, clientID: connect.clientID) { end(former) }
            } catch {
                kept.left(connect.clientID)
                return driver.endNow(CloseReason(error))
            }
            sessions[session.id] = session
        }
        identifiers[ObjectIdentifier(driver)] = session.id
        clients[session.id] = Client(driver: driver, clientID: connect.clientID, will: connect.will)
    }

    /// The link of a session has ended; the session has too, if it is a clean one.
    private func leave(_ identifier: UInt64, _ client: Client) {
        if sessions[identifier]?.isClean ?? true {
            core.disconnect(identifier)
            sessions[identifier] = nil
        } else {
            kept.left(client.clientID)
        }
    }

    /// Ends a session, whose link goes with it.
    private func end(_ identifier: UInt64) {
        core.disconnect(identifier)
        sessions[identifier] = nil
        if let client = clients[identifier] { takeOver(identifier, client) }
    }

    /// Ends the link of a client whose identifier another uses: without DISCONNECT, so that its will is published.
    private func takeOver(_ identifier: UInt64, _ client: Client) {
        clients[identifier] = nil
        identifiers[ObjectIdentifier(client.driver)] = nil
        client.driver.endNow(CloseReason(.peer, text: "another client took over this client identifier"))
        if let will = client.will { publish(will) }
    }
}
