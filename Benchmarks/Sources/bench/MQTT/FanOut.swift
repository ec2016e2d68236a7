import CommandSupport
import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

extension Recipe {
    static let embeddedFanOut = Recipe(name: "embedded broker", workload: .mqttFanOut) { stage in
        let loop = stage.serverLoop
        let broker = try blocking(on: loop) { try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", on: loop) }
        return try FanOutRun(stage, "\(broker.endpoint)", keeping: broker).flood
    }
    static let mosquittoFanOut = Recipe(name: "mosquitto", workload: .mqttFanOut) { stage in
        let broker = try Mosquitto.running(stage)
        return try FanOutRun(stage, "mqtt://127.0.0.1:\(broker.port)", keeping: broker).flood
    }
}

/// One client publishes at QoS 0, and a hundred others receive each message. The clients are the same for all brokers.
/// Each delivery counts.
private final class FanOutRun: @unchecked Sendable {
    // Unchecked, because its tasks prefer the connections' loop, which is one thread.
    private static let subscribers = 100
    /// The most messages in flight to all of them.
    private static let window = 64

    private let loop: SocketIO.EventLoop
    private let broker: any Sendable
    private let publisher: any Connection
    private let connections: [any Connection]
    private var message = NumberedMessage(size: Workload.oneWaySize)
    private var published = 0
    private var taken = 0

    init(_ stage: Stage, _ url: String, keeping broker: any Sendable) throws {
        let loop = stage.clientLoop
        (self.loop, self.broker) = (loop, broker)
        publisher = try blocking(on: loop) {
            try await TransportRegistry.standard.connect("\(url)/?publish=bench/fan", on: loop)
        }
        connections = try blocking(on: loop) {
            var connections: [any Connection] = []
            for _ in 0..<Self.subscribers {
                connections.append(
                    try await TransportRegistry.standard.connect("\(url)/?subscribe=bench/fan", on: loop)
                )
            }
            return connections
        }
    }

    /// Each delivery to a subscriber counts as a message.
    var flood: Flood {
        Flood(size: Workload.oneWaySize, first: 100 * Self.subscribers, end: close) { deliveries in
            let count = deliveries / Self.subscribers
            let elapsed = try blocking(on: self.loop) { try await self.run(count) }
            // Corrects for the remainder of the division.
            return elapsed * Int64(deliveries) / Int64(count * Self.subscribers)
        }
    }

    private func close() {
        _ = try? blocking(on: loop) {
            for connection in self.connections + [self.publisher] { await connection.close() }
        }
    }

    private nonisolated(nonsending) func run(_ count: Int) async throws -> Int64 {
        (published, taken) = (0, 0)
        let start = Clocks.monotonic()
        let takers = connections.map { connection in
            Task(executorPreference: loop) { try await self.take(count, from: connection) }
        }
        for _ in 0..<Self.window { try await publish(count) }
        for taker in takers { try await taker.value }
        return Clocks.monotonic() - start
    }

    private nonisolated(nonsending) func take(_ count: Int, from connection: any Connection) async throws {
        var expected = NumberedMessage(size: Workload.oneWaySize)
        for number in 0..<count {
            guard let payload = try await connection.receive() else {
                throw WrongResult(description: "a connection has ended")
            }
            expected.setNumber(number)
            guard payload.bytes.withUnsafeBytes({ expected.equals($0) }) else {
                throw WrongResult(description: "message \(number) differs from the published one")
            }
            taken += 1
            // One message has reached all subscribers, so the next one may be published.
            if taken % Self.subscribers == 0 { try await publish(count) }
        }
    }

    private nonisolated(nonsending) func publish(_ count: Int) async throws {
        guard published < count else { return }
        message.setNumber(published)
        published += 1
        let outcome = await publisher.send(Payload(message.bytes))
        guard outcome.isSuccess else { throw WrongResult(description: "not published: \(outcome)") }
    }
}
