import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Protocols
@testable import Transports

/// An MQTT connection has one keepalive. It is the protocol's own, and its interval comes from the supervisor or the
/// URL.
@Suite("The keepalive interval of MQTT")
struct MQTTRhythmTests {
    private func configuration(_ url: String) throws -> MQTTConfiguration {
        let endpoint = try Endpoint(url)
        let descriptor = try TransportRegistry.trial.transport(named: endpoint.scheme)
        let settings = try MQTTClientSettings.list.read(endpoint)
        return try settings.configuration(endpoint, rhythm: descriptor.keepaliveInterval)
    }

    @Test(
        "The interval and the keep alive of CONNECT determine each other",
        arguments: [
            ("mqtt://h", 60_000, 80), ("mqtt+ws://h", 30_000, 40), ("mqtt://h/?keepalive-interval=2m", 120_000, 160),
            ("mqtt+ws://h/?keepalive-interval=100ms", 100, 1), ("mqtt://h/?keep-alive=60", 45_000, 60),
            ("mqtt://h/?keep-alive=0&keepalive-interval=7s", 7000, 0),
            ("mqtt://h/?keep-alive=8&keepalive-interval=7s", 6000, 8),
            ("mqtt://h/?keepalive-interval=30h", 49_151_250, 65_535),
        ] as [(String, Int64, Int)]
    )
    func interval(url: String, milliseconds: Int64, keepAlive: Int) throws {
        let configuration = try configuration(url)
        #expect(configuration.pingInterval == milliseconds * 1_000_000)
        #expect(configuration.keepAlive == keepAlive)
        let transport = try TransportRegistry.trial.transport(for: Endpoint(url))
        #expect(transport.capabilities.keepsItselfAlive)
        #expect(transport.capabilities.keepaliveInterval == .milliseconds(milliseconds))
    }

    @Test(
        "A connection without its own keepalive leaves it to the supervisor",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func none(scheme: String) throws {
        let transport = try TransportRegistry.trial.transport(for: Endpoint("\(scheme)://h/?keep-alive=0"))
        #expect(!transport.capabilities.keepsItselfAlive)
        #expect(transport.capabilities.keepaliveInterval == (scheme == "mqtt" ? .seconds(60) : .seconds(30)))
    }

    @Test(
        "An idle connection under a supervisor pings once in each interval",
        arguments: [
            ("mqtt://h", .automatic, 10), ("mqtt+ws://h", .automatic, 20),
            ("mqtt://h", .seconds(180), 10), ("mqtt://h", .seconds(20), 30), ("mqtt://h", .off, 10),
            ("mqtt://h/?keep-alive=0", .automatic, 10), ("mqtt://h/?keep-alive=0", .off, 0),
        ] as [(String, KeepaliveConfiguration.Interval, Int)]
    )
    func supervised(url: String, interval: KeepaliveConfiguration.Interval, expected: Int) throws {
        var client = MQTTClientHarness(try MQTTClientCore(configuration(url)))
        client.openByHand()
        var supervising = SupervisorConfiguration()
        supervising.keepalive.interval = interval
        var random = RandomSource.seeded(1)
        var machine = SupervisorStateMachine(supervising, endpoints: [try Endpoint(url)], using: &random)
        var now = Instant.zero
        var count = 0
        /// The number of pings among the machine's actions.
        func pings(_ event: ConversationEvent) -> Int {
            var actions: [SupervisorAction] = []
            machine.handle(event, at: now, using: &random, &actions)
            return actions.count { if case .ping = $0 { true } else { false } }
        }
        var actions: [SupervisorAction] = []
        machine.handle(.connect, at: now, using: &random, &actions)
        let capabilities = client.core.capabilities
        machine.handle(.connected(machine.connection, capabilities), at: now, using: &random, &actions)
        var asked: Set<UInt64> = []
        for _ in 0..<602 {
            now = now.advanced(by: .seconds(1))
            client.advance(by: .seconds(1))
            if let deadline = machine.deadline, deadline <= now {
                for _ in 0..<pings(.deadlineReached(SignsOfLife(bytesReceived: 0))) {
                    asked.insert(try client.core.ping(&client.context))
                }
            }
            let sent = client.takeOutput()
            count += sent.count / 2
            let before = client.pongs.count
            client.feed((0..<sent.count / 2).flatMap { _ in [0xd0, 0] as [UInt8] })
            for number in client.pongs.dropFirst(before) where asked.contains(number) {
                _ = pings(.pong(machine.connection, .zero))
            }
        }
        #expect(client.failure == nil && count == expected)
    }

    @Test("A supervisor sets the keepalive of its connections unless their URL sets it")
    func paced() throws {
        func configuration(
            _ url: String,
            _ change: (inout KeepaliveConfiguration) -> Void = { _ in }
        ) throws -> MQTTConfiguration {
            var keepalive = KeepaliveConfiguration()
            change(&keepalive)
            let endpoint = try Endpoint(url)
            let settings = try MQTTClientSettings.list.read(endpoint, ignoring: []) {
                $0.prepare(ConnectionContext(keepalive: keepalive))
            }
            return try settings.configuration(endpoint, rhythm: .seconds(60))
        }
        #expect(try configuration("mqtt://h").keepAlive == 80)
        let slow = try configuration("mqtt://h") { $0.interval = .seconds(180) }
        #expect(slow.keepaliveInterval == .seconds(180) && slow.keepAlive == 240)
        #expect(try configuration("mqtt://h") { $0.interval = .off }.keepAlive == 0)
        #expect(try configuration("mqtt://h") { $0.adaptive = AdaptiveKeepaliveConfiguration() }.keepAlive == 0)
        #expect(try configuration("mqtt://h") { $0.timeout = .seconds(3) }.pingTimeout == .seconds(3))
        #expect(try configuration("mqtt://h").pingTimeout == MQTTConfiguration().pingTimeout)
        let own = try configuration("mqtt://h/?keep-alive=9&ping-timeout=2s") {
            $0.interval = .off
            $0.timeout = .seconds(3)
        }
        #expect(own.keepAlive == 9 && own.keepaliveInterval == nil && own.pingTimeout == .seconds(2))
        let interval = try configuration("mqtt://h/?keepalive-interval=7s") { $0.interval = .seconds(180) }
        #expect(interval.keepaliveInterval == .seconds(7) && interval.keepAlive == 10)
    }

    @Test("Every transport accepts the keepalive of a supervisor", arguments: TransportRegistry.available.transports)
    func accepted(transport: TransportDescriptor) throws {
        var keepalive = KeepaliveConfiguration()
        (keepalive.interval, keepalive.timeout) = (.seconds(180), .seconds(3))
        let endpoint = Endpoint(scheme: transport.name, host: "h")
        let context = ConnectionContext(headers: [try HTTPHeader("X", "1")], keepalive: keepalive)
        let made = try TransportRegistry.available.transport(for: endpoint, in: context)
        #expect(made.endpoint == endpoint && made.endpoint.options.isEmpty)
        guard made.capabilities.routesByTopic else { return }
        #expect(made.capabilities.keepaliveInterval == .seconds(180))
    }
}
