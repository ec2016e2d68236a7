import Dispatch
import TransportAPI

@testable import EmbeddedServers
@testable import Protocols
@testable import SocketIO
@testable import Transports

private let brokerLoop = Result { try EventLoop(name: "fuzzed-broker") }

/// Runs the embedded broker with four clients over channels in memory. They send raw bytes and valid packets, and stop
/// reading at times. All limits are small, and none may be exceeded.
func fuzzBroker(_ bytes: [UInt8]) throws {
    let loop = try brokerLoop.get()
    let end = BrokerRun.End()
    loop.execute { BrokerRun(bytes, on: loop, end).run(.deferred) }
    end.done.wait()
    if let failure = end.failure { throw failure }
}

/// One run. It takes one step in each tick of the loop, so that the drivers write their output in between.
private final class BrokerRun: ScheduledHandler, DriverOwner {
    var schedule = ScheduleEntry()
    /// The result of a run. Unchecked, because it is written before the signal and read after it.
    final class End: ScheduledHandler, @unchecked Sendable {
        var schedule = ScheduleEntry()
        let done = DispatchSemaphore(value: 0)
        var failure: (any Error)?
        weak var broker: Broker?
        private var ticksLeft = 1000

        /// Waits until the broker is released. Its last work may take several ticks, and each holds a reference to it.
        func run(_: LoopQueue) {
            if let broker, ticksLeft > 0 {
                ticksLeft -= 1
                return broker.loop.add(self, to: .deferred)
            }
            if broker != nil { failure = FuzzFailure(description: "the broker is not released") }
            done.signal()
        }
    }

    /// The messages that any client has published. Unchecked, because only the loop touches it.
    private final class Published: @unchecked Sendable {
        var payloads: Set<Payload> = []
    }

    private let loop: EventLoop
    private let end: End
    private var input: FuzzInput
    private let broker: Broker
    private let core: Result<MQTTServerCore, TransportError>
    private let limits: BrokerLimits
    private let routing: BrokerCore.Limits
    private let published = Published()
    private let inFlight: Int
    private var clients: [BrokerPeer?] = [nil, nil, nil, nil]
    private var quietTicks = 6
    /// The number of buffered bytes that the drivers have reported.
    private var buffered = 0

    init(_ bytes: [UInt8], on loop: EventLoop, _ end: End) {
        self.loop = loop
        self.end = end
        var input = FuzzInput(bytes)
        var (limits, routing, server) = (BrokerLimits(), BrokerCore.Limits(), MQTTServerConfiguration())
        (limits.keptSessions, limits.queuedMessages, limits.queuedBytes) = (2, 3, 400)
        (limits.retainedMessages, limits.retainedBytes) = (3, 100)
        limits.whenQueueFull = input.choice(of: BrokerLimits.Overflow.allCases)
        (routing.maximumSessions, routing.maximumSubscriptions) = (5, 6)
        routing.maximumSubscriptionsPerSession = 3
        inFlight = input.choice(of: [20, 1])
        server.maximumInFlight = inFlight
        (server.maximumMessageSize, server.maximumUnreleased, server.routesSignals) = (1000, 3, true)
        let kept = MQTTSessions(
            maximumKept: limits.keptSessions,
            queuedMessages: limits.queuedMessages,
            queuedBytes: limits.queuedBytes
        )
        server.sessions = kept
        core = Result { [server] () throws(TransportError) in try MQTTServerCore(server) }
        (self.input, self.limits, self.routing) = (input, limits, routing)
        broker = Broker(routing, kept, limits, on: loop) { [published] in
            published.payloads.insert(Payload($0.bytes, topic: $0.topic))
        }
    }

    func run(_: LoopQueue) {
        do {
            for client in clients { try client?.read(of: published.payloads) }
            guard try step() else { return try finish() }
            try check()
            loop.add(self, to: .deferred)
        } catch {
            end.failure = error
            end.done.signal()
        }
    }

    /// Performs one action of one client. Returns `false` after the last one.
    private func step() throws -> Bool {
        guard let what = input.next() else {
            quietTicks -= 1
            return quietTicks > 0
        }
        let client = try client(Int(what & 3))
        switch what >> 2 & 15 {
        case 0, 1: client.say(input.record())
        case 2: client.say(connect(input.next() ?? 0))
        case 3, 4: client.say(subscribe(input.next() ?? 0))
        case 5, 6, 7: client.say(publish(input.next() ?? 0, input.next() ?? 0))
        case 8: client.say([.unsubscribe(3, [Self.filters[Int(what >> 6)]]), .pingreq])
        case 9, 10: client.answer()
        case 11: client.channel.isReading.toggle()
        case 12: client.channel.isEnded = true
        case 13: client.say([.disconnect])
        case 14: client.driver.abandon(.user)
        default: break
        }
        client.driver.ready(client.channel.isReading ? [.read, .write] : .read)
        return true
    }

