import Adapters
import Codecs
import EmbeddedServers
import InMemoryLogging
import Logging
import MetricsTestKit
import Observation
import SwiftProtobuf
import Synchronization
import Testing
import TransportAPI
import Transports

@Suite("Adapters", .timeLimit(.minutes(1)))
struct AdapterTests {
    /// A supervisor with an echo server.
    private nonisolated(nonsending) func supervised(
        _ name: String,
        _ observer: (any SupervisorObserver)? = nil,
        _ body: nonisolated(nonsending) (Supervisor) async throws -> Void
    ) async throws {
        let server = try await EmbeddedServer.start("memory://\(name)")
        let configuration = TransportConfiguration(endpoints: [server.endpoint])
        let supervisor = try Supervisor(configuration) { $0.observer = observer }
        try await body(supervisor)
        await supervisor.close()
        await server.stop()
    }

    @Test("Events are logged and counted")
    func observers() async throws {
        let (lines, metrics) = (InMemoryLogHandler(), TestMetrics())
        var logger = Logger(label: "test") { _ in lines }
        logger.logLevel = .trace
        let observer = Observers(LogObserver(logger), MetricsObserver(factory: metrics))
        try await supervised("observers", observer) { supervisor in
            var messages = supervisor.messages.makeAsyncIterator()
            supervisor.connect()
            #expect(await supervisor.send(Payload(text: "hello")) == .written)
            #expect(await messages.next() != nil)
        }
        #expect(lines.entries.contains { $0.message == "state" })
        #expect(try metrics.expectCounter("im.messages_sent").totalValue == 1)
        #expect(try metrics.expectCounter("im.bytes_received").totalValue == 5)
    }

    @Test("A model shows the state and the messages") @MainActor
    func model() async throws {
        try await supervised("model") { supervisor in
            let model = ChatModel(supervisor)
            let running = Task { await model.run() }
            supervisor.connect()
            let hello = ChatMessage(id: "1", conversation: "lunch", sender: "ann", sentAtMs: 0, text: "soup")
            await model.send(hello)
            // The server sends it back.
            await changed { model.messages.count == 2 && model.status == "online" }
            await supervisor.close()
            await running.value
            #expect(model.status == "ended: user")
            #expect(model.messages == [hello, hello])
        }
    }

    /// Waits until a condition of observed properties holds.
    @MainActor
    private func changed(_ condition: @escaping @MainActor () -> Bool) async {
        while true {
            let (changes, change) = AsyncStream.makeStream(of: Void.self)
            if withObservationTracking(condition, onChange: { change.yield() }) { return }
            for await _ in changes { break }
        }
    }

    private struct Order: Codable, Hashable {
        var dish: String
        var count: Int
    }

    @Test("Codable messages arrive, and others are reported")
    func codable() async throws {
        try await supervised("codable") { supervisor in
            let failures = Failures()
            let orders = supervisor.messages(json: Order.self) { _, _ in failures.count.withLock { $0 += 1 } }
            supervisor.connect()
            #expect(await supervisor.send(Payload(text: "no JSON")) == .written)
            let outcome = try await supervisor.send(json: Order(dish: "soup", count: 2))
            #expect(outcome == .written)
            for await order in orders {
                #expect(order == Order(dish: "soup", count: 2))
                break
            }
            #expect(failures.count.withLock { $0 } == 1)
        }
    }

    @Test("Messages of SwiftProtobuf arrive")
    func protobuf() async throws {
        try await supervised("protobuf") { supervisor in
            var messages = supervisor.messages.makeAsyncIterator()
            supervisor.connect()
            let message = Google_Protobuf_Duration(seconds: 7, nanos: 8)
            let outcome = try await supervisor.send(protobuf: message)
            #expect(outcome == .written)
            let received = try await messages.next()?.protobuf(as: Google_Protobuf_Duration.self)
            #expect(received == message)
        }
    }
}

/// How many messages could not be read.
private final class Failures: Sendable {
    let count = Mutex(0)
}
