import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests the delivery of many retained messages to subscribers.
@Suite("Many retained messages", .timeLimit(.minutes(5)), .ownThread)
struct BrokerRetainedTests {
    private static let topics = Set((0..<400).map { "r/\($0)" })
    /// These tests have their own loop, so that they do not slow down other tests.
    private static let loop = Result { try EventLoop(name: "retained") }

    private func start(_ limits: BrokerLimits = BrokerLimits()) async throws -> EmbeddedServer {
        try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", limits: limits, on: Self.loop.get())
    }

    private func connect(_ server: EmbeddedServer, _ options: [(String, String)]) async throws -> any Connection {
        var endpoint = server.endpoint
        endpoint.options = options.map { .init(name: $0.0, value: $0.1) }
        let transport = try TransportRegistry.standard.transport(for: endpoint, on: Self.loop.get())
        return try await transport.connect(timeout: .seconds(20))
    }

    /// Retains a message of a thousand bytes for each topic.
    private func retain(_ topics: [String], at server: EmbeddedServer) async throws {
        let connection = try await connect(server, [("qos", "1")])
        let loop = try Self.loop.get()
        await withTaskGroup(of: Void.self) { group in
            for first in 0..<32 {
                group.addTask(executorPreference: loop) {
                    for index in stride(from: first, to: topics.count, by: 32) {
                        let payload = [UInt8](repeating: 1, count: 1000)
                        let message = Payload(payload, topic: topics[index], isRetained: true)
                        #expect(await connection.send(message) == .acknowledged)
                    }
                }
            }
        }
        await connection.close()
    }

    @Test(
        "A subscriber receives all retained messages through a small queue and keeps its connection",
        arguments: 0...2
    )
    func all(qos: Int) async throws {
        var limits = BrokerLimits()
        limits.queuedMessages = 10
        limits.queuedBytes = 2500
        limits.whenQueueFull = .disconnect
        let server = try await start(limits)
        try await retain(Array(Self.topics), at: server)
        let filters = [("subscribe", "r/#"), ("subscribe", "r/+")]
        let late = try await connect(server, filters + [("qos", "\(qos)"), ("inbox", "16")])
        // The reads run on the loop. A change of threads for each message would wait for other tests.
        let seen = try await withTaskExecutorPreference(Self.loop.get()) {
            var seen: [String: Int] = [:]
            // Two filters match each message.
            for _ in 0..<2 * Self.topics.count {
                let message = try #require(try await late.receive())
                #expect(message.isRetained)
                seen[message.topic ?? "", default: 0] += 1
            }
            return seen
        }
        #expect(Set(seen.keys) == Self.topics && seen.values.allSatisfy { $0 == 2 })
        #expect(await server.brokerStatistics()?.dropped == 0)
        await late.close()
        await server.stop()
    }

    @Test("A kept session receives the rest of the retained messages over its next connection", arguments: 1...2)
    func rest(qos: Int) async throws {
        let server = try await start()
        try await retain(Array(Self.topics), at: server)
        let name = [("client-id", "ann"), ("clean-session", "off"), ("qos", "\(qos)"), ("inbox", "16")]
        var seen: Set<String> = []
        let first = try await connect(server, name + [("subscribe", "r/#")])
        for _ in 0..<50 { seen.insert(try #require(try await first.receive()?.topic)) }
        await first.close()
        #expect(await server.brokerStatistics()?.pendingRetained == 1)
        let second = try await connect(server, name)
        while seen != Self.topics { seen.insert(try #require(try await second.receive()?.topic)) }
        await second.close()
        await server.stop()
    }

    @Test("Retained messages stop after UNSUBSCRIBE, and a session that ends leaves no pending work")
    func ended() async throws {
        let server = try await start()
        try await retain(Array(Self.topics), at: server)
        let client = try MQTTClient(try await connect(server, [("qos", "1"), ("inbox", "1")]), buffer: 1)
        let all = try await client.subscribe("r/#")
        async let ended: Void = client.unsubscribe("r/#")
        for try await _ in all {}
        try await ended
        try await Task.yield(while: await server.brokerStatistics()?.pendingRetained != 0)
        let again = try await client.subscribe("r/#")
        await client.close()
        for try await _ in again {}
        try await Task.yield(while: await server.brokerStatistics()?.pendingRetained != 0)
        await server.stop()
    }

    @Test("Other clients are served while the broker searches retained messages for one client")
    func fairness() async throws {
        let server = try await start()
        try await retain((0..<1000).map { "a/\($0)" }, at: server)
        let legitimate = try await connect(server, [("subscribe", "t"), ("publish", "t")])
        // Everything runs on the loop, which the search for retained messages shares.
        let pending = try await withTaskExecutorPreference(Self.loop.get()) {
            // Each filter makes the broker search every topic without a match.
            let hostile = try await connect(server, (0..<1000).map { ("subscribe", "+/+/\($0)/none") })
            for word in ["1", "2", "3"] {
                #expect(await legitimate.send(Payload(text: word)).isSuccess)
                #expect(try await legitimate.receive()?.bytes == Array(word.utf8))
            }
            let pending = await server.brokerStatistics()?.pendingRetained
            await hostile.close()
            return pending
        }
        #expect(pending == 1)
        await legitimate.close()
        await server.stop()
    }
}