    /// The client at this place. If it has ended, a new one takes its place.
    private func client(_ place: Int) throws -> BrokerPeer {
        if let client = clients[place] {
            if client.driver.isAlive { return client }
            client.driver.close(abort: true)
        }
        let client = BrokerPeer(try core.get(), on: loop)
        client.driver.handler = broker
        client.driver.owner = self
        client.driver.start()
        clients[place] = client
        return client
    }

    // MARK: Packets

    private static let filters = ["t", "t/+", "#", "+/#", "u", "$SYS/#", "t//", "+"]
    private static let topics = ["t", "t/a", "u", "$SYS/x", "t//", "/", "u/b/c", "v"]

    private static func qos(_ bits: UInt8) -> MQTTQoS { MQTTQoS(rawValue: bits & 3) ?? .exactlyOnce }

    private func connect(_ bits: UInt8) -> [MQTTPacket] {
        var connect = MQTTConnect(clientID: ["a", "b", "c", "dd"][Int(bits >> 5 & 3)])
        connect.cleanSession = bits & 1 == 0
        if bits & 2 != 0 {
            let (qos, isRetained) = (Self.qos(bits >> 2), bits & 16 != 0)
            connect.will = MQTTWill(topic: "t/will", payload: [bits], qos: qos, retain: isRetained)
        }
        return [.connect(connect)]
    }

    private func subscribe(_ bits: UInt8) -> [MQTTPacket] {
        let first = MQTTSubscription(Self.filters[Int(bits & 7)], qos: Self.qos(bits >> 3))
        let second = MQTTSubscription(Self.filters[Int(bits >> 5)], qos: .atLeastOnce)
        return [.subscribe(1 + UInt16(bits), first == second ? [first] : [first, second])]
    }

    private func publish(_ bits: UInt8, _ more: UInt8) -> [MQTTPacket] {
        let payload = [UInt8](repeating: bits, count: Int(more >> 4) * 6)
        var publish = MQTTPublish(topic: Self.topics[Int(bits & 7)], payload: payload)
        (publish.qos, publish.retain) = (Self.qos(bits >> 3), bits & 32 != 0)
        publish.isDuplicate = bits & 64 != 0 && publish.qos != .atMostOnce
        publish.packetID = publish.qos == .atMostOnce ? 0 : 1 + UInt16(more & 15)
        return [.publish(publish)]
    }

    // MARK: Invariants

    private func check() throws {
        try ensure(!broker.isRouting && broker.unrouted.isEmpty, "a message was left unrouted")
        let open = clients.count { $0?.driver.phase == .open }
        try ensure(broker.clients.count <= open, "\(broker.clients.count) clients, \(open) connections")
        // Dropped sessions are removed only when the next client connects.
        let most = broker.clients.count + limits.keptSessions + clients.count
        try ensure(broker.sessions.count <= most, "\(broker.sessions.count) sessions")
        try ensure(broker.core.sessionCount == broker.sessions.count, "the routing has other sessions")
        try ensure(broker.core.subscriptionCount <= routing.maximumSubscriptions, "too many subscriptions")
        for session in broker.sessions.values {
            try ensure(session.outbox.count <= limits.queuedMessages, "\(session.outbox.count) messages wait")
            try ensure(session.outbox.bytes < limits.queuedBytes + 1200, "\(session.outbox.bytes) bytes wait")
            try ensure(session.sent.count <= inFlight, "\(session.sent.count) messages in flight")
            try ensure(session.received.count <= 3, "\(session.received.count) messages unreleased")
        }
        let retained = broker.retained
        try ensure(retained.count <= limits.retainedMessages, "\(retained.count) messages are retained")
        try ensure(retained.bytes <= limits.retainedBytes, "\(retained.bytes) bytes are retained")
        for case let client? in clients {
            let waiting = client.driver.context.output.count
            try ensure(waiting <= 64 << 10, "\(waiting) bytes wait for a client")
        }
        try ensure(
            buffered == clients.reduce(0) { $0 + ($1?.driver.bufferedBytes ?? 0) },
            "\(buffered) bytes are accounted for"
        )
    }

    private func finish() throws {
        for client in clients { client?.driver.close(abort: true) }
        try check()
        try ensure(broker.clients.isEmpty && buffered == 0, "\(buffered) bytes are buffered without a client")
        end.broker = broker
        loop.add(end, to: .deferred)
    }

    func memoryChanged(by bytes: Int) { buffered += bytes }
    func closed(_: ConnectionDriver) {}
}
