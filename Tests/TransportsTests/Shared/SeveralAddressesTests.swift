#if os(Linux)
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// A host with two addresses, of which the first accepts connections and then resets them or stays silent. Linux alone has
/// all of 127.0.0.0/8 on loopback.
@Suite("A host with several addresses", .timeLimit(.minutes(5)), .ownThread)
struct SeveralAddressesTests {
    /// Each name has these addresses, in this order.
    private final class Names: NameService {
        let hosts: [String]

        init(_ hosts: [String]) { self.hosts = hosts }

        func lookUp(
            _: String,
            port: UInt16,
            _ answer: @escaping @Sendable (Result<[SocketAddress], ConnectError>) -> Void
        ) {
            answer(.success(hosts.compactMap { SocketAddress(numeric: $0, port: port) }))
        }
    }

    private static func loop(_ hosts: String...) throws -> EventLoop {
        try EventLoop(poller: .automatic, names: Names(hosts.isEmpty ? ["127.0.0.2", "127.0.0.1"] : hosts))
    }

    private static func endpoint(_ scheme: String, _ port: UInt16, _ options: EndpointOptions = [:]) -> Endpoint {
        Endpoint(scheme: scheme, host: "localhost", port: port, path: "", options: options.list)
    }

    private static func connect(
        _ endpoint: Endpoint,
        on loop: EventLoop,
        timeout: Duration = .seconds(10)
    ) async throws -> any Connection {
        let descriptor = try TransportRegistry.standard.transport(named: endpoint.scheme)
        return try await descriptor.make(endpoint, ConnectionContext(on: loop)).connect(timeout: timeout)
    }

    @Test(
        "An address that resets or says nothing is left in the same attempt, and tried last from then on",
        arguments: ["ws", "mqtt", "mqtt+ws"],
        [RawServer.Answer.reset, .silent]
    )
    func nextAddress(scheme: String, answer: RawServer.Answer) async throws {
        let loop = try Self.loop()
        let server = try await PlainServer(scheme)
        let port = try #require(server.endpoint.port)
        let wrong = try RawServer(port: port, host: 2, answer)
        var endpoint = server.endpoint
        endpoint.host = "localhost"
        for _ in 0..<3 {
            let connection = try await Self.connect(endpoint, on: loop)
            #expect(await connection.send(bytes("hello")).isSuccess)
            await connection.close()
        }
        #expect(wrong.connectionCount == 1)
        wrong.stop()
        await server.stop()
    }

    @Test("The network's change makes the address the first one again")
    func networkChange() async throws {
        let loop = try Self.loop()
        let server = try await PlainServer("ws")
        let port = try #require(server.endpoint.port)
        let wrong = try RawServer(port: port, host: 2, .reset)
        let paths = ManualPathMonitor(NetworkPath(isUsable: true, network: "home"))
        let (supervisor, recorder) = try Supervisor.recorded([Self.endpoint("ws", port)], on: loop) {
            $0.paths = paths
        }
        supervisor.connect()
        // A client can be open before its server has accepted the connection, and so each one sends a message.
        for round in 1...2 {
            #expect(await supervisor.send(bytes("\(round)")).isSuccess)
            await server.wait(for: round)
            #expect(wrong.connectionCount == 1)
            if round == 2 { paths.set(NetworkPath(isUsable: true, network: "mobile")) }
            await server.dropConnections()
            await recorder.waitUntilOpen(round + 1)
        }
        #expect(wrong.connectionCount == 2)
        await supervisor.close()
        wrong.stop()
        await server.stop()
    }

    @Test("The connection to a silent address is closed before the handshake goes to the next one")
    func oneAtATime() async throws {
        let loop = try Self.loop()
        let port = try ReservedPort(isDatagram: false)
        let wrong = try RawServer(port: port.port, host: 2, .silent)
        let wereClosed = Locked<[Bool]>([])
        let listener = try await TransportRegistry.standard.listen(
            "ws://127.0.0.1:\(port.port)",
            decide: { _ in
                wereClosed.withLock { $0.append(wrong.areHeldClosed) }
                return .accept
            }
        )
        let connection = try await Self.connect(Self.endpoint("ws", port.port), on: loop)
        #expect(wereClosed.withLock { $0 } == [true])
        await connection.close()
        wrong.stop()
        await listener.close()
    }

