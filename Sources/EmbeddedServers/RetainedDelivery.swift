import Protocols
import SocketIO
import TransportAPI
import Transports

/// The retained messages that one session has asked for and has not got yet (MQTT-3.3.1-6). They are looked for in
/// shares of the loop's turns, a few ahead of what the client's window and its connection take, so that none of them
/// finds a queue full. A session that outlives its connection gets the rest over the next one.
final class RetainedDelivery: ScheduledHandler {
    var schedule = ScheduleEntry()

    private struct Request {
        var qos: MQTTQoS
        /// The newest message that had been kept by then. Later ones came to the subscriber as they were published.
        var newest: UInt64
    }

    /// How many messages wait in the session's outbox at most, and how many bytes until the last of them. They share their
    /// memory with what is retained.
    private static let ahead = (messages: 32, bytes: 64 << 10)
    /// How many topics that are looked at in vain count as one demand of the client. Even a connection for which
    /// nothing else is done stays within its `control-rate` then.
    private static let topicsPerDemand = 4096

    private let session: UInt64
    // The broker keeps this until all is delivered or the session has ended.
    private weak var broker: Broker?
    /// By filter: asked for twice, it is answered once, from the start.
    private var requests: [[UInt8]: Request] = [:]
    private var current: (cursor: RetainedCursor, request: Request)?
    private var topicsInVain = 0

    init(_ session: UInt64, _ broker: Broker) {
        self.session = session
        self.broker = broker
    }

    /// Adds what matches `filter`, at this QoS at most; a search for the same filter that is under way begins anew.
    func add(_ filter: [UInt8], qos: MQTTQoS, newest: UInt64) {
        remove(filter)
        requests[filter] = Request(qos: qos, newest: newest)
    }

    /// Forgets what matches `filter`, unless it matches another one too.
    func remove(_ filter: [UInt8]) {
        requests[filter] = nil
        if current?.cursor.filter == filter { current = nil }
    }

    func run(_: LoopQueue) {
        goOn()
    }

    /// Continues in the next tick.
    func deferRest() {
        broker?.loop.add(self, to: .deferred)
    }

    /// Delivers as much as there is room and time for.
    func goOn() {
        guard !schedule.contains(.deferred), let broker, let driver = broker.clients[session]?.driver else { return }
        let due = broker.loop.budgetEnd
        defer { driver.sendOutbox() }
        while begin() {
            guard hasRoom(broker, driver) else { return driver.notifyOfRoom() }
            if !step(broker) {
                topicsInVain += 1
                if topicsInVain % Self.topicsPerDemand == 0 { driver.charge(1) }
            }
            if MonotonicClock.now() >= due { return deferRest() }
        }
        broker.retainedDeliveries[session] = nil
    }

    /// Whether there is a filter left.
    private func begin() -> Bool {
        if current != nil { return true }
        guard let (filter, request) = requests.popFirst() else { return false }
        current = (RetainedCursor(filter), request)
        return true
    }

    private func hasRoom(_ broker: Broker, _ driver: ConnectionDriver) -> Bool {
        if isAhead(broker) { driver.sendOutbox() }
        return driver.isNearlyEmpty && !isAhead(broker)
    }

    private func isAhead(_ broker: Broker) -> Bool {
        guard let outbox = broker.sessions[session]?.outbox else { return true }
        let most = max(1, min(Self.ahead.messages, broker.limits.queuedMessages / 2))
        return outbox.count >= most || outbox.bytes >= min(Self.ahead.bytes, broker.limits.queuedBytes)
    }

    /// Looks at one topic; whether that brought a message.
    private func step(_ broker: Broker) -> Bool {
        guard case (var cursor, let request)? = current.take() else { return false }
        let step = broker.retained.step(&cursor)
        if case .over = step { return true }
        current = (cursor, request)
        switch step {
        case .found(let entry) where entry.number <= request.newest:
            var publish = entry.publish
            publish.qos = min(publish.qos, request.qos)
            publish.isDuplicate = false
            if broker.sessions[session]?.outbox.append(publish, mayPass: true) != true { broker.dropped += 1 }
            return true
        case .found, .passed, .over:
            return false
        }
    }
}
