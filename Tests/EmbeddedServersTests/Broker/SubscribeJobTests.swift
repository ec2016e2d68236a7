import SocketIO
import TestSupport
import Testing

@testable import EmbeddedServers
@testable import Protocols
@testable import Transports

/// Tests a SUBSCRIBE that takes longer than one time budget.
@Suite("The broker's work on many filters", .timeLimit(.minutes(5)), .ownThread)
struct SubscribeJobTests {
    @Test("The work for a SUBSCRIBE ends with its connection, although the session continues on another one")
    func replaced() async throws {
        let loop = try EventLoop(name: "filters")
        try await withTaskExecutorPreference(loop) { try await replace(on: loop) }
    }

    private func replace(on loop: EventLoop) async throws {
        let (core, broker) = try Self.broker(BrokerCore.Limits(), on: loop)
        var hello = MQTTConnect(clientID: "ann")
        hello.cleanSession = false
        // A packet with more filters would be read in parts.
        let filters = (0..<60).map { MQTTSubscription("f/\($0)/a/b/c/d/e/f") }

        let first = Self.connection(core, broker, sending: [.connect(hello), .subscribe(1, filters)])
        let done = broker.core.subscriptionCount
        #expect(1..<60 ~= done)
        // The other filters are left to the deferred handlers.
        #expect(done == SubscribeJob.atOnce)
        let second = Self.connection(core, broker, sending: [.connect(hello)])
        #expect(first.reason != nil && second.reason == nil)
        // The fence runs after the deferred work.
        await withCheckedContinuation { loop.add(Fence($0), to: .deferred) }
        #expect(broker.core.subscriptionCount == done)
        #expect(broker.clients.count == 1 && second.reason == nil)
        for driver in [first, second] { driver.close(abort: true) }
    }

    @Test("Filters of clients that have gone make room for new ones")
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
            sending: [.connect(MQTTConnect(clientID: "ann")), .subscribe(1, filters)]
        )
        #expect(broker.core.subscriptionCount == 3)
        first.close(abort: true)
        // This happens in the same tick, so no other code has removed the filters yet.
        let hello = MQTTConnect(clientID: "bob")
        let second = Self.connection(
            core,
            broker,
            sending: [.connect(hello), .subscribe(1, [MQTTSubscription("f/9")])]
        )
        var deliveries: [BrokerCore.Delivery] = []
        broker.core.route(topic: "f/9", qos: .atMostOnce, into: &deliveries)
        #expect(broker.core.subscriptionCount == 3 && deliveries.count == 1)
        second.close(abort: true)
    }

    /// Returns a broker and a core for the connections of its clients.
    private static func broker(
        _ routing: BrokerCore.Limits,
        on loop: EventLoop
    ) throws -> (MQTTServerCore, Broker) {
        var server = MQTTServerConfiguration()
        let kept = MQTTSessions()
        server.routesSignals = true
        server.sessions = kept
        return (try MQTTServerCore(server), Broker(routing, kept, BrokerLimits(), on: loop, nil))
    }

    /// Connects a client whose packets all arrive at once.
    private static func connection(_ core: MQTTServerCore, _ broker: Broker, sending packets: [MQTTPacket])
        -> ConnectionDriver
    {
        let channel = FixedInputChannel()
        for packet in packets { MQTTPacketWriter.write(packet, into: &channel.arriving) }
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

/// A byte stream in memory, whose peer takes all written bytes.
private final class FixedInputChannel: ByteChannel {
    var arriving = ByteBuffer()

    let bytesSent: UInt64 = 0
    let bytesReceived: UInt64 = 0

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let count = min(buffer.count, arriving.count)
        guard count > 0, let piece = arriving.bytes(at: 0, count: count) else { return .wouldBlock }
        buffer.copyBytes(from: piece)
        arriving.consume(count)
        return .bytes(count)
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool { arriving.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult { .bytes(bytes.count) }

    func shutdownWriting() -> Bool { true }
    func close(abort _: Bool) {}
}
