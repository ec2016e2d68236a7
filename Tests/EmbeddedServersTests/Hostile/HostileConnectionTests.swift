import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests clients that only occupy connections.
@Suite("Clients that only occupy connections", .timeLimit(.minutes(5)), .ownThread)
struct HostileConnectionTests {
    @Test(
        "A server closes a handshake that does not complete in time, and reports it",
        arguments: ["ws", "mqtt", "mqtt+ws"]
    )
    func slowHandshake(transport: String) async throws {
        let attacked = try await Attacked(transport, "handshake-timeout=10s")
        let slow = try HostileClient(attacked.server)
        await slow.send(transport == "mqtt" ? [0x10, 40, 0, 4] : Array("GET / HTTP/1.1\r\nX-Slow: ".utf8))
        let event = try await attacked.event()
        #expect(event.reason.error?.code == .timedOut)
        #expect(event.reason.error?.phase == .handshake)
        #expect(!event.wasOpen)
        #expect(event.client?.hasPrefix("127.0.0.1:") == true)
        if transport != "mqtt" { #expect(await slow.read().starts(with: Array("HTTP/1.1 408 ".utf8))) }
        #expect(try await attacked.isServing())
        await attacked.stop()
    }

    @Test(
        "At the limit of half-open connections, a server closes the oldest one",
        arguments: ["ws", "mqtt", "mqtt+ws"]
    )
    func halfOpen(transport: String) async throws {
        let attacked = try await Attacked(transport, "max-handshakes=4")
        let silent = try (0..<7).map { _ in try HostileClient(attacked.server) }
        for _ in 0..<3 {
            let event = try await attacked.event()
            #expect(event.reason.error?.code == .tooManyRequests)
            #expect(!event.wasOpen)
        }
        for client in silent[..<3] { #expect(await client.read().isEmpty) }
        // A client that completes its handshake is accepted beside those that wait.
        var endpoint = attacked.server.endpoint
        endpoint.options = [.init(name: "handshake-timeout", value: "20s")]
        let connection = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(20))
        #expect(try await attacked.isServing())
        await connection.close()
        await attacked.stop()
    }

    @Test("A full server replaces a client that never sent anything with a new one")
    func full() async throws {
        let attacked = try await Attacked("tcp", "max-connections=3")
        #expect(try await attacked.isServing())
        let silent = try (0..<2).map { _ in try HostileClient(attacked.server) }
        let other = try await TransportRegistry.standard.connect("\(attacked.server.endpoint)".withoutOptions)
        #expect(await other.send(Payload(text: "in")).isSuccess)
        #expect(try await other.receive()?.bytes == Array("in".utf8))
        #expect(try await attacked.code() == .tooManyRequests)
        #expect(await silent[0].read().isEmpty)
        #expect(try await attacked.isServing())
        await other.close()
        await attacked.stop()
    }

    @Test("A server limits the clients of one address until one of them leaves")
    func perAddress() async throws {
        let attacked = try await Attacked("tcp", "max-per-address=2")
        let second = try HostileClient(attacked.server)
        await second.send([0, 0, 0, 1, 65])
        #expect(await second.read(until: [65]) == [0, 0, 0, 1, 65])
        #expect(try await HostileClient(attacked.server).read().isEmpty)
        #expect(try await attacked.code() == .tooManyRequests)
        // The client leaves with a close frame.
        await second.send([0x80, 0, 0, 3, 3, 3, 0xe8])
        await second.read()
        #expect(try await attacked.event().reason.initiator == .peer)
        second.hangUp()
        var answer: [UInt8] = []
        while answer.isEmpty {
            let third = try HostileClient(attacked.server)
            await third.send([0, 0, 0, 1, 66])
            answer = await third.read(until: [66])
        }
        #expect(answer == [0, 0, 0, 1, 66])
        #expect(try await attacked.isServing())
        await attacked.stop()
    }

    @Test("A server closes a connection that is idle for too long", arguments: ["tcp", "ws"])
    func idle(transport: String) async throws {
        let attacked = try await Attacked(transport, "idle-timeout=100ms")
        let event = try await attacked.event()
        #expect(event.reason.error?.code == .keepaliveTimeout)
        #expect(event.wasOpen)
        #expect(await attacked.legitimate.closed().initiator == .peer)
        await attacked.stop()
    }

    @Test("A server closes every connection of many that fell silent at the same moment")
    func silentCrowd() async throws {
        let attacked = try await Attacked("tcp", "idle-timeout=100ms")
        let silent = try (0..<150).map { _ in try HostileClient(attacked.server) }
        // The legitimate client is silent too.
        for _ in 0...silent.count { #expect(try await attacked.code() == .keepaliveTimeout) }
        await attacked.stop()
        withExtendedLifetime(silent) {}
    }

    @Test("A server refuses invalid limits")
    func wrongLimits() async throws {
        for option in ["max-connections=0", "idle-timeout=0s", "stall-timeout=fast", "max-handshakes=many"] {
            let error = await #expect(throws: TransportError.self) {
                _ = try await EmbeddedServer.start("ws://127.0.0.1:0/?\(option)")
            }
            #expect(error?.code == .invalidConfiguration)
        }
    }
}

extension String {
    fileprivate var withoutOptions: String { String(prefix { $0 != "?" }) }
}