    @Test("An answer is final, and no other address is asked", arguments: [403, 404, 503])
    func answer(status: Int) async throws {
        let loop = try Self.loop()
        let port = try ReservedPort(isDatagram: false)
        let first = try RawServer(port: port.port, host: 2, .http("HTTP/1.1 \(status) X\r\nContent-Length: 0\r\n\r\n"))
        let second = try RawServer(port: port.port, .reset)
        let error = await #expect(throws: TransportError.self) {
            _ = try await Self.connect(Self.endpoint("ws", port.port), on: loop)
        }
        #expect(error?.detail == status)
        #expect(second.connectionCount == 0)
        first.stop()
        second.stop()
    }

    @Test("The error says what happened at each address")
    func errors() async throws {
        let loop = try Self.loop()
        let port = try ReservedPort(isDatagram: false)
        let wrong = try RawServer(port: port.port, host: 2, .silent)
        let error = try #require(
            await #expect(throws: TransportError.self) {
                _ = try await Self.connect(Self.endpoint("ws", port.port), on: loop)
            }
        )
        #expect(error.code == .timedOut && error.phase == .handshake)
        #expect(error.reason.contains("127.0.0.1:\(port.port): connection refused"), "\(error)")
        wrong.stop()
    }

    @Test("A session leaves an address that accepts connections and does not answer the hello")
    func session() async throws {
        let loop = try Self.loop()
        let host = try await SessionHost("tcp")
        let port = try #require(host.endpoint.port)
        let wrong = try RawServer(port: port, host: 2, .silent)
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = .session
        configuration.connectTimeout = .seconds(10)
        let (supervisor, recorder) = try Supervisor.recorded([Self.endpoint("tcp", port)], configuration, on: loop)
        supervisor.connect()
        await recorder.waitUntilOpen()
        #expect(wrong.connectionCount == 1)
        await supervisor.close()
        wrong.stop()
        await host.stop()
    }

    @Test("The race covers TLS: a silent address costs no time", .enabled(if: hasOpenSSL), arguments: ["wss", "tls"])
    func encrypted(scheme: String) async throws {
        let loop = try Self.loop()
        let authority = try ThrowAwayAuthority("Own")
        let host = try await TLSHost(scheme, try authority.issue(.init("localhost", names: ["DNS:localhost"])))
        let port = try #require(host.port)
        let wrong = try RawServer(port: port, host: 2, .silent)
        // Without the race, the silent address would use up half of the time and more.
        let endpoint = Self.endpoint(scheme, port, ["ca": authority.certificate])
        let accepted = Task { try await host.listener.accept() }
        let connection = try await Self.connect(endpoint, on: loop, timeout: .seconds(600))
        #expect(connection.encryption?.isVerified == true)
        _ = try await accepted.value
        await connection.close()
        wrong.stop()
        await host.stop()
    }

    @Test("The certificate of another address is refused, and the right one is found", .enabled(if: hasOpenSSL))
    func otherCertificate() async throws {
        let loop = try Self.loop()
        let (own, foreign) = (try ThrowAwayAuthority("Own"), try ThrowAwayAuthority("Foreign"))
        let names = ["DNS:localhost"]
        let host = try await TLSHost("wss", try own.issue(.init("localhost", names: names)))
        let port = try #require(host.port)
        let other = try foreign.issue(.init("localhost", names: names))
        let portal = try await TransportRegistry.standard.listen(
            Endpoint(
                scheme: "wss",
                host: "127.0.0.2",
                port: port,
                path: "",
                options: (["certificate": other.certificate, "key": other.key] as EndpointOptions).list
            )
        )
        let connection = try await Self.connect(Self.endpoint("wss", port, ["ca": own.certificate]), on: loop)
        #expect(connection.encryption?.isVerified == true)
        await connection.close()
        await portal.close()
        await host.stop()
    }
}
#endif
