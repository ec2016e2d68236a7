import Protocols
import TestSupport
import Testing
import Transports

/// Tests clients that follow the protocol only in the handshake.
@Suite("Clients that send hostile messages", .timeLimit(.minutes(5)), .ownThread)
struct HostileMessageTests {
    @Test("A server closes a client that announces too large a message, before any of it comes")
    func giantLengths() async throws {
        let overWebSocket = try await ending("ws", "") {
            await $0.upgrade()
            await $0.send([0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        #expect(overWebSocket.code == .messageTooLarge)
        let overTCP = try await ending("tcp", "") { await $0.send([0x7f, 0xff, 0xff, 0xff]) }
        #expect(overTCP.code == .messageTooLarge)
        let overMQTT = try await ending("mqtt", "") {
            await $0.connectMQTT()
            await $0.send([0x30, 0xff, 0xff, 0xff, 0x7f])
        }
        #expect(overMQTT.code == .messageTooLarge)
    }

    @Test("A server closes a client that floods it with pings", arguments: ["ws", "tcp", "mqtt", "mqtt+ws"])
    func pingFlood(transport: String) async throws {
        let error = try await ending(transport, "control-rate=100") { hostile in
            switch transport {
            case "ws":
                await hostile.upgrade()
                await hostile.flood(Array(repeatElement(frame(0x89), count: 1000).joined()))
            case "tcp":
                let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
                await hostile.flood(Array(repeatElement(ping, count: 1000).joined()))
            case "mqtt+ws":
                await hostile.connectMQTTOverWebSocket()
                await hostile.flood(frame(0x82, Array(repeatElement([0xc0, 0], count: 1000).joined())))
            default:
                await hostile.connectMQTT()
                await hostile.flood(Array(repeatElement([0xc0, 0], count: 1000).joined()))
            }
        }
        #expect(error.code == .tooManyRequests)
    }

    @Test("A server closes a client that never ends its message, by empty frames or by tiny ones")
    func fragmentFlood() async throws {
        let byEmptyFrames = try await ending("ws", "") {
            await $0.upgrade()
            await $0.send(frame(0x02, [1]))
            await $0.flood(Array(repeatElement(frame(0x00), count: 1000).joined()))
        }
        #expect(byEmptyFrames.code == .tooManyRequests)
        let byTinyFrames = try await ending("ws", "max-fragments=5000") {
            await $0.upgrade()
            await $0.send(frame(0x02, [1]))
            await $0.flood(Array(repeatElement(frame(0x00, [1]), count: 1000).joined()))
        }
        #expect(byTinyFrames.code == .tooManyRequests)
        #expect(byTinyFrames.reason.contains("5000 frames"))
    }

    private static func bomb(_ zeros: [UInt8]) -> [UInt8]? {
        zeros.withUnsafeBytes {
            ZLib.shared?.makeDeflater(windowBits: 15)?.deflate($0, within: ExpansionLimit(factor: .max))
        }
    }

    @Test("A server closes a client whose small message expands too much", .enabled(if: ZLib.shared != nil))
    func compressionBomb() async throws {
        let zeros = [UInt8](repeating: 0, count: 8 << 20)
        let bomb = try #require(Self.bomb(zeros))
        #expect(bomb.count < zeros.count / 500)
        let error = try await ending("ws", "deflate=on") {
            await $0.upgrade("Sec-WebSocket-Extensions: permessage-deflate\r\n")
            await $0.send(frame(0xc2, bomb))
        }
        #expect(error.code == .messageTooLarge)
        #expect(error.reason.contains("100 times"))
    }

    @Test("A server accepts a message that expands as much as its settings allow", .enabled(if: ZLib.shared != nil))
    func expansionAllowed() async throws {
        let zeros = [UInt8](repeating: 0, count: 2 << 20)
        let bomb = try #require(Self.bomb(zeros))
        let attacked = try await Attacked("ws", "deflate=on&max-expansion=1032")
        let client = try HostileClient(attacked.server)
        await client.upgrade("Sec-WebSocket-Extensions: permessage-deflate\r\n")
        await client.send(frame(0xc2, bomb) + frame(0x88, [3, 0xe8]))
        #expect(try await attacked.event().reason.error == nil)
        withExtendedLifetime(client) {}
        await attacked.stop()
    }

    @Test("A server closes a client that sends requests and never reads the answers", arguments: ["ws", "tcp"])
    func neverReading(transport: String) async throws {
        let error = try await ending(transport, "write-buffer=65536") { hostile in
            let message = [UInt8](repeating: 65, count: 1000)
            if transport == "ws" {
                await hostile.upgrade()
                await hostile.flood(frame(0x82, message))
            } else {
                await hostile.flood([0, 0, 3, 0xe8] + message)
            }
        }
        #expect(error.code == .bufferFull)
    }

    @Test("A server closes a client that requests a large answer and never takes it")
    func stalled() async throws {
        let attacked = try await Attacked("tcp", "stall-timeout=200ms")
        let hostile = try HostileClient(attacked.server, receiveBuffer: 4096)
        await hostile.send([0, 0xc0, 0, 0] + [UInt8](repeating: 65, count: 0xc0_0000))
        #expect(try await attacked.code() == .timedOut)
        withExtendedLifetime(hostile) {}
        #expect(try await attacked.isServing())
        await attacked.stop()
    }

    @Test(
        "A server limits the memory for the incomplete messages of all clients",
        arguments: ["ws", "tcp", "mqtt", "mqtt+ws"]
    )
    func unfinishedMessages(transport: String) async throws {
        let attacked = try await Attacked(transport, "max-buffered=1000000")
        var hostile: [HostileClient] = []
        for number in 0..<4 {
            let client = try HostileClient(attacked.server)
            let size = 200_000 + number * 50_000
            let part = [UInt8](repeating: 65, count: size)
            switch transport {
            case "ws":
                await client.upgrade()
                await client.send([0x82, 0xff, 0, 0, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0] + part)
            case "tcp": await client.send([0, 0xf0, 0, 0] + part)
            case "mqtt+ws":
                await client.connectMQTTOverWebSocket("m\(number)")
                await client.send(frame(0x82, [0x30, 0x80, 0x80, 0xc0, 7, 0, 1, 120] + part))
            default:
                await client.connectMQTT("m\(number)")
                await client.send([0x30, 0x80, 0x80, 0xc0, 7, 0, 1, 120] + part)
            }
            hostile.append(client)
        }
        #expect(try await attacked.code() == .resourcesExhausted)
        #expect(try await attacked.isServing())
        withExtendedLifetime(hostile) {}
        await attacked.stop()
    }

    @Test("A server limits the memory for the compressors of all clients", .enabled(if: ZLib.shared != nil))
    func compressors() async throws {
        let attacked = try await Attacked("ws", "deflate=on&max-buffered=1000000")
        var hostile: [HostileClient] = []
        for _ in 0..<4 {
            let client = try HostileClient(attacked.server)
            await client.upgrade("Sec-WebSocket-Extensions: permessage-deflate\r\n")
            // The message is fifty times "a", and the echo compresses it too.
            await client.send(frame(0xc1, [0x4a, 0x4c, 0x24, 0x15, 0x00, 0x00]))
            hostile.append(client)
        }
        #expect(try await attacked.code() == .resourcesExhausted)
        #expect(try await attacked.isServing())
        withExtendedLifetime(hostile) {}
        await attacked.stop()
    }

    @Test("A server stops reading from a client that never reads its pongs, and closes it")
    func unreadPongs() async throws {
        let error = try await ending("tcp", "write-buffer=4096&stall-timeout=200ms&control-rate=1048576") {
            let ping: [UInt8] = [0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]
            await $0.flood(Array(repeatElement(ping, count: 1000).joined()))
        }
        #expect(error.code == .timedOut)
    }
}
