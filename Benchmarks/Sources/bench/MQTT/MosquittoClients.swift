import CBench
import CommandSupport
import Foundation
import SocketIO
import TransportAPI
import Transports

// One client publishes to a topic that it has subscribed to, through mosquitto, and receives each message again.
extension Recipe {
    static let connectionAtMostOnce = Recipe(name: "connection, through mosquitto", workload: .mqttAtMostOnce) {
        try MQTTPassage.connection($0, qos: 0)
    }
    static let connectionAtLeastOnce = Recipe(name: "connection, through mosquitto", workload: .mqttAtLeastOnce) {
        try MQTTPassage.connection($0, qos: 1)
    }
    static let libraryAtMostOnce = Recipe(name: "libmosquitto, through mosquitto", workload: .mqttAtMostOnce) {
        try MQTTPassage.library($0, qos: 0)
    }
    static let libraryAtLeastOnce = Recipe(name: "libmosquitto, through mosquitto", workload: .mqttAtLeastOnce) {
        try MQTTPassage.library($0, qos: 1)
    }
}

enum MQTTPassage {
    /// The most messages in flight: at QoS 0 until they come back, at QoS 1 until they are acknowledged.
    static func window(_ qos: Int) -> Int { qos == 0 ? 256 : 64 }

    /// - Parameter name: a part of the topic, unique among the contenders.
    static func connection(_ stage: Stage, qos: Int, name: String = "connection") throws -> any Contender {
        let broker = try Mosquitto.running(stage)
        let loop = stage.clientLoop
        let topic = "bench/\(name)/\(qos)"
        let options = "publish=\(topic)&subscribe=\(topic)&qos=\(qos)&in-flight=\(window(qos))"
        let url = "mqtt://127.0.0.1:\(broker.port)/?\(options)"
        let connection = try blocking(on: loop) { try await TransportRegistry.standard.connect(url, on: loop) }
        return Flood(size: Workload.oneWaySize, end: { _ = try? blocking(on: loop) { await connection.close() } }) {
            count in
            let passage = ConnectionPassage(connection, count: count, window: window(qos))
            return try blocking(on: loop) {
                try await qos == 0 ? passage.unacknowledged() : passage.acknowledged(on: loop)
            }
        }
    }

    static func library(_ stage: Stage, qos: Int) throws -> any Contender {
        guard cbench_mosquitto_is_there() != 0 else {
            throw Missing(description: "libmosquitto is not installed (mosquitto-clients of scripts/peers bring it)")
        }
        let broker = try Mosquitto.running(stage)
        guard
            let client = cbench_mosquitto_open(
                Int32(broker.port),
                "bench/library/\(qos)",
                Int32(qos),
                Int32(window(qos))
            )
        else { throw SystemFailure("libmosquitto", errno: errno) }
        let size = Workload.oneWaySize
        return Flood(size: size, end: { cbench_mosquitto_close(client) }) { count in
            let elapsed = stage.pinned { cbench_mosquitto_run(client, Int64(count), Int32(window(qos)), size) }
            guard elapsed >= 0 else {
                throw WrongResult(description: SystemFailure("libmosquitto", errno: errno).message)
            }
            return elapsed
        }
    }
}

/// One run of our client.
private final class ConnectionPassage: @unchecked Sendable {
    // Unchecked, because its tasks prefer the connection's loop, which is one thread.
    private let connection: any Connection
    private let count: Int
    private let window: Int
    private var message = NumberedMessage(size: Workload.oneWaySize)
    private var expected = NumberedMessage(size: Workload.oneWaySize)
    private var published = 0

    init(_ connection: any Connection, count: Int, window: Int) {
        (self.connection, self.count, self.window) = (connection, count, window)
    }

    /// QoS 0: after each message that comes back, another one is sent.
    nonisolated(nonsending) func unacknowledged() async throws -> Int64 {
        let start = Clocks.monotonic()
        for _ in 0..<window { try await publish() }
        for number in 0..<count {
            try await take(number)
            try await publish()
        }
        return Clocks.monotonic() - start
    }

    /// QoS 1: sending ends with PUBACK, so there is one sending task for each message that may be in flight.
    nonisolated(nonsending) func acknowledged(on loop: SocketIO.EventLoop) async throws -> Int64 {
        let start = Clocks.monotonic()
        let senders = (0..<window).map { _ in
            Task(executorPreference: loop) { while self.published < self.count { try await self.publish() } }
        }
        for number in 0..<count { try await take(number) }
        for sender in senders { try await sender.value }
        return Clocks.monotonic() - start
    }

    private nonisolated(nonsending) func publish() async throws {
        guard published < count else { return }
        message.setNumber(published)
        published += 1
        let outcome = await connection.send(Payload(message.bytes))
        guard outcome.isSuccess else { throw WrongResult(description: "not published: \(outcome)") }
    }

    private nonisolated(nonsending) func take(_ number: Int) async throws {
        guard let payload = try await connection.receive() else {
            throw WrongResult(description: "the connection has ended")
        }
        expected.setNumber(number)
        guard payload.bytes.withUnsafeBytes({ expected.equals($0) }) else {
            throw WrongResult(description: "message \(number) differs from the published one")
        }
    }
}
