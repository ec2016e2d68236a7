import SocketIO
import Testing
import TransportAPI

/// Where the caller of a test runs. Each guarantee must hold on the connection's own loop and outside it.
enum Caller: CaseIterable {
    case onLoop, elsewhere
    /// In an actor that lives on the loop.
    case resident

    func run<Value: Sendable>(
        _ body: nonisolated(nonsending) @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        switch self {
        case .onLoop: try await Task(executorPreference: EventLoop.shared) { try await body() }.value
        case .elsewhere: try await Task.detached { try await body() }.value
        case .resident: try await Resident().run(body)
        }
    }
}

/// An actor whose executor is the loop of the connections.
actor Resident {
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        EventLoop.shared.serialExecutor.asUnownedSerialExecutor()
    }

    func echo(_ connection: any Connection, _ payload: Payload) async throws -> Payload? {
        async let outcome = connection.send(payload)
        #expect(EventLoop.shared.isCurrent)
        let received = try await connection.receive()
        #expect(EventLoop.shared.isCurrent)
        #expect(await outcome.isSuccess)
        return received
    }

    func run<Value: Sendable>(
        _ body: nonisolated(nonsending) @Sendable () async throws -> Value
    ) async throws -> Value {
        #expect(EventLoop.shared.isCurrent)
        return try await body()
    }
}
