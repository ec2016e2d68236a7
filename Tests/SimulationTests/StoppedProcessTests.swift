import SocketIO
import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers
@testable import Simulation

/// Processes that do not run for a while, as after SIGSTOP and SIGCONT. The bytes that their peers have sent
/// meanwhile wait in their sockets.
@Suite("A process that was stopped", .timeLimit(.minutes(5)))
struct StoppedProcessTests {
    private func configuration(isSession: Bool) -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = isSession ? .session : .plain
        return configuration
    }

    /// Stops a client when it has sent its ping, and the pong is in flight.
    @Test(
        "A client reads the pong that has come meanwhile, and keeps its connection",
        arguments: ["ws", "tls"],
        [true, false]
    )
    func client(_ scheme: String, hasEdges: Bool) throws {
        let hosts = TwoHosts(hasEdges: hasEdges)
        let address = hosts.serve(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: false))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.setPath { $0.latency = 200_000_000...200_000_000 }
        let before = hosts.client.bytesSent
        #expect(hosts.run(seconds: 70) { hosts.client.bytesSent > before })
        hosts.client.pausedUntil = hosts.world.now + 60 * TwoHosts.second
        hosts.run(seconds: 200)
        #expect(hosts.ends.isEmpty && hosts.error == nil, "\(hosts.ends)")
        hosts.onClient { hosts.outcomes.append(await supervisor.send(Payload(text: "alive"))) }
        #expect(hosts.run(seconds: 10) { hosts.received == 5 } && hosts.outcomes == [.written])
    }

    /// A client of MQTT that sends a packet in each second, and does not wait for the broker. Framing by varint makes the first
    /// byte of each packet a length.
    private func chat(with port: UInt16, on hosts: TwoHosts) {
        hosts.onClient {
            let url = "tcp://\(hosts.server.hostName):\(port)?framing=varint"
            let connection = try await hosts.registry.connect(url, on: hosts.clientLoop)
            // CONNECT with a keep alive of 2 s: the broker ends the connection after 3 s of silence.
            _ = await connection.send(
                Payload([15, 0, 4, 77, 81, 84, 84, 4, 2, 0, 2, 0, 3, 97, 98, UInt8(48 + hosts.received)])
            )
            hosts.received += 1
            hosts.onClient { hosts.ends.append(await connection.closed()) }
            while hosts.ends.isEmpty {
                // PUBLISH with 44 bytes.
                _ = await connection.send(Payload([47, 0, 1, 97] + [UInt8](repeating: 7, count: 44)))
                await hosts.world.pause(TwoHosts.second)
            }
        }
    }

    @Test("A broker keeps the clients that have sent something in each second", arguments: [true, false])
    func broker(hasEdges: Bool) throws {
        let hosts = TwoHosts(hasEdges: hasEdges)
        let address = hosts.serveBroker("mqtt")
        #expect(hosts.run(seconds: 10) { address() != nil })
        let url = try #require(address())
        let port = try #require(try Endpoint(url).port)
        for _ in 0..<5 { chat(with: port, on: hosts) }
        // Events come one by one, so that not all fit into one call.
        hosts.world.kernel.conditions.reports = 1
        hosts.run(seconds: 10)
        #expect(hosts.received == 5 && hosts.ends.isEmpty)
        for _ in 0..<5 {
            hosts.server.pausedUntil = hosts.world.now + 5 * TwoHosts.second
            hosts.run(seconds: 15)
            #expect(hosts.ends.isEmpty, "\(hosts.ends)")
        }
    }

    @Test("A session server keeps the clients that have answered", arguments: ["ws", "tcp"], [true, false])
    func sessions(_ scheme: String, hasEdges: Bool) throws {
        let hosts = TwoHosts(hasEdges: hasEdges)
        let address = hosts.serveSessions(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        var configuration = configuration(isSession: true)
        // The client never asks, so that only the server does.
        configuration.keepalive.interval = .off
        let supervisor = try hosts.supervise(try #require(address()), configuration)
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.run(seconds: 5)
        let before = hosts.server.bytesSent
        #expect(hosts.run(seconds: 100) { hosts.server.bytesSent > before })
        hosts.server.pausedUntil = hosts.world.now + 60 * TwoHosts.second
        hosts.run(seconds: 200)
        #expect(hosts.ends.isEmpty, "\(hosts.ends)")
        _ = supervisor
    }

    @Test(
        "After a jump of the clock the client pings at once, and a dead connection ends one timeout later",
        arguments: ["ws", "wss", "mqtt", "mqtts"]
    )
    func suspended(_ scheme: String) throws {
        let hosts = TwoHosts()
        let address = scheme.hasPrefix("mqtt") ? hosts.serveBroker(scheme) : hosts.serve(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: false))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.run(seconds: 5)
        hosts.client.pausedUntil = hosts.world.now + 600 * TwoHosts.second
        hosts.setPath { $0.cutUntil = .max }
        hosts.run(seconds: 599)
        let before = hosts.client.bytesSent
        #expect(hosts.run(seconds: 1.1) { hosts.client.bytesSent > before })
        #expect(hosts.run(seconds: 10.1) { !hosts.ends.isEmpty })
        #expect(hosts.ends.first?.error?.code == .keepaliveTimeout, "\(hosts.ends)")
        _ = supervisor
    }
}
