import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A small STOMP 1.2 broker. A destination that begins with `/queue/` is a queue: each message goes to one of its
/// subscribers, and waits if there is none. Every other destination is a topic: each message goes to all its subscribers.
/// All state is in memory. The broker and all its clients are on one loop.
final class STOMPBroker: ConnectionHandler {
    /// A client with a connection.
    private struct Client {
        let driver: ConnectionDriver
        /// Its subscriptions, by the id that the client gave them.
        var subscriptions: [String: UInt64] = [:]
        /// The messages of queues that it has not acknowledged, oldest first.
        var unacknowledged = Deque<Unacknowledged>()
    }

    /// A subscription of a client.
    private struct Subscriber {
        var client: ObjectIdentifier
        var id: String
        var mode: STOMPAckMode
        /// The queue; `nil` for a subscription to topics.
        var queue: String?
    }

    /// A message of a queue that a client has and has not acknowledged.
    private struct Unacknowledged {
        var number: UInt64
        /// The subscription, which may have ended since.
        var subscription: UInt64
        /// Whether ACK and NACK count for the earlier messages of the subscription too.
        var isCumulative: Bool
        var queue: String
        var message: Stored
    }

    /// A message of a queue.
    private struct Stored {
        var message: STOMPSent
        /// Whether a client has had it and has not acknowledged it.
        var isRedelivered = false
    }

    private struct Queue {
        var messages = Deque<Stored>()
        var bytes = 0
        /// Its subscriptions, and the one whose turn it is.
        var subscribers: [UInt64] = []
        var turn = 0

        var isUnused: Bool { messages.isEmpty && subscribers.isEmpty }
    }

    private static let queuePrefix = "/queue/"
    /// The most queues. Each takes some memory, however short it is.
    private static let mostQueues = 10_000

    private let loop: EventLoop
    private let limits: BrokerLimits
    /// How many messages of queues a client has at a time without an acknowledgement.
    private let window: Int
    private let tap: (@Sendable (Payload) -> Void)?
    private var router: STOMPRouter
    private var clients: [ObjectIdentifier: Client] = [:]
    private var subscribers: [UInt64: Subscriber] = [:]
    private var queues: [String: Queue] = [:]
    private var queuedBytes = 0
    private var lastSubscription: UInt64 = 0
    private var lastMessage: UInt64 = 0
    private var receivers: [UInt64] = []
    private var encoded = ByteBuffer()
    private var dropped: UInt64 = 0

    private init(
        _ limits: BrokerLimits,
        window: Int,
        on loop: EventLoop,
        _ tap: (@Sendable (Payload) -> Void)?
    ) {
        (self.loop, self.limits, self.window, self.tap) = (loop, limits, window, tap)
        var routing = STOMPRouter.Limits()
        routing.maximumLevels = limits.filterLevels
        routing.maximumNodes = limits.filterNodes
        routing.maximumWildNodes = limits.wildFilterNodes
        router = STOMPRouter(limits: routing)
    }

    /// Starts a broker at `endpoint`. `authenticate` decides about each client. By default, all are accepted.
    nonisolated(nonsending) static func listen(
        at endpoint: Endpoint,
        _ readSettings: BrokerSettings<STOMPServerSettings>.Read,
        on loop: EventLoop,
        limits: BrokerLimits = BrokerLimits(),
        tap: (@Sendable (Payload) -> Void)? = nil,
        authenticate: BrokerAuthentication? = nil,
        observer: ServerObserver? = nil
    ) async throws(TransportError) -> (listener: any Listener, broker: LoopBound<STOMPBroker>) {
        try limits.check()
        let read = try readSettings(endpoint) { settings in
            if let authenticate {
                settings.own.configuration.authentication = {
                    authenticate(BrokerCredentials($0, peer: $1, certificate: $2)).rejection
                }
            }
            settings.limits.writeBuffer = limits.queuedBytes
        }
        let (settings, makeCore) = (read.settings, read.makeCore)
        let tls = try await read.loadTLS(on: loop)
        let window = settings.own.configuration.maximumInFlight
        let broker = LoopBound(STOMPBroker(limits, window: window, on: loop, tap), to: loop)
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

    /// The current statistics.
    var statistics: BrokerStatistics {
        var statistics = BrokerStatistics()
        statistics.connections = clients.count
        statistics.sessions = clients.count
        statistics.subscriptions = subscribers.count
        statistics.queuedBytes = queuedBytes
        statistics.dropped = dropped
        return statistics
    }

    // MARK: Events

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        guard case .signal(let any) = event, let signal = any.stomp else { return }
        let key = ObjectIdentifier(driver)
        switch signal {
        case .connected: clients[key] = Client(driver: driver)
        case .sent(let message): take(message, from: driver)
        case .subscribed(let id, let destination, let mode, let receipt):
            subscribe(driver, id, to: destination, mode, receipt)
            driver.noteMuchWork()
        case .unsubscribed(let id, let receipt):
            if let number = clients[key]?.subscriptions.removeValue(forKey: id) { remove(number) }
            confirm(receipt, to: driver)
            driver.noteMuchWork()
        case .acknowledged(let name, let verdict, let receipt):
            acknowledge(name, verdict, by: key, driver)
            confirm(receipt, to: driver)
        }
    }

