import EmbeddedServers
import TestSupport
import Testing
import Transports

/// Tests hostile clients that use MQTT.
@Suite("Clients that attack a broker", .timeLimit(.minutes(5)), .ownThread)
struct HostileBrokerTests {
    @Test(
        "A broker limits the memory for the identifiers and wills of all clients",
        arguments: ["mqtt", "mqtt+ws"],
        [false, true]
    )
    func greedyConnects(transport: String, byWill: Bool) async throws {
        let attacked = try await Attacked(transport, "max-buffered=200000&max-will=131070&max-client-id=65535")
        var hostile: [HostileClient] = []
        for number in 0..<4 {
            let client = try HostileClient(attacked.server)
            let size = 50_000 + number * 4000
            let name = "m\(number)" + String(repeating: "n", count: byWill ? 0 : size)
            let will = byWill ? [UInt8](repeating: 65, count: size) : nil
            if transport == "mqtt" {
                await client.connectMQTT(name, will: will)
            } else {
                await client.connectMQTTOverWebSocket(name, will: will)
            }
            hostile.append(client)
        }
        let error = try #require(try await attacked.event().reason.error)
        #expect(error.code == .resourcesExhausted)
        #expect(try await attacked.isServing())
        withExtendedLifetime(hostile) {}
        await attacked.stop()
    }

    @Test("A broker refuses a client with a long identifier or a large will, and reports it")
    func refusedConnects() async throws {
        let long = String(repeating: "n", count: 1025)
        let byName = try await ending("mqtt", "") { await $0.connectMQTT(long) }
        #expect(byName.code == .handshakeFailed && byName.reason.contains("1025 bytes"))
        let large = [UInt8](repeating: 65, count: 16 << 10)
        let byWill = try await ending("mqtt", "") { await $0.connectMQTT(will: large) }
        #expect(byWill.code == .messageTooLarge && byWill.reason.contains("16385 bytes"))
    }

    @Test("A broker reports each client whose identifier is taken over, and keeps nothing of it")
    func takeovers() async throws {
        let attacked = try await Attacked("mqtt")
        var hostile: [HostileClient] = []
        for number in 0..<50 {
            hostile.append(try HostileClient(attacked.server))
            await hostile[number].connectMQTT("ann", clean: number % 3 == 0)
        }
        for _ in 1..<50 { #expect(try await attacked.code() == .closedByPeer) }
        let statistics = try #require(await attacked.server.brokerStatistics())
        #expect(statistics.connections == 2 && statistics.sessions == 2)
        #expect(try await attacked.isServing())
        withExtendedLifetime(hostile) {}
        await attacked.stop()
    }

    private static let nothingNew: [(String, [UInt8])] = [
        ("PUBLISH", [0x34, 6, 0, 1, 120, 0, 1, 65]), ("PUBREL", [0x62, 2, 0, 9]), ("PUBREC", [0x50, 2, 0, 9]),
        ("PUBACK", [0x40, 2, 0, 9]),
    ]

    @Test(
        "A broker closes a client that repeats QoS 2 packets or acknowledges unknown ones, in any session",
        arguments: nothingNew
    )
    func repetitions(name: String, packet: [UInt8]) async throws {
        let error = try await ending("mqtt", "control-rate=100") {
            await $0.connectMQTT(clean: false)
            await $0.flood(Array(repeatElement(packet, count: 1000).joined()))
        }
        #expect(error.code == .tooManyRequests)
    }

    @Test("A broker closes a client that floods it with subscriptions")
    func subscriptionFlood() async throws {
        let error = try await ending("mqtt", "control-rate=100") { hostile in
            await hostile.connectMQTT()
            await hostile.flood(
                (0..<1000).flatMap { (number: UInt16) -> [UInt8] in
                    [0x82, 8, 0, 1, 0, 3, UInt8(48 + number / 32), UInt8(64 + number % 32), 65, 0]
                }
            )
        }
        #expect(error.code == .tooManyRequests)
    }

    @Test("A broker closes a client that starts many QoS 2 messages and releases none")
    func unreleased() async throws {
        let error = try await ending("mqtt", "max-unreleased=10") { hostile in
            await hostile.connectMQTT()
            await hostile.send((1...11).flatMap { (id: UInt8) -> [UInt8] in [0x34, 6, 0, 1, 120, 0, id, 65] })
        }
        #expect(error.code == .tooManyRequests)
    }

    @Test("A broker accepts a QoS 2 message once, however often its packet identifier comes again")
    func reusedIdentifier() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let port = try #require(server.endpoint.port)
        let reader = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?subscribe=x")
        let hostile = try HostileClient(server)
        await hostile.connectMQTT()
        await hostile.send(Array(repeatElement([0x34, 6, 0, 1, 120, 0, 1, 65], count: 500).joined()))
        await hostile.send([0x30, 4, 0, 1, 120, 66])
        #expect(try await reader.receive()?.bytes == [65])
        #expect(try await reader.receive()?.bytes == [66])
        await reader.close()
        await server.stop()
    }
}
