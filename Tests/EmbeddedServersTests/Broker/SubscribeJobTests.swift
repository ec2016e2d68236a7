import SocketIO
import TestSupport
import Testing

@testable import EmbeddedServers
@testable import Protocols
@testable import Transports

/// A SUBSCRIBE that takes longer than one share of a turn.
@Suite("The broker's work on many filters", .timeLimit(.minutes(5)), .ownThread)
struct SubscribeJobTests {
    @Test("ends with the connection that asked for it, though its session goes on with another one")
    func replaced() async throws {
        let loop = try EventLoop(name: "filters")
        try await withTaskExecutorPreference(loop) { try await replace(on: loop) }
    }

    private func replace(on loop: EventLoop) async throws {
        let (core, broker) = try Self.broker(BrokerCore.Limits(), on: loop)
        var hello = MQTTConnect(clientID: "ann")
        hello.cleanSession = false
        // No more than are read of a packet at a time.
        let filters = (0..<60).map { MQTTSubscription("f/\($0)/a/b/c/d/e/f") }

        let first = Self.connection(core, broker, says: [.connect(hello), .subscribe(1, filters)])
        let done = broker.core.subscriptionCount
        #expect(1..<60 ~= done)
        // The others are for the line of the busy.
        #expect(done == SubscribeJob.atOnce)
        let second = Self.connection(core, broker, says: [.connect(hello)])
        #expect(first.reason != nil && second.reason == nil)
        // Behind the share that the work had its place for.
        await withCheckedContinuation { loop.add(Fence($0), to: .deferred) }
        #expect(broker.core.subscriptionCount == done)
        #expect(broker.clients.count == 1 && second.reason == nil)
        for driver in [first, second] { driver.close(abort: true) }
    }

    @Test("makes room of the filters of those who have gone")
    func room() async throws {
        let loop = try EventLoop(name: "room")
        try await withTaskExecutorPreference(loop) { try await makeRoom(on: loop) }
    }

    private func makeRoom(on loop: EventLoop) async throws {
        var routing = BrokerCore.Limits()
        routing.maximumSubscriptions = 3
        let (core, broker) = try Self.broker(routing, on: loop)
        let filters = (0..<3).map { MQTTSubscription("f/\($0)") }
        let first = Self.connection(
            core,
            broker,
            says: [.connect(MQTTConnect(clientID: "ann")), .subscribe(1, filters)]
        )
        #expect(broker.core.subscriptionCount == 3)
        first.close(abort: true)
        // In the same turn, so that nobody else has cleared anything away.
        let hello = MQTTConnect(clientID: "bob")
        let second = Self.connection(core, broker, says: [.connect(hello), .subscribe(1, [MQTTSubscription("f/9")])])
        var deliveries: [BrokerCore.Delivery] = []
        broker.core.route(topic: "f/9", qos: .atMostOnce, into: &deliveries)
        #expect(broker.core.subscriptionCount == 3 && deliveries.count == 1)
        second.close(abort: true)
    }

    /// A broker, and what runs the connections of its clients.
    private static func broker(
        _ routing: BrokerCore.Limits,
        on loop: EventLoop
    ) throws -> (MQTTCore, Broker) {
        var server = MQTTServerConfiguration()
        let kept = MQTTSessions()
        server.routesSignals = true
        server.sessions = kept
        return (try MQTTCore(server: server), Broker(routing, kept, BrokerLimits(), on: loop, nil))
    }

    /// A client whose words are all there at once.
    private static func connection(_ core: MQTTCore, _ broker: Broker, says packets: [MQTTPacket]) -> ConnectionDriver {
        let channel = SpokenChannel()
        for packet in packets { MQTTPacketWriter.write(packet, into: &channel.words) }
        let driver = ConnectionDriver(core, over: channel, on: broker.loop)
        driver.handler = broker
        driver.start()
        driver.ready(.read)
        return driver
    }
}

private final class Fence: ScheduledHandler {
    var schedule = ScheduleEntry()
    private let continuation: CheckedContinuation<Void, Never>

    init(_ continuation: CheckedContinuation<Void, Never>) {
        self.continuation = continuation
    }

    func run(_: LoopQueue) {
        continuation.resume()
    }
}

/// A byte stream in memory, whose peer takes all that is written.
private final class SpokenChannel: ByteChannel {
    var words = ByteBuffer()

    let isDatagram = false
    let roundTripsToConnect = 0
    let bytesSent: UInt64 = 0
    let bytesReceived: UInt64 = 0
    var segmentCounts: SegmentCounts? { nil }

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into input: inout ByteBuffer, atMost limit: Int) -> IOResult {
        let count = min(limit, words.count)
        guard count > 0, let piece = words.bytes(at: 0, count: count) else { return .wouldBlock }
        words.consume(count)
        input.append(contentsOf: piece)
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { words.isEmpty }

    func flush(_ context: inout CoreContext) -> IOResult {
        context.output.removeAll()
        return .bytes(0)
    }

    func shutdownWriting() -> Bool { true }
    func close(abort _: Bool) {}
}