    func roomMade(_ driver: ConnectionDriver) {
        guard let client = clients[ObjectIdentifier(driver)] else { return }
        for number in client.subscriptions.values {
            if let queue = subscribers[number]?.queue { deliver(queue) }
        }
    }

    func ended(_ driver: ConnectionDriver, _: CloseReason) {
        guard let client = clients.removeValue(forKey: ObjectIdentifier(driver)) else { return }
        for number in client.subscriptions.values { remove(number) }
        giveBack(client.unacknowledged)
    }

    /// Returns messages to their queues, in the old order and before everything else.
    private func giveBack(_ entries: Deque<Unacknowledged>) {
        var returned: [String: Deque<Stored>] = [:]
        for entry in entries {
            var stored = entry.message
            stored.isRedelivered = true
            returned[entry.queue, default: Deque()].append(stored)
            queues[entry.queue, default: Queue()].bytes += stored.message.bufferedBytes
        }
        for (queue, messages) in returned {
            var all = messages
            for stored in queues[queue]?.messages ?? Deque() { all.append(stored) }
            queues[queue]?.messages = all
            deliver(queue)
        }
    }

    // MARK: Answers

    private func confirm(_ receipt: String?, to driver: ConnectionDriver) {
        guard let receipt else { return }
        encoded.removeAll()
        STOMPServerCore.encode(receipt: receipt, into: &encoded)
        encoded.withUnsafeReadableBytes { driver.sendEncoded($0) }
    }

    /// Refuses a frame by ERROR, after which the connection ends.
    private func refuse(_ driver: ConnectionDriver, _ sentence: String, _ receipt: String?) {
        encoded.removeAll()
        STOMPServerCore.encode(refusal: sentence, receipt: receipt, into: &encoded)
        encoded.withUnsafeReadableBytes { driver.sendEncoded($0) }
        // The core has no second ERROR to write, because its client has the reason.
        driver.endNow(CloseReason(.peer, text: sentence))
    }

    // MARK: Subscriptions

    private func subscribe(
        _ driver: ConnectionDriver,
        _ id: String,
        to destination: String,
        _ mode: STOMPAckMode,
        _ receipt: String?
    ) {
        let key = ObjectIdentifier(driver)
        lastSubscription += 1
        let number = lastSubscription
        let isQueue = destination.utf8.starts(with: Self.queuePrefix.utf8)
        let hasRoom =
            isQueue ? queues[destination] != nil || queues.count < Self.mostQueues : router.add(number, to: destination)
        guard hasRoom, destination.utf8.count <= STOMPRouter.Limits().maximumLength else {
            router.remove(number)
            return refuse(driver, "there is no room for a subscription to this destination", receipt)
        }
        subscribers[number] = Subscriber(client: key, id: id, mode: mode, queue: isQueue ? destination : nil)
        clients[key]?.subscriptions[id] = number
        if isQueue { queues[destination, default: Queue()].subscribers.append(number) }
        confirm(receipt, to: driver)
        if isQueue { deliver(destination) }
    }

    /// Ends a subscription. The client keeps the messages that it has not acknowledged.
    private func remove(_ number: UInt64) {
        guard let subscriber = subscribers.removeValue(forKey: number) else { return }
        guard let name = subscriber.queue else { return router.remove(number) }
        queues[name]?.subscribers.removeAll { $0 == number }
        if queues[name]?.isUnused == true { queues[name] = nil }
    }

    // MARK: Messages

    private func take(_ message: STOMPSent, from driver: ConnectionDriver) {
        tap?(
            Payload(
                message.body,
                kind: message.isText ? .text : .binary,
                topic: message.destination,
                qos: message.receipt == nil ? .atMostOnce : .atLeastOnce
            )
        )
        guard message.destination.utf8.starts(with: Self.queuePrefix.utf8) else {
            publish(message, from: driver)
            return confirm(message.receipt, to: driver)
        }
        guard enqueue(message) else {
            dropped += 1
            guard message.receipt == nil else { return refuse(driver, "the queue is full", message.receipt) }
            return
        }
        deliver(message.destination)
        confirm(message.receipt, to: driver)
    }

    /// Sends a message to all subscribers of its topic.
    private func publish(_ message: STOMPSent, from sender: ConnectionDriver) {
        router.route(message.destination, into: &receivers)
        if receivers.count >= 8 { sender.noteMuchWork() }
        lastMessage += 1
        for number in receivers {
            guard let subscriber = subscribers[number], let client = clients[subscriber.client] else { continue }
            guard client.driver.hasRoom else {
                dropped += 1
                guard limits.whenQueueFull == .disconnect else { continue }
                let error = TransportError(.bufferFull, .open, "the subscriber reads too slowly")
                client.driver.endNow(CloseReason(error))
                continue
            }
            send(message, lastMessage, to: subscriber, over: client.driver)
        }
    }

