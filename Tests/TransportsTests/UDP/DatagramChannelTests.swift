#if os(Linux)
import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Tests a client whose machine gets another address.
@Suite("UDP: a client that changes its address", .timeLimit(.minutes(5)), .ownThread)
struct DatagramChannelTests {
    /// A connection whose sockets bind these addresses of this machine, one after the other.
    private static func connect(
        _ configuration: UDPConfiguration,
        from hosts: [String],
        to endpoint: Endpoint,
        on loop: EventLoop = .shared
    ) async throws -> any Connection {
        let target = try #require(SocketAddress(numeric: endpoint.host, port: endpoint.port ?? 0))
        let core = try UDPCore(client: configuration)
        return try await running(on: loop) { () async throws(TransportError) in
            var left = hosts[...]
            let channel: DatagramChannel
            do throws(SystemError) {
                channel = try DatagramChannel(largest: 1216, on: loop) { () throws(SystemError) in
                    guard let own = left.popFirst().flatMap({ SocketAddress(numeric: $0, port: 0) }) else {
                        throw SystemError("bind", EADDRNOTAVAIL)
                    }
                    return try DatagramSocket(connectedTo: target, from: own, on: loop)
                }
            } catch {
                throw TransportError(error, .connect)
            }
            return try await ConnectionDriver(core, over: channel, on: loop).openConnection(
                deadline: loop.now + 20_000_000_000
            )
        }
    }

    private static func networkChanges(_ connection: any Connection) async {
        let driver = (connection as? CoreConnection)?.driver
        await withCheckedContinuation { continuation in
            EventLoop.shared.execute {
                driver?.value.networkChanged()
                continuation.resume()
            }
        }
    }

    @Test("A client continues its session from a new address", arguments: [UDPReliability.off, .ordered])
    func moves(reliability: UDPReliability) async throws {
        let (events, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0") { continuation.yield($0) }
        let connection = try await Self.connect(
            UDPConfiguration(reliability: reliability),
            from: ["127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4"],
            to: server.endpoint
        )
        for round in 0..<4 as Range<UInt8> {
            // The address changes twice. It stays the same once, and once there is no new address.
            if round > 0 { await Self.networkChanges(connection) }
            #expect(await connection.send(Payload([round])).isSuccess)
            #expect(try await connection.receive()?.bytes == [round])
            _ = try await connection.ping()
        }
        await Self.networkChanges(connection)
        _ = try await connection.ping()
        await connection.close()
        let event = await events.first { _ in true }
        #expect(event?.client?.hasPrefix("127.0.0.4:") == true)
        await server.stop()
    }

    private static func run(_ command: String) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", command]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    /// Moves the loop's thread into its own network namespace, where addresses may change. Returns the namespace's path
    /// in /proc.
    private static func leave(_ loop: EventLoop) async throws -> String {
        typealias Unshare = @convention(c) (Int32) -> Int32
        let thread: String? = await withCheckedContinuation { continuation in
            loop.execute {
                let newNetwork: Int32 = 0x4000_0000
                let unshare = dlsym(nil, "unshare").map { unsafeBitCast($0, to: Unshare.self) }
                let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
                continuation.resume(returning: unshare?(newNetwork) == 0 ? path : nil)
            }
        }
        return "/proc/\(try #require(thread))/ns/net"
    }

    @Test(
        "A client continues its session when its address is removed",
        .enabled(if: run("unshare -n ip link && which nsenter"), "needs root, iproute2 and nsenter"),
        arguments: [UDPReliability.off, .ordered]
    )
    func lossOfAddress(reliability: UDPReliability) async throws {
        let loop = try EventLoop(name: "elsewhere")
        let network = try await Self.leave(loop)
        let enter = "nsenter --net=\(network) sh -c '"
        let connections =
            "ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up;"
        let addresses = "ip addr add 10.7.0.9/32 dev lo; ip addr add 10.7.1.1/24 dev v0; ip addr add 10.7.2.1/24 dev v1"
        try #require(Self.run(enter + connections + addresses + "'"))
        let server = try await EmbeddedServer.start("udp://10.7.0.9:0", .echo, on: loop)
        let connection = try await Self.connect(
            UDPConfiguration(reliability: reliability),
            from: ["10.7.1.1", "10.7.2.1"],
            to: server.endpoint,
            on: loop
        )
        // Without this, the send could run inline on another thread, which would open the new socket in its own
        // network.
        try await withTaskExecutorPreference(loop) {
            #expect(await connection.send(Payload([1])).isSuccess)
            #expect(try await connection.receive()?.bytes == [1])
            try #require(Self.run(enter + "ip addr del 10.7.1.1/24 dev v0'"))
            #expect(await connection.send(Payload([2])).isSuccess)
            #expect(try await connection.receive()?.bytes == [2])
        }
        await connection.close()
        await server.stop()
    }
}
#endif
