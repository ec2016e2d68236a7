import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("Real peers", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct PeerTests {
    var registry: TransportRegistry { .standard }

    @Test("Every peer is installed when peers are required")
    func required() {
        guard ProcessInfo.processInfo.environment["IM_REQUIRE_PEERS"] != nil else { return }
        #expect(Peers.mosquitto != nil && Peers.mosquittoPub != nil && Peers.mosquittoSub != nil)
        #expect(Peers.mosquittoPasswd != nil)
        #expect(Peers.nats != nil && Peers.rabbitmq != nil && Peers.epmd != nil)
        for probe in [
            Peers.webSockets, Peers.paho, Peers.stompPy, Peers.coilmq, Peers.prosody, Peers.activemq, Peers.browser,
        ] {
            #expect(probe.path != nil, "\(probe.problem)")
        }
        #expect(Peers.nginx != nil)
        #expect(Peers.tinyproxy != nil && Peers.squid != nil && Peers.microsocks != nil && Peers.danted != nil)
        #expect(Peers.curl != nil && Peers.openssl != nil && hasOpenSSL)
        // The command is not installed but built with the tests. Some peers are tested with it.
        #expect(Peers.imbench != nil)
        // Packets are captured by root only.
        #expect(geteuid() == 0)
    }

    // MARK: mosquitto as the broker

    /// A mosquitto on free ports, one of them for WebSockets.
    final class Mosquitto {
        // mosquitto refuses port 0.
        private let reserved: ReservedPort
        private let reservedForWebSocket: ReservedPort
        private let folder = Result { try ScratchFolder() }
        private let process: Peer

        init(password: Bool = false) async throws {
            reserved = try ReservedPort(isDatagram: false)
            reservedForWebSocket = try ReservedPort(isDatagram: false)
            let folder = try folder.get()
            var configuration = """
                log_dest stderr
                # By default it drops the messages of an absent client beyond 1000.
                max_queued_messages 0
                listener \(reserved.port) 127.0.0.1
                listener \(reservedForWebSocket.port) 127.0.0.1
                protocol websockets

                """
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

        var port: UInt16 { reserved.port }

        /// The endpoint for a scheme, `mqtt` or `mqtt+ws`.
        func endpoint(_ scheme: String) throws -> Endpoint {
            try Endpoint("\(scheme)://127.0.0.1:\(scheme == "mqtt" ? port : reservedForWebSocket.port)")
        }
    }

    @Test(
        "mosquitto returns messages in order at each QoS",
        .enabled(if: Peers.mosquitto != nil),
        arguments: 0...2
    )
    func mosquittoBroker(qos: Int) async throws {
        let broker = try await Mosquitto()
        let connection = try await registry.connect(
            "mqtt://127.0.0.1:\(broker.port)/?publish=a/b&subscribe=a/%2B&qos=\(qos)"
        )
        for number in 0..<200 {
            let outcome = await connection.send(Payload(text: "\(number)"))
            #expect(outcome == (qos == 0 ? .written : .acknowledged))
        }
        for number in 0..<200 {
            let message = try await connection.receive()
            #expect(message?.bytes == Array("\(number)".utf8) && message?.topic == "a/b")
        }
        #expect(try await connection.ping() > .zero)
        await connection.close()
    }

    /// mosquitto 2.0.11 answers a wrong password with CONNACK 5, not authorised. MQTT defines 4 for that.
    @Test(
        "A connection that mosquitto refuses for a wrong password ends with an error that says so",
        .enabled(if: Peers.mosquittoPasswd != nil),
        arguments: ["mqtt", "mqtt+ws"]
    )
    func mosquittoPassword(scheme: String) async throws {
        let broker = try await Mosquitto(password: true)
        var endpoint = try broker.endpoint(scheme)
        endpoint.options = [.init(name: "publish", value: "t"), .init(name: "subscribe", value: "t")]
        for (user, password) in [("ann", "wrong"), ("ben", "secret"), (nil, nil)] {
            (endpoint.user, endpoint.password) = (user, password)
            let transport = try registry.transport(for: endpoint)
            let error = await #expect(throws: TransportError.self) {
                try await transport.connect(timeout: .seconds(10))
            }
            #expect(error?.code == .forbidden && error?.detail == 5 && error?.phase == .handshake)
        }
        (endpoint.user, endpoint.password) = ("ann", "secret")
        let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        #expect(await connection.send(Payload(text: "hello")) == .written)
        #expect(try await connection.receive()?.bytes == Array("hello".utf8))
        await connection.close()
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
        "Python's websockets server returns every message, compressed or not",
        .peer(Peers.webSockets),
        arguments: ["off", "on", "small"]
    )
    func pythonServer(deflate: String) async throws {
        let server = try Peer(try #require(Peers.pythonWithWebSockets), ["-c", Self.echoServer])
        let port = try #require(server.line()?.split(separator: " ").last)
        let connection = try await registry.connect("ws://127.0.0.1:\(port)/chat?fragment=70000&deflate=\(deflate)")
        let large = Payload(longBytes(1 << 20))
        for payload in [Payload(text: "Grüße 👋"), Payload([0, 255, 1]), Payload([]), large] {
            #expect(await connection.send(payload) == .written)
            #expect(try await connection.receive() == payload)
        }
        #expect(try await connection.ping() > .zero)
        await connection.close()
        #expect(await connection.closed().initiator == .user)
    }
}
