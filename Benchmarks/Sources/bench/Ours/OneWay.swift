import CBench
import CommandSupport
import SocketIO
import TransportAPI
import Transports

extension Recipe {
    static let tcpConnectionOneWay = Recipe(name: "connection", workload: .tcpOneWay) {
        try ConnectionPair($0, "tcp").flood(size: Workload.oneWaySize)
    }
    static let webSocketConnectionOneWay = Recipe(name: "connection", workload: .webSocketOneWay) {
        try ConnectionPair($0, "ws").flood(size: Workload.oneWaySize)
    }
    static let webSocketConnectionLarge = Recipe(name: "connection", workload: .webSocketLarge) {
        try ConnectionPair($0, "ws").flood(size: Workload.largeSize, unit: .megabytesPerSecond, first: 8)
    }
    static let tlsConnectionLarge = Recipe(name: "connection", workload: .tlsLarge) {
        try ConnectionPair($0, "tls").flood(size: Workload.largeSize, unit: .megabytesPerSecond, first: 64)
    }
}

/// The two ends of one connection: a client's connection and a server's, each on its own loop.
final class ConnectionPair: Sendable {
    /// The result of sending messages in one direction.
    struct Passage: Sendable {
        /// The time until the peer had all of them, in nanoseconds.
        var elapsed: Int64
        /// The number of allocations of each side's thread in that time.
        var sendAllocations: UInt64
        var receiveAllocations: UInt64
    }

    private let stage: Stage
    private let listener: any Listener
    private let near: any Connection
    private let far: any Connection

    init(_ stage: Stage, _ scheme: String) throws {
        self.stage = stage
        let (clientLoop, serverLoop) = (stage.clientLoop, stage.serverLoop)
        let listener = try blocking(on: serverLoop) {
            try await TransportRegistry.trial.listen("\(scheme)://127.0.0.1:0", on: serverLoop)
        }
        near = try blocking(on: clientLoop) {
            try await TransportRegistry.trial.connect("\(listener.endpoint)", on: clientLoop)
        }
        far = try blocking(on: serverLoop) {
            guard let connection = try await listener.accept() else {
                throw WrongResult(description: "the listener has ended")
            }
            return connection
        }
        self.listener = listener
    }

    func flood(
        size: Int,
        unit: Workload.Unit = .messagesPerSecond,
        first: Int = 2000
    ) -> Flood {
        Flood(size: size, unit: unit, first: first, end: { self.close() }) {
            try self.pass($0, size: size).elapsed
        }
    }

    func close() {
        _ = try? blocking(on: stage.clientLoop) { [near] in await near.close() }
    }

    /// Sends messages one after the other, and compares each at the receiver.
    func pass(_ count: Int, size: Int) throws -> Passage {
        let serverLoop = stage.serverLoop
        return try blocking(on: stage.clientLoop) { [near, far] in
            let receiver = Task(executorPreference: serverLoop) {
                try await Self.receive(count, size, from: far)
            }
            let start = Clocks.monotonic()
            let sent = try await Self.send(count, size, over: near)
            let received = try await receiver.value
            return Passage(
                elapsed: received.time - start,
                sendAllocations: sent,
                receiveAllocations: received.allocations
            )
        }
    }

    private nonisolated(nonsending) static func send(_ count: Int, _ size: Int, over connection: any Connection)
        async throws
        -> UInt64
    {
        var message = NumberedMessage(size: size)
        let before = cbench_allocations()
        for number in 0..<count {
            message.setNumber(number)
            let outcome = await connection.send(Payload(message.bytes))
            guard outcome.isSuccess else { throw WrongResult(description: "not sent: \(outcome)") }
        }
        return cbench_allocations() - before
    }

    private nonisolated(nonsending) static func receive(
        _ count: Int,
        _ size: Int,
        from connection: any Connection
    ) async throws -> (time: Int64, allocations: UInt64) {
        var expected = NumberedMessage(size: size)
        let before = cbench_allocations()
        for number in 0..<count {
            expected.setNumber(number)
            guard let message = try await connection.receive() else {
                throw WrongResult(description: "the connection has ended")
            }
            guard message.bytes.withUnsafeBytes({ expected.equals($0) }) else {
                throw WrongResult(description: "message \(number) differs from the sent one")
            }
        }
        return (Clocks.monotonic(), cbench_allocations() - before)
    }
}
