import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

@Suite("Adaptive keepalive over real connections", .timeLimit(.minutes(5)), .ownThread)
struct AdaptiveKeepaliveConnectionTests {
    /// The transports that have a network below them, which could drop an idle connection, and a ping.
    static let names = TransportRegistry.available.transports.filter { transport in
        let made = try? transport.make(Endpoint(scheme: transport.name, host: "h"), ConnectionContext())
        return transport.defaultPort != nil && made?.capabilities.hasNativePing == true
    }.map(\.name)

    private func configuration(_ endpoint: Endpoint) throws -> TransportConfiguration {
        var options = endpoint
        options.options += try TransportRegistry.trial.transport(named: endpoint.scheme).loopback("adaptive")
        var configuration = TransportConfiguration(endpoints: [options])
        var adaptive = AdaptiveKeepaliveConfiguration()
        adaptive.minimum = .milliseconds(20)
        adaptive.maximum = .milliseconds(80)
        configuration.supervisor.keepalive.adaptive = adaptive
        return configuration
    }

    /// Waits until the connection has the longest interval, and counts the connections that were opened.
    private final class Watch: SupervisorObserver {
        private let intervals = AsyncStream<Duration>.makeStream()
        private let opened = Locked(0)
        var connections: Int { opened.withLock { $0 } }

        func note(_ note: SupervisorEvent, at _: Instant) {
            switch note {
            case .keepaliveInterval(let interval): intervals.continuation.yield(interval)
            case .state(let state) where state.isOpen: opened.withLock { $0 += 1 }
            default: break
            }
        }

        func longest() async {
            for await interval in intervals.stream where interval == .milliseconds(80) { return }
        }
    }

    @Test("The interval reaches its maximum if nothing on the path drops idle connections", arguments: names)
    func plain(name: String) async throws {
        let server = try await EmbeddedServer.start("\(name)://127.0.0.1:0", registry: .trial)
        let watch = Watch()
        let supervisor = try Supervisor(try configuration(server.endpoint), registry: .trial) { $0.observer = watch }
        supervisor.connect()
        await watch.longest()
        await supervisor.close()
        await server.stop()
    }

    @Test("The interval reaches its maximum in a session, on one connection", arguments: ["tcp", "ws", "udp"])
    func session(name: String) async throws {
        let count = Locked(0)
        let server = SessionServer(on: EventLoop.shared) { _ in count.withLock { $0 += 1 } }
        let listener = try await TransportRegistry.trial.listen("\(name)://127.0.0.1:0")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = try configuration(listener.endpoint)
        configuration.supervisor.delivery.mode = .session
        let watch = Watch()
        let supervisor = try Supervisor(configuration, registry: .trial) { $0.observer = watch }
        supervisor.connect()
        await watch.longest()
        #expect(count.withLock { $0 } == 1 && watch.connections == 1)
        await supervisor.close()
        await listener.close()
        await server.close()
        try await serving.value
    }
}