    private func send(
        _ message: STOMPSent,
        _ number: UInt64,
        isRedelivered: Bool = false,
        to subscriber: Subscriber,
        over driver: ConnectionDriver
    ) {
        encoded.removeAll()
        STOMPServerCore.encode(
            number: number,
            subscription: subscriber.id,
            destination: message.destination,
            ack: subscriber.mode == .auto ? nil : "\(number)",
            isRedelivered ? message.headers + [STOMPHeader("redelivered", "true")] : message.headers,
            message.body,
            into: &encoded
        )
        encoded.withUnsafeReadableBytes { driver.sendEncoded($0) }
    }

    // MARK: Queues

    /// Adds a message to its queue. Returns `false` if there is no room for it.
    private func enqueue(_ message: STOMPSent) -> Bool {
        let name = message.destination
        guard queues[name] != nil || queues.count < Self.mostQueues,
            name.utf8.count <= STOMPRouter.Limits().maximumLength
        else { return false }
        let size = message.bufferedBytes
        while let queue = queues[name],
            queue.messages.count >= limits.queuedMessages
                || queue.bytes + size > limits.queuedBytes && !queue.messages.isEmpty
        {
            guard limits.whenQueueFull == .dropOldest, let oldest = queues[name]?.messages.popFirst() else {
                return false
            }
            forget(oldest, of: name)
            dropped += 1
        }
        guard queuedBytes + size <= limits.maximumQueuedBytes else { return false }
        queues[name, default: Queue()].messages.append(Stored(message: message))
        queues[name]?.bytes += size
        queuedBytes += size
        return true
    }

    /// Subtracts a message that has left its queue for good.
    private func forget(_ stored: Stored, of name: String) {
        queues[name]?.bytes -= stored.message.bufferedBytes
        queuedBytes -= stored.message.bufferedBytes
    }

    /// Sends the messages of a queue to its subscribers in turn, as far as these have room.
    private func deliver(_ name: String) {
        while let stored = queues[name]?.messages.first, let number = nextSubscriber(of: name),
            let subscriber = subscribers[number], let driver = clients[subscriber.client]?.driver
        {
            _ = queues[name]?.messages.popFirst()
            lastMessage += 1
            if subscriber.mode == .auto {
                forget(stored, of: name)
            } else {
                // It stays in the count of all bytes until it is acknowledged.
                queues[name]?.bytes -= stored.message.bufferedBytes
                clients[subscriber.client]?.unacknowledged.append(
                    Unacknowledged(
                        number: lastMessage,
                        subscription: number,
                        isCumulative: subscriber.mode == .client,
                        queue: name,
                        message: stored
                    )
                )
            }
            send(stored.message, lastMessage, isRedelivered: stored.isRedelivered, to: subscriber, over: driver)
        }
        if queues[name]?.isUnused == true { queues[name] = nil }
    }

    /// The subscription whose turn it is, among those that have room.
    private func nextSubscriber(of name: String) -> UInt64? {
        guard let queue = queues[name] else { return nil }
        for step in 0..<queue.subscribers.count {
            let place = (queue.turn + step) % queue.subscribers.count
            let number = queue.subscribers[place]
            guard let subscriber = subscribers[number], let client = clients[subscriber.client],
                client.unacknowledged.count < window
            else { continue }
            guard client.driver.isNearlyEmpty else {
                client.driver.notifyOfRoom()
                continue
            }
            queues[name]?.turn = place + 1
            return number
        }
        return nil
    }

    /// Whether ACK or NACK may be for a message of a topic, which the broker does not keep.
    private func isOfTopic(_ name: String, _ key: ObjectIdentifier) -> Bool {
        guard let number = UInt64(name), number <= lastMessage, let client = clients[key] else { return false }
        return client.subscriptions.values.contains {
            subscribers[$0].map { $0.queue == nil && $0.mode != .auto } ?? false
        }
    }

    /// A client has acknowledged a message, or refuses it.
    private func acknowledge(
        _ name: String,
        _ verdict: STOMPSignal.Verdict,
        by key: ObjectIdentifier,
        _ driver: ConnectionDriver
    ) {
        // A message that comes again costs as much as a request for it.
        if verdict == .giveBack { driver.charge(1) }
        guard let number = UInt64(name), var client = clients[key],
            let entry = client.unacknowledged.first(where: { $0.number == number })
        else {
            return driver.charge(isOfTopic(name, key) ? 0 : 1)
        }
        var (left, meant) = (Deque<Unacknowledged>(), Deque<Unacknowledged>())
        while let other = client.unacknowledged.popFirst() {
            let isMeant =
                other.number == number
                || entry.isCumulative && other.number < number && other.subscription == entry.subscription
            if isMeant { meant.append(other) } else { left.append(other) }
        }
        client.unacknowledged = left
        clients[key] = client
        if verdict == .giveBack {
            giveBack(meant)
        } else {
            for other in meant { queuedBytes -= other.message.message.bufferedBytes }
            if verdict == .drop { dropped += UInt64(meant.count) }
        }
        // The client has room again, for the messages of any of its queues.
        for queue in Set(client.subscriptions.values.compactMap { subscribers[$0]?.queue }) { deliver(queue) }
    }
}
