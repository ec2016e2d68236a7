import SocketIO
import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers
@testable import Simulation

/// Messages that take longer than interval and timeout of the keepalive, and paths that only seem slow. All settings are the
/// defaults.
@Suite("The keepalive on slow paths", .timeLimit(.minutes(5)))
struct SlowPathTests {
    private static let megabyte = 1_000_000

    private func configuration(isSession: Bool) -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = isSession ? .session : .plain
        return configuration
    }

    @Test(
        "A megabyte at 16 kB/s reaches a server",
        arguments: ["ws", "tcp", "wss", "tls"],
        [false, true]
    )
    func upload(_ scheme: String, isSession: Bool) throws {
        let hosts = TwoHosts()
        let address = isSession ? hosts.serveSessions(scheme) : hosts.serve(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: isSession))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.setPath { $0.parameters.bytesPerSecond = 16_000 }
        let began = hosts.world.now
        hosts.onClient {
            hosts.outcomes.append(await supervisor.send(Payload([UInt8](repeating: 7, count: Self.megabyte))))
        }
        let arrived = hosts.run(seconds: 120) { hosts.received == Self.megabyte && !hosts.outcomes.isEmpty }
        #expect(arrived && hosts.ends.isEmpty && hosts.error == nil, "\(hosts.ends) \(hosts.error ?? "")")
        #expect(hosts.outcomes == [isSession ? .acknowledged : .written])
        #expect(hosts.world.now - began > 60 * TwoHosts.second, "the path was slow")
        // The connection that has carried it is alive afterwards.
        hosts.run(seconds: 120)
        #expect(hosts.ends.isEmpty)
    }

    @Test("A megabyte at 16 kB/s reaches a client", arguments: ["ws", "tcp", "tls"])
    func download(_ scheme: String) throws {
        let hosts = TwoHosts()
        let address = hosts.serveSessions(scheme) { session in
            hosts.onServer {
                await hosts.world.pause(TwoHosts.second)
                hosts.setPath { $0.parameters.bytesPerSecond = 16_000 }
                hosts.outcomes.append(await session.send(Payload([UInt8](repeating: 7, count: Self.megabyte))))
            }
        }
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: true))
        var received = 0
        hosts.onClient { for await message in supervisor.messages { hosts.received += message.bytes.count } }
        let arrived = hosts.run(seconds: 120) { hosts.received == Self.megabyte && !hosts.outcomes.isEmpty }
        received = hosts.received
        #expect(arrived && received == Self.megabyte && hosts.ends.isEmpty, "\(hosts.ends)")
        #expect(hosts.outcomes == [.acknowledged])
    }

    @Test("A megabyte at 8 kB/s reaches a broker", arguments: ["mqtt", "mqtt+ws", "mqtts"])
    func publish(_ scheme: String) throws {
        let hosts = TwoHosts()
        let address = hosts.serveBroker(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        let broker = try #require(address())
        let url = broker + (broker.contains("?") ? "&" : "?") + "publish=loop&qos=1&keepalive-interval=5s&keep-alive=10"
        let supervisor = try hosts.supervise(url, configuration(isSession: false))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.setPath { $0.parameters.bytesPerSecond = 8_000 }
        hosts.onClient {
            hosts.outcomes.append(await supervisor.send(Payload([UInt8](repeating: 7, count: Self.megabyte))))
        }
        let isDone = hosts.run(seconds: 200) { !hosts.outcomes.isEmpty }
        hosts.run(seconds: 60)
        #expect(isDone && hosts.ends.isEmpty && hosts.error == nil, "\(hosts.ends) \(hosts.error ?? "")")
        #expect(hosts.outcomes == [.acknowledged])
    }

    @Test(
        "A silent black hole is found within interval and timeout while a small message is sent in each second",
        arguments: ["ws", "wss", "tcp"]
    )
    func blackHole(_ scheme: String) throws {
        let hosts = TwoHosts()
        let address = hosts.serve(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: false))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.onClient {
            while hosts.ends.isEmpty {
                _ = await supervisor.send(Payload([UInt8](repeating: 1, count: 50)))
                await hosts.world.pause(TwoHosts.second)
            }
        }
        hosts.run(seconds: 100)
        #expect(hosts.ends.isEmpty && hosts.received > 4000)
        hosts.setPath { $0.cutUntil = .max }
        let cut = hosts.world.now
        let limit = scheme == "tcp" ? 70.0 : 40.0
        #expect(hosts.run(seconds: limit + 0.1) { !hosts.ends.isEmpty })
        #expect(hosts.ends.first?.error?.code == .keepaliveTimeout)
        #expect(hosts.world.now > cut)
    }

    @Test(
        "A peer whose system accepts a mebibyte and answers nothing is found once that is full",
        arguments: [100_000, 16_000]
    )
    func swallowed(bytesPerSecond: Int) throws {
        let hosts = TwoHosts(buffers: 1 << 20)
        let address = hosts.serve("ws")
        #expect(hosts.run(seconds: 10) { address() != nil })
        let supervisor = try hosts.supervise(try #require(address()), configuration(isSession: false))
        #expect(hosts.run(seconds: 10) { hosts.isOpen })
        hosts.setPath { $0.parameters.bytesPerSecond = Double(bytesPerSecond) }
        hosts.server.pausedUntil = .max
        let began = hosts.world.now
        hosts.onClient {
            while hosts.ends.isEmpty {
                guard await supervisor.send(Payload([UInt8](repeating: 1, count: 64_000))) == .written else { break }
            }
        }
        // The interval, the time in which the path carries what the peer's system accepts, and one and a quarter timeouts.
        let bound = 30 + Double(1 << 20) / Double(bytesPerSecond) + 12.5
        #expect(hosts.run(seconds: bound + 1) { !hosts.ends.isEmpty })
        #expect(hosts.ends.first?.error?.code == .keepaliveTimeout)
        let took = Double(hosts.world.now - began) / Double(TwoHosts.second)
        #expect(took > 39, "\(took)")
        hosts.server.pausedUntil = 0
    }
}
