import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Connections that end without close_notify: an error within the protocol, and none after the protocol's own close.
@Suite("The end of an encrypted connection", .enabled(if: hasOpenSSL), .timeLimit(.minutes(5)), .ownThread)
struct TruncationTests {
    /// A close frame of framed TCP: the word of its length, its type, and the code 1000.
    private static let closeFrame: [UInt8] = [0x80, 0, 0, 3, 3, 0x03, 0xe8]

    /// A raw client whose protocol is open, over any scheme.
    private func openClient(_ scheme: String, _ host: TLSHost, _ engines: RawEngines) throws -> BlockingTLS {
        let client = try BlockingTLS(connectingTo: host.port, try engines.engine(.client))
        try client.handshake()
        if scheme.hasSuffix("wss") {
            let subprotocol = scheme == "wss" ? "" : "Sec-WebSocket-Protocol: mqtt\r\n"
            client.write(
                Array(
                    ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        + "Sec-WebSocket-Key: \(sampleKey)\r\nSec-WebSocket-Version: 13\r\n\(subprotocol)\r\n").utf8
                )
            )
            try #require(String(decoding: client.read(), as: UTF8.self).hasPrefix("HTTP/1.1 101 "))
        }
        if scheme.hasPrefix("mqtt") {
            let connect: [UInt8] = [0x10, 13, 0, 4] + "MQTT".utf8 + [4, 2, 0, 60, 0, 1, 0x61]
            client.write(scheme == "mqtts" ? connect : frame(to: .server, 0x82, connect))
            try #require(client.read().suffix(4) == [0x20, 2, 0, 0])
        }
        return client
    }

    /// The bytes by which a client closes its protocol.
    private func close(_ scheme: String) -> [UInt8] {
        switch scheme {
        case "wss": frame(to: .server, 0x88, closeBody(1000))
        case "mqtts": [0xe0, 0]
        case "mqtt+wss": frame(to: .server, 0x82, [0xe0, 0]) + frame(to: .server, 0x88, closeBody(1000))
        default: Self.closeFrame
        }
    }

    @Test(
        "A client that ends without close_notify within the protocol has a truncated connection",
        arguments: TLSConnectionTests.schemes
    )
    func truncatedClient(scheme: String) async throws {
        let engines = try RawEngines()
        let host = try await TLSHost(scheme, engines.server)
        let client = try openClient(scheme, host, engines)
        let server = try #require(try await host.listener.accept())
        client.finish()
        let error = try #require(await server.closed().error)
        #expect(error.tlsProblem == .truncated && error.code == .connectionLost && error.phase == .open, "\(error)")
        #expect(error.isRetryable)
        #expect(error.reason.contains("without close_notify: the client has crashed, or bytes are missing"))
        #expect(try await host.events.firstError() == error)
        await host.stop()
    }

    @Test(
        "A client that ends with close_notify within the protocol has no error of TLS",
        arguments: TLSConnectionTests.schemes
    )
    func notifiedClient(scheme: String) async throws {
        let engines = try RawEngines()
        let host = try await TLSHost(scheme, engines.server)
        let client = try openClient(scheme, host, engines)
        let server = try #require(try await host.listener.accept())
        client.notifyClose()
        client.finish()
        #expect(await server.closed().error?.tlsProblem == nil)
        await host.stop()
    }

    @Test(
        "A client that ends without close_notify after the protocol's close has no error",
        arguments: TLSConnectionTests.schemes,
        [true, false]
    )
    func closedClient(scheme: String, waits: Bool) async throws {
        let engines = try RawEngines()
        let host = try await TLSHost(scheme, engines.server)
        let client = try openClient(scheme, host, engines)
        let server = try #require(try await host.listener.accept())
        client.write(close(scheme))
        // MQTT has no answer to DISCONNECT but the end.
        if waits { _ = client.read() }
        client.finish()
        let reason = await server.closed()
        #expect(reason.error == nil && reason.initiator == .peer, "\(reason)")
        await host.stop()
    }

    /// A raw server of framed TCP that runs `body` with its first connection.
    private func serve(
        _ engines: RawEngines,
        _ body: @escaping @Sendable (BlockingTLS) -> Void
    ) throws -> RawListener {
        let listener = try RawListener()
        listener.serve { _, descriptor in
            guard let engine = try? engines.engine(.server) else { return }
            let connection = BlockingTLS(descriptor, engine)
            guard (try? connection.handshake()) != nil else { return }
            body(connection)
            connection.finish()
            connection.drain()
        }
        return listener
    }

    @Test("A server that ends without close_notify in the middle of a message has a truncated connection")
    func truncatedServer() async throws {
        let engines = try RawEngines()
        let server = try serve(engines) { $0.write([0, 0, 0, 2, 1, 2, 0, 0, 0, 5, 1]) }
        let client = try await TransportRegistry.standard.connect(
            tlsEndpoint("tls", port: server.port, ["ca": engines.authority])
        )
        #expect(try await client.receive()?.bytes == [1, 2])
        let error = await #expect(throws: TransportError.self) { try await client.receive() }
        #expect(error?.tlsProblem == .truncated && error?.code == .connectionLost && error?.phase == .open)
        #expect(error?.isRetryable == true)
        #expect(error?.reason.contains("the server has crashed") == true)
        server.stop()
    }

    @Test("A server that ends without close_notify after its close frame has no error")
    func closingServer() async throws {
        let engines = try RawEngines()
        let server = try serve(engines) { $0.write([0, 0, 0, 1, 7] + Self.closeFrame) }
        let client = try await TransportRegistry.standard.connect(
            tlsEndpoint("tls", port: server.port, ["ca": engines.authority])
        )
        #expect(try await client.receive()?.bytes == [7])
        #expect(try await client.receive() == nil)
        let reason = await client.closed()
        #expect(reason.error == nil && reason.initiator == .peer)
        server.stop()
    }

    @Test(
        "A server that ends without close_notify after the client's close frame has no error",
        arguments: [true, false]
    )
    func closedServer(answers: Bool) async throws {
        let engines = try RawEngines()
        let server = try serve(engines) { connection in
            _ = connection.read()
            if answers { connection.write(Self.closeFrame) }
        }
        let client = try await TransportRegistry.standard.connect(
            tlsEndpoint("tls", port: server.port, ["ca": engines.authority])
        )
        #expect(await client.close() == 0)
        let reason = await client.closed()
        #expect(reason.error == nil && reason.initiator == .user, "\(reason)")
        server.stop()
    }

    @Test(
        "The last record of a closed connection is close_notify, and its end follows",
        arguments: TLSConnectionTests.schemes
    )
    func notify(scheme: String) async throws {
        let engines = try RawEngines()
        let host = try await TLSHost(scheme, engines.server)
        let client = try openClient(scheme, host, engines)
        let server = try #require(try await host.listener.accept())
        // The thread of the test reads meanwhile.
        let closing = Task(executorPreference: EventLoop.shared) { await server.close() }
        client.write(close(scheme))
        _ = client.readAll()
        #expect(client.hasEnded && client.failure == nil)
        client.notifyClose()
        client.finish()
        #expect(await closing.value == 0)
        #expect(await server.closed().error == nil)
        await host.stop()
    }

    @Test("A peer that has ended its side still gets everything that was sent before, and close_notify")
    func endedSide() async throws {
        let engines = try RawEngines()
        // These frames have no close handshake, so the end of the peer's side is the end of the protocol.
        let host = try await TLSHost("tls", engines.server, ["framing": "u32"])
        async let accepted = host.listener.accept()
        let client = try BlockingTLS(connectingTo: host.port, try engines.engine(.client))
        try client.handshake()
        let server = try #require(try await accepted)
        // Until the kernel is full, so that TLS holds a part of the last message.
        let message = [UInt8](repeating: 7, count: 32 << 10)
        var sent = 0
        var isFull = false
        while !isFull {
            #expect(await server.send(Payload(message)) == .written)
            sent += 4 + message.count
            isFull = true
            for _ in 0..<100 where isFull { isFull = await server.statistics().bytesSent < sent }
        }
        client.notifyClose()
        #expect(await server.closed().error == nil)
        // The server waits for as long as the client reads.
        #expect(client.readAll().count == sent)
        #expect(client.hasEnded && client.failure == nil)
        await host.stop()
    }

    @Test(
        "A peer that has ended its side and pauses for less than one of two limits still gets everything that was written",
        arguments: [(.milliseconds(1), .seconds(60)), (.seconds(60), .milliseconds(1))] as [(Duration, Duration)]
    )
    func endedSideThatPauses(linger: Duration, closeTimeout: Duration) async throws {
        let engines = try RawEngines()
        let (isWritten, isPast) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (counts, counted) = AsyncStream.makeStream(of: (bytes: Int, hasEnded: Bool).self)
        let server = try serve(engines) { connection in
            isWritten.wait()
            connection.notifyClose()
            isPast.wait()
            counted.yield((connection.readAll().count, connection.hasEnded && connection.failure == nil))
        }
        let endpoint = tlsEndpoint(
            "tls",
            port: server.port,
            ["ca": engines.authority, "framing": "u32", "write-buffer": "16777216"]
        )
        let found = try #require(try TransportRegistry.standard.transport(for: endpoint) as? StreamTransport)
        var limits = found.limits
        (limits.linger, limits.closeTimeout) = (linger, closeTimeout)
        let transport = StreamTransport(
            found.endpoint,
            found.dialer,
            limits: limits,
            makeCore: found.makeCore,
            follow: found.follow
        )
        let client = try await transport.connect(timeout: .seconds(60))
        // More than the kernel takes, so most of it waits in the write buffer.
        let message = [UInt8](repeating: 7, count: 1 << 20)
        for _ in 0..<12 { #expect(await client.send(Payload(message)) == .written) }
        isWritten.signal()
        #expect(await client.closed().error == nil)
        // Until a timer that was set later than that of the shorter limit.
        await withUnsafeContinuation { (done: UnsafeContinuation<Void, Never>) in
            found.dialer.loop.execute {
                _ = found.dialer.loop.schedule(at: found.dialer.loop.now + 50_000_000) { done.resume() }
            }
        }
        isPast.signal()
        let count = await counts.first { _ in true }
        #expect(count?.bytes == 12 * (4 + message.count) && count?.hasEnded == true, "\(String(describing: count))")
        server.stop()
    }

    @Test("A client whose inbox is full learns from its sends that TLS has failed")
    func failureBehindFullInbox() async throws {
        let engines = try RawEngines()
        let server = try serve(engines) { connection in
            connection.write([0, 0, 0, 1, 1, 0, 0, 0, 1, 2, 0, 0, 0, 1, 3, 0, 0, 0, 1, 4])
            connection.writePlainly([23, 3, 3, 0, 3, 1, 2, 3])
            _ = connection.read()
        }
        let endpoint = tlsEndpoint(
            "tls",
            port: server.port,
            ["ca": engines.authority, "framing": "u32", "inbox": "1", "write-buffer": "65536"]
        )
        let client = try await TransportRegistry.standard.connect(endpoint)
        // The app does not receive, as in a loop that answers each message before it takes the next one.
        let message = Payload([UInt8](repeating: 7, count: 32 << 10))
        var outcome = await client.send(message)
        while outcome.isSuccess { outcome = await client.send(message) }
        let error = await client.closed().error
        #expect(error?.tlsProblem == .brokenRecord, "\(String(describing: error))")
        // Messages before the failure are not lost.
        for byte: UInt8 in 1...4 { #expect(try await client.receive()?.bytes == [byte]) }
        server.stop()
    }

    @Test("A path that ends connections by FIN truncates both sides", arguments: TLSConnectionTests.schemes)
    func cutPath(scheme: String) async throws {
        let engines = try RawEngines()
        let host = try await TLSHost(scheme, engines.server)
        let proxy = try await FaultProxy.start(to: host.listener.endpoint, seed: 1)
        async let accepted = host.listener.accept()
        let client = try await TransportRegistry.standard.connect(
            tlsEndpoint(scheme, port: proxy.endpoint.port, topics(of: scheme) + ["ca": engines.authority])
        )
        let server = try #require(try await accepted)
        #expect(await client.send(bytes("hello")).isSuccess)
        #expect(try await server.receive()?.string == "hello")
        await proxy.cut(.finish)
        for reason in [await client.closed(), await server.closed()] {
            #expect(reason.error?.tlsProblem == .truncated, "\(reason)")
            #expect(reason.error?.isRetryable == true && reason.initiator == .network)
        }
        await proxy.stop()
        await host.stop()
    }
}
