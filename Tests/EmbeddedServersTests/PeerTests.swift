import EmbeddedServers
import Foundation
import SocketIO
import Testing
import TransportAPI
import Transports

@Suite("Real peers", .serialized, .timeLimit(.minutes(2)))
struct PeerTests {
    var registry: TransportRegistry { .standard }

    @Test("every peer is there when they are required")
    func required() {
        guard ProcessInfo.processInfo.environment["IM_REQUIRE_PEERS"] != nil else { return }
        #expect(Peers.mosquitto != nil && Peers.mosquittoPub != nil && Peers.mosquittoSub != nil)
        #expect(Peers.mosquittoPasswd != nil && Peers.protoc != nil)
        #expect(Peers.pythonWithWebSockets != nil && Peers.pythonWithProtobuf != nil)
    }

    // MARK: mosquitto as the broker

    /// A mosquitto on a free port.
    final class Mosquitto {
        let port: UInt16
        private let folder = Result { try ScratchFolder() }
        private let process: Peer

        init(password: Bool = false) async throws {
            // mosquitto refuses port 0, so the system is asked for a free one first.
            let probe = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
            port = try #require(probe.endpoint.port)
            await probe.close()
            let folder = try folder.get()
            var configuration = "listener \(port) 127.0.0.1\nlog_dest stderr\n"
            if getuid() == 0 { configuration += "user root\n" }
            if password {
                let file = try folder.write("passwords", "")
                let hash = try Peer(try #require(Peers.mosquittoPasswd), ["-b", file, "ann", "secret"])
                #expect(try hash.finish() == 0)
                configuration += "password_file \(file)\n"
            } else {
                configuration += "allow_anonymous true\n"
            }
            let path = try folder.write("mosquitto.conf", configuration)
            process = try Peer(try #require(Peers.mosquitto), ["-c", path])
            try #require(process.wait(for: "running"))
        }
    }

    @Test(
        "mosquitto brings messages back in order at each QoS",
        .enabled(if: Peers.mosquitto != nil),
        arguments: 0...2
    )
    func mosquittoBroker(qos: Int) async throws {
        let broker = try await Mosquitto()
        let link = try await registry.connect(
            "mqtt://127.0.0.1:\(broker.port)/?publish=a/b&subscribe=a/%2B&qos=\(qos)"
        )
        for number in 0..<200 {
            let outcome = await link.send(Payload(text: "\(number)"))
            #expect(outcome == (qos == 0 ? .written : .acknowledged))
        }
        for number in 0..<200 {
            let message = try await link.receive()
            #expect(message?.bytes == Array("\(number)".utf8) && message?.topic == "a/b")
        }
        #expect(try await link.ping() > .zero)
        await link.close()
    }

    @Test("mosquitto refuses a wrong password, and the error says so", .enabled(if: Peers.mosquittoPasswd != nil))
    func mosquittoPassword() async throws {
        let broker = try await Mosquitto(password: true)
        let error = await #expect(throws: TransportError.self) {
            _ = try await registry.connect("mqtt://ann:wrong@127.0.0.1:\(broker.port)")
        }
        #expect(error?.code == .authenticationFailed || error?.code == .forbidden)
        #expect(error?.phase == .handshake)
        let link = try await registry.connect("mqtt://ann:secret@127.0.0.1:\(broker.port)")
        await link.close()
    }

    // MARK: mosquitto's clients

    @Test(
        "mosquitto_sub gets from our broker what mosquitto_pub and our client publish",
        .enabled(if: Peers.mosquittoPub != nil && Peers.mosquittoSub != nil),
        arguments: 0...2
    )
    func mosquittoClients(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let port = String(try #require(server.endpoint.port))
        let client = try await registry.connect(
            "mqtt://127.0.0.1:\(port)/?publish=chat/ours&subscribe=ready/%23&qos=\(qos)"
        )
        let common = ["-h", "127.0.0.1", "-p", port, "-q", String(qos)]
        // Into a pipe, mosquitto_sub would keep its lines to itself until it ends.
        let subscriber = try Peer(
            "/usr/bin/env",
            ["stdbuf", "-oL", try #require(Peers.mosquittoSub)] + common
                + ["-t", "chat/#", "-C", "21", "-d", "-F", "got %t %p"]
        )
        try #require(subscriber.wait(for: "Subscribed"))
        let publisher = try Peer(try #require(Peers.mosquittoPub), common + ["-t", "chat/theirs", "-l"])
        for number in 0..<20 { try publisher.write("\(number)\n") }
        #expect(try publisher.finish() == 0)
        #expect(await client.send(Payload(text: "hello")).isSuccess)
        var seen: [String] = []
        while seen.count < 21, let line = subscriber.line() { if line.hasPrefix("got ") { seen.append(line) } }
        #expect(seen.filter { $0.hasPrefix("got chat/theirs") } == (0..<20).map { "got chat/theirs \($0)" })
        #expect(seen.contains("got chat/ours hello"))
        await client.close()
        await server.stop()
    }

    // MARK: Python's websockets

    private static let echoServer = """
        import asyncio, websockets
        async def echo(connection):
            async for message in connection:
                await connection.send(message)
        async def main():
            async with websockets.serve(echo, "127.0.0.1", 0, max_size=None) as server:
                print("port", server.sockets[0].getsockname()[1], flush=True)
                await asyncio.get_running_loop().create_future()
        asyncio.run(main())
        """

    @Test(
        "Python's websockets server gives everything back, compressed or not",
        .enabled(if: Peers.pythonWithWebSockets != nil),
        arguments: ["off", "on", "small"]
    )
    func pythonServer(deflate: String) async throws {
        let server = try Peer(try #require(Peers.pythonWithWebSockets), ["-c", Self.echoServer])
        let port = try #require(server.line()?.split(separator: " ").last)
        let link = try await registry.connect("ws://127.0.0.1:\(port)/chat?fragment=70000&deflate=\(deflate)")
        let large = Payload((0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        for payload in [Payload(text: "Grüße 👋"), Payload([0, 255, 1]), Payload([]), large] {
            #expect(await link.send(payload) == .written)
            #expect(try await link.receive() == payload)
        }
        #expect(try await link.ping() > .zero)
        await link.close()
        #expect(await link.closed().initiator == .user)
    }

    private static let client = """
        import asyncio, sys, websockets
        async def parts():
            for part in ["one ", "two ", "three"]:
                yield part
        async def main():
            async with websockets.connect(sys.argv[1], max_size=None) as connection:
                for message in ["Gr\\u00fc\\u00dfe", b"\\x00\\xff", "", bytes(range(256)) * 4096]:
                    await connection.send(message)
                    assert await connection.recv() == message
                await connection.send(parts())
                assert await connection.recv() == "one two three"
                await (await connection.ping())
            print("closed", connection.close_code, flush=True)
        asyncio.run(main())
        """

    @Test(
        "Python's websockets client is served by our echo, compressed or not",
        .enabled(if: Peers.pythonWithWebSockets != nil),
        arguments: ["off", "on", "small"]
    )
    func pythonClient(deflate: String) async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0/?deflate=\(deflate)")
        let client = try Peer(
            try #require(Peers.pythonWithWebSockets),
            ["-c", Self.client, "ws://127.0.0.1:\(try #require(server.endpoint.port))/"]
        )
        #expect(client.line() == "closed 1000")
        #expect(try client.finish() == 0)
        await server.stop()
    }
}
