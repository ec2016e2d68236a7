import Protocols
import SocketIO
import TransportAPI
import Transports

/// The retained messages that one session has subscribed to and not received yet (MQTT-3.3.1-6). They are searched
/// within a time budget per tick, and only a few are queued in advance, so that no queue is full. A session that
/// outlives its connection receives the rest over the next one.
final class RetainedDelivery: ScheduledHandler {
    var schedule = ScheduleEntry()

    private struct Request {
        var qos: MQTTQoS
        /// The newest message that was retained at that time. Later ones reached the subscriber when they were
        /// published.
        var newest: UInt64
    }

    /// How many messages, and how many bytes before the last of them, are in the session's outbox at most. They share
    /// their memory with the retained messages.
    private static let ahead = (messages: 32, bytes: 64 << 10)
    /// After how many topics without a match the search counts as one control frame of the client. Then even a
    /// connection that does nothing else stays within its `control-rate`.
    private static let topicsPerCharge = 4096

    private let session: UInt64
    // The broker stores this object until all is delivered or the session has ended.
    private weak var broker: Broker?
    /// By filter. If a filter is requested twice, the search starts again.
    private var requests: [[UInt8]: Request] = [:]
    private var current: (cursor: RetainedCursor<MQTTTopic>, request: Request)?
    private var topicsWithoutMatch = 0

    init(_ session: UInt64, _ broker: Broker) {
        self.session = session
        self.broker = broker
    }

    /// Adds the messages that match `filter`, at this QoS at most. A pending search for the same filter starts again.
    func add(_ filter: [UInt8], qos: MQTTQoS, newest: UInt64) {
        remove(filter)
        requests[filter] = Request(qos: qos, newest: newest)
    }

    /// Removes the messages that match `filter`, unless they match another filter too.
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

    /// Delivers as much as room and time allow.
    func goOn() {
        guard !schedule.contains(.deferred), let broker, let driver = broker.clients[session]?.driver else { return }
        let due = broker.loop.budgetEnd
        defer { driver.sendOutbox() }
        while begin() {
            guard hasRoom(broker, driver) else { return driver.notifyOfRoom() }
            if !step(broker) {
                topicsWithoutMatch += 1
                if topicsWithoutMatch % Self.topicsPerCharge == 0 { driver.charge(1) }
            }
            if MonotonicClock.now() >= due { return deferRest() }
        }
        broker.retainedDeliveries[session] = nil
    }

    /// Returns whether there is a filter left.
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

    /// Visits one topic. Returns whether it had a message to deliver.
    private func step(_ broker: Broker) -> Bool {
        guard case (var cursor, let request)? = current.take() else { return false }
        let step = broker.retained.step(&cursor)
        if case .over = step { return true }
        current = (cursor, request)
        switch step {
        case .found(let entry) where entry.number <= request.newest:
            var publish = entry.message
            publish.qos = min(publish.qos, request.qos)
            publish.isDuplicate = false
            if broker.sessions[session]?.outbox.append(publish, mayPass: true) != true { broker.dropped += 1 }
            return true
        case .found, .passed, .over:
            return false
        }
    }
}
