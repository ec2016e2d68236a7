import EmbeddedServers
import SocketIO
import TransportAPI
import Transports

extension Recipe {
    static let tcpSupervisor = Recipe(name: "supervisor", workload: .tcpRoundTrip) {
        try SupervisorRoundTrip($0, EchoServer($0, "tcp"))
    }
    static let tcpSupervisorElsewhere = Recipe(
        name: "supervisor, caller on the global executor",
        workload: .tcpRoundTrip
    ) {
        try SupervisorRoundTrip($0, EchoServer($0, "tcp"), prefersLoop: false)
    }
    static let tcpConnection = Recipe(name: "connection", workload: .tcpRoundTrip) {
        try ConnectionRoundTrip($0, EchoServer($0, "tcp"))
    }
    static let tlsSupervisor = Recipe(name: "supervisor", workload: .tlsRoundTrip) {
        try SupervisorRoundTrip($0, EchoServer($0, "tls"))
    }
    static let udpSupervisor = Recipe(name: "supervisor", workload: .udpRoundTrip) {
        try SupervisorRoundTrip($0, EchoServer($0, "udp"))
    }
    static let udpConnection = Recipe(name: "connection", workload: .udpRoundTrip) {
        try ConnectionRoundTrip($0, EchoServer($0, "udp"))
    }
    static let webSocketSupervisor = Recipe(name: "supervisor", workload: .webSocketRoundTrip) {
        try SupervisorRoundTrip($0, EchoServer($0, "ws"))
    }
    static let webSocketConnection = Recipe(name: "connection", workload: .webSocketRoundTrip) {
        try ConnectionRoundTrip($0, EchoServer($0, "ws"))
    }
}

/// An echo server. It runs until this object is released.
protocol EchoService: AnyObject, Sendable {
    var url: String { get }
}

/// The echo server of this package.
final class EchoServer: EchoService {
    private let server: EmbeddedServer

    init(_ stage: Stage, _ scheme: String) throws {
        let loop = stage.serverLoop
        server = try blocking(on: loop) {
            try await EmbeddedServer.start("\(scheme)://127.0.0.1:0", .echo, on: loop, registry: .trial)
        }
    }

    var url: String { "\(server.endpoint)" }
}

/// One connection without a supervisor, used from a task that prefers its loop.
final class ConnectionRoundTrip: Contender {
    private let stage: Stage
    private let service: any EchoService
    private let connection: any Connection

    init(_ stage: Stage, _ service: any EchoService) throws {
        (self.stage, self.service) = (stage, service)
        let (loop, url) = (stage.clientLoop, service.url)
        connection = try blocking(on: loop) { try await TransportRegistry.trial.connect(url, on: loop) }
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        try blocking(on: stage.clientLoop) { [connection] in
            var trips = RoundTrips(size: Workload.roundTripSize, nanoseconds: nanoseconds)
            repeat {
                let outcome = await connection.send(Payload(trips.message.bytes))
                guard outcome.isSuccess else { throw WrongResult(description: "not sent: \(outcome)") }
                guard let answer = try await connection.receive() else {
                    throw WrongResult(description: "the connection has ended")
                }
                guard try answer.bytes.withUnsafeBytes({ try trips.answered($0) }) else { break }
            } while true
            return try trips.median()
        }
    }

    func close() {
        _ = try? blocking(on: stage.clientLoop) { [connection] in await connection.close() }
    }
}

/// A supervisor, as an app uses it.
final class SupervisorRoundTrip: Contender {
    private let service: any EchoService
    private let supervisor: Supervisor
    private let executor: (any TaskExecutor)?

    /// - Parameter prefersLoop: whether the calling task prefers the supervisor's loop.
    init(_ stage: Stage, _ service: any EchoService, prefersLoop: Bool = true) throws {
        self.service = service
        supervisor = try Supervisor(service.url, registry: .trial, on: stage.clientLoop)
        supervisor.connect()
        executor = prefersLoop ? stage.clientLoop : nil
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        try blocking(on: executor) { [supervisor] in
            var answers = supervisor.messages.makeAsyncIterator()
            var trips = RoundTrips(size: Workload.roundTripSize, nanoseconds: nanoseconds)
            repeat {
                let outcome = await supervisor.send(Payload(trips.message.bytes))
                guard outcome.isSuccess else { throw WrongResult(description: "not sent: \(outcome)") }
                guard let answer = await answers.next() else { throw WrongResult(description: "no further message") }
                guard try answer.bytes.withUnsafeBytes({ try trips.answered($0) }) else { break }
            } while true
            return try trips.median()
        }
    }

    func close() {
        _ = try? blocking { [supervisor] in await supervisor.close() }
    }
}
