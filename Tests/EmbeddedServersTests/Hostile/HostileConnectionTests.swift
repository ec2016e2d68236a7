import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Clients that take places and give nothing.
@Suite("Servers and clients that only take places", .timeLimit(.minutes(5)), .ownThread)
struct HostileConnectionTests {
    @Test("hang up on a handshake that does not come to its end, and say so", arguments: ["ws", "mqtt", "mqtt+ws"])
    func slowHandshake(transport: String) async throws {
        let attacked = try await Attacked(transport, "handshake-timeout=3s")
        let slow = try HostileClient(attacked.server)
        await slow.send(transport == "mqtt" ? [0x10, 40, 0, 4] : Array("GET / HTTP/1.1\r\nX-Slow: ".utf8))
        let note = try await attacked.note()
        #expect(note.reason.error?.code == .timedOut)
        #expect(note.reason.error?.phase == .handshake)
        #expect(!note.wasOpen)
        #expect(note.client?.hasPrefix("127.0.0.1:") == true)
        if transport != "mqtt" { #expect(await slow.read().starts(with: Array("HTTP/1.1 408 ".utf8))) }
        #expect(try await attacked.isServing())
        await attacked.stop()
    }

    @Test("hang up on the oldest of too many half-open connections", arguments: ["ws", "mqtt", "mqtt+ws"])
    func halfOpen(transport: String) async throws {
        let attacked = try await Attacked(transport, "max-handshakes=4")
        let silent = try (0..<7).map { _ in try HostileClient(attacked.server) }
        for _ in 0..<3 {
            let note = try await attacked.note()
            #expect(note.reason.error?.code == .tooManyRequests)
            #expect(!note.wasOpen)
        }
        for client in silent[..<3] { #expect(await client.read().isEmpty) }
        // Whoever does say hello gets in beside those who wait.
        var endpoint = attacked.server.endpoint
        endpoint.options = [.init(name: "handshake-timeout", value: "20s")]
        let connection = try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(20))
        #expect(try await attacked.isServing())
        await connection.close()
        await attacked.stop()
    }

    @Test("give the place of a client that never said a word to one that comes, when they are full")
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

    @Test("bound the clients of one address, until one of them leaves")
    func perAddress() async throws {
        let attacked = try await Attacked("tcp", "max-per-address=2")
        let second = try HostileClient(attacked.server)
        await second.send([0, 0, 0, 1, 65])
        #expect(await second.read(until: [65]) == [0, 0, 0, 1, 65])
        #expect(try await HostileClient(attacked.server).read().isEmpty)
        #expect(try await attacked.code() == .tooManyRequests)
        // Leaves with a goodbye.
        await second.send([0x80, 0, 0, 3, 3, 3, 0xe8])
        await second.read()
        #expect(try await attacked.note().reason.initiator == .peer)
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

    @Test("end connections that bring nothing for too long", arguments: ["tcp", "ws"])
    func idle(transport: String) async throws {
        let attacked = try await Attacked(transport, "idle-timeout=100ms")
        let note = try await attacked.note()
        #expect(note.reason.error?.code == .keepaliveTimeout)
        #expect(note.wasOpen)
        #expect(await attacked.honest.closed().initiator == .peer)
        await attacked.stop()
    }

    @Test("end every connection of a crowd that went silent at the same moment")
    func silentCrowd() async throws {
        let attacked = try await Attacked("tcp", "idle-timeout=100ms")
        let silent = try (0..<150).map { _ in try HostileClient(attacked.server) }
        // The honest one is silent too.
        for _ in 0...silent.count { #expect(try await attacked.code() == .keepaliveTimeout) }
        await attacked.stop()
        withExtendedLifetime(silent) {}
    }

    @Test("refuse limits that make no sense")
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
