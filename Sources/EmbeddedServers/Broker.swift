import SocketIO
import TransportAPI
import Transports

/// A small MQTT 3.1.1 broker: QoS 0 and 1, wildcards, keep alive. Lives on its loop, and so do all its clients, so that
/// routing a message is a plain loop over its subscribers.
final class Broker: LinkHandler {
    /// How many QoS 1 messages wait for a subscriber whose window is full; further ones are dropped for it.
    static let maximumPending = 1000

    private struct Client {
        let driver: LinkDriver
        /// QoS 1 messages that wait for room in the window.
        var pending: [MQTTPublish] = []
    }

    private let loop: EventLoop
    private var core = BrokerCore()
    private var clients: [UInt64: Client] = [:]
    private var identifiers: [ObjectIdentifier: UInt64] = [:]
    private var lastIdentifier: UInt64 = 0
    private var deliveries: [BrokerCore.Delivery] = []
    private var encoded = ByteBuffer()
    /// Messages that a subscriber was too slow for.
    private(set) var dropped: UInt64 = 0

    /// Shown each message that is taken.
    private let tap: (@Sendable (Payload) -> Void)?

    init(on loop: EventLoop, _ tap: (@Sendable (Payload) -> Void)?) {
        self.loop = loop
        self.tap = tap
    }

    /// Starts a broker at `endpoint`.
    nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        on loop: EventLoop,
        tap: (@Sendable (Payload) -> Void)? = nil
    ) async throws(TransportError) -> any Listener {
        let core = try MQTTCore(server: TransportDescriptor.brokerConfiguration(endpoint))
        let mode = ServerMode.behave { Echo() }
        return try await CoreListener.listen(at: endpoint, on: loop, mode: mode) {
            (address, queue) throws(SystemError) in
            try StreamAcceptor(address, queue, on: loop, limits: LinkLimits(), handler: Broker(on: loop, tap)) { core }
        }
    }

    func handle(_ event: CoreEvent, on driver: LinkDriver) {
        switch event {
        case .signal(let signal as MQTTSignal): handle(signal, from: driver)
        case .acknowledged: sendPending(to: driver)
        case .opened, .message, .pong, .refused, .closed, .signal: break
        }
    }

    func ended(_ driver: LinkDriver, _: CloseReason) {
        guard let identifier = identifiers.removeValue(forKey: ObjectIdentifier(driver)) else { return }
        clients[identifier] = nil
        core.disconnect(identifier)
    }

    private func handle(_ signal: MQTTSignal, from driver: LinkDriver) {
        switch signal {
        case .connected(let connect): add(driver, connect.clientID)
        case .published(let publish): route(publish)
        case .subscribed(let subscriptions):
            guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
            for subscription in subscriptions {
                _ = core.subscribe(identifier, to: subscription.filter, qos: subscription.qos)
            }
        case .unsubscribed(let filters):
            guard let identifier = identifiers[ObjectIdentifier(driver)] else { return }
            for filter in filters { core.unsubscribe(identifier, from: filter) }
        case .subscribeAnswered, .unsubscribeAnswered: break
        }
    }

    private func add(_ driver: LinkDriver, _ clientID: String) {
        lastIdentifier += 1
        let identifier = lastIdentifier
        do throws(TransportError) {
            if let former = try core.connect(identifier, clientID: clientID),
                let client = clients.removeValue(forKey: former)
            {
                identifiers[ObjectIdentifier(client.driver)] = nil
                client.driver.endNow(CloseReason(.peer, text: "another client took over this client identifier"))
            }
        } catch {
            return driver.endNow(CloseReason(error))
        }
        identifiers[ObjectIdentifier(driver)] = identifier
        clients[identifier] = Client(driver: driver)
    }

    // MARK: Messages

    private func route(_ publish: MQTTPublish) {
        tap?(Payload(publish.payload, topic: publish.topic))
        core.route(topic: publish.topic, qos: publish.qos, into: &deliveries)
        guard !deliveries.isEmpty else { return }
        encoded.removeAll()
        for index in deliveries.indices {
            let delivery = deliveries[index]
            switch delivery.qos {
            case .atMostOnce: sendOnce(publish, to: delivery.session)
            case .atLeastOnce, .exactlyOnce: sendConfirmed(publish, to: delivery.session)
            }
        }
    }

    /// QoS 0: the packet is the same for all subscribers, and is encoded once.
    private func sendOnce(_ publish: MQTTPublish, to session: UInt64) {
        guard let client = clients[session] else { return }
        guard client.driver.hasRoom else {
            dropped += 1
            return
        }
        if encoded.isEmpty {
            do throws(TransportError) {
                try MQTTCore.encode(topic: publish.topic, payload: publish.payload, into: &encoded)
            } catch {
                // It came in a packet that was checked as this one is.
                dropped += 1
                return
            }
        }
        encoded.withUnsafeReadableBytes { client.driver.sendEncoded($0) }
    }

    private func sendConfirmed(_ publish: MQTTPublish, to session: UInt64) {
        guard let client = clients[session] else { return }
        if client.pending.isEmpty, send(publish, to: client.driver) { return }
        guard client.pending.count < Self.maximumPending else {
            dropped += 1
            return
        }
        clients[session]?.pending.append(publish)
    }

    /// Sends at QoS 1; `false` if the window or the write buffer is full.
    private func send(_ publish: MQTTPublish, to driver: LinkDriver) -> Bool {
        let outcome = driver.sendNow(Payload(publish.payload, topic: publish.topic, isConfirmed: true))
        if case .rejected(let error) = outcome, error.code == .bufferFull { return false }
        return true
    }

    private func sendPending(to driver: LinkDriver) {
        guard let identifier = identifiers[ObjectIdentifier(driver)], let client = clients[identifier] else { return }
        var sent = 0
        while sent < client.pending.count, send(client.pending[sent], to: driver) { sent += 1 }
        if sent > 0 { clients[identifier]?.pending.removeFirst(sent) }
    }
}
