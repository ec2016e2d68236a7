import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests the embedded broker packet by packet.
@Suite("The embedded broker's bytes", .timeLimit(.minutes(5)), .ownThread)
struct BrokerBytesTests {
    /// A client of hand-written packets on its own connection.
    private final class Client {
        private let connection: any Connection
        private var unread: [UInt8] = []

        init(_ server: EmbeddedServer, _ name: String, clean: Bool = true) async throws {
            connection = try await server.connectByHand()
            let body =
                [0, 4, 0x4d, 0x51, 0x54, 0x54, 4, clean ? 2 : 0, 0, 0, 0, UInt8(name.utf8.count)] + Array(name.utf8)
            try await send([0x10, UInt8(body.count)] + body)
        }

        func send(_ bytes: [UInt8]) async throws {
            #expect(await connection.send(Payload(bytes)) == .written)
        }

        /// Reads as many bytes as `expected` has, which must be equal.
        func expect(_ expected: [UInt8], _ place: SourceLocation = #_sourceLocation) async throws {
            while unread.count < expected.count, let more = try await connection.receive() { unread += more.bytes }
            #expect(Array(unread.prefix(expected.count)) == expected, sourceLocation: place)
            unread.removeFirst(min(expected.count, unread.count))
        }

        /// Expects that no other packet has come.
        func expectNothingMore(_ place: SourceLocation = #_sourceLocation) async throws {
            try await send([0xc0, 0])
            try await expect([0xd0, 0], place)
            #expect(unread.isEmpty, sourceLocation: place)
        }

        /// Expects that the broker ends the connection without sending anything more.
        func expectEnd(_ place: SourceLocation = #_sourceLocation) async throws {
            #expect(try await connection.receive() == nil && unread.isEmpty, sourceLocation: place)
        }

        func close() async { await connection.close() }
    }

    private func publish(_ topic: UInt8, _ body: UInt8, first: UInt8 = 0x30, id: UInt8? = nil) -> [UInt8] {
        [first, id == nil ? 4 : 6, 0, 1, topic] + (id.map { [0, $0] } ?? []) + [body]
    }

    @Test("The broker does not pass on DUP and RETAIN of an incoming message")
    func flags() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let reader = try await Client(server, "r")
        try await reader.send([0x82, 6, 0, 1, 0, 1, 0x61, 2])
        try await reader.expect([0x20, 2, 0, 0, 0x90, 3, 0, 1, 2])
        let writer = try await Client(server, "w")
        try await writer.send(publish(0x61, 1, first: 0x3b, id: 9) + publish(0x61, 2, first: 0x3d, id: 9))
        try await writer.expect([0x20, 2, 0, 0, 0x40, 2, 0, 9, 0x50, 2, 0, 9])
        try await reader.expect(publish(0x61, 1, first: 0x32, id: 1) + publish(0x61, 2, first: 0x34, id: 2))
        await server.stop()
    }

    @Test("A repeated SUBSCRIBE changes the QoS, repeats retained messages, and gets a code for each filter")
    func subscribing() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let writer = try await Client(server, "w")
        try await writer.send(publish(0x61, 1, first: 0x33, id: 1))
        try await writer.expect([0x20, 2, 0, 0, 0x40, 2, 0, 1])
        // A message without RETAIN does not replace the retained one.
        try await writer.send(publish(0x61, 2, first: 0x32, id: 2))
        try await writer.expect([0x40, 2, 0, 2])
        let reader = try await Client(server, "r")
        try await reader.send([0x82, 6, 0, 7, 0, 1, 0x61, 0])
        try await reader.expect([0x20, 2, 0, 0, 0x90, 3, 0, 7, 0] + publish(0x61, 1, first: 0x31))
        try await reader.send([0x82, 10, 0, 8, 0, 1, 0x61, 1, 0, 1, 0x62, 2])
        try await reader.expect([0x90, 4, 0, 8, 1, 2] + publish(0x61, 1, first: 0x33, id: 1))
        try await writer.send(publish(0x61, 3, first: 0x34, id: 3))
        try await reader.expect(publish(0x61, 3, first: 0x32, id: 2))
        try await reader.expectNothingMore()
        await server.stop()
    }

    @Test("A filter that occurs twice in a SUBSCRIBE gets two codes, its last QoS, and retained messages once")
    func repeatedFilter() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let client = try await Client(server, "c")
        try await client.send(publish(0x61, 1, first: 0x33, id: 1) + [0x82, 10, 0, 2, 0, 1, 0x61, 0, 0, 1, 0x61, 1])
        try await client.expect([0x20, 2, 0, 0, 0x40, 2, 0, 1, 0x90, 4, 0, 2, 0, 1])
        try await client.expect(publish(0x61, 1, first: 0x33, id: 1))
        try await client.expectNothingMore()
        await server.stop()
    }

    @Test("A packet behind a SUBSCRIBE with very many filters is answered after its SUBACK")
    func manyFilters() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let client = try await Client(server, "c")
        var body: [UInt8] = [0, 1]
        for number in 0..<4096 {
            body += [0, 64] + "\(10_000 + number)/".utf8 + [UInt8](repeating: 0x61, count: 58) + [1]
        }
        let length = [body.count & 0x7f | 0x80, body.count >> 7 & 0x7f | 0x80, body.count >> 14].map { UInt8($0) }
        try await client.send([0x82] + length + body + [0xc0, 0])
        let codes = [UInt8](repeating: 1, count: 1000) + [UInt8](repeating: 0x80, count: 3096)
        try await client.expect([0x20, 2, 0, 0, 0x90, 0x82, 0x20, 0, 1] + codes + [0xd0, 0])
        await server.stop()
    }

    @Test("A filter beyond the broker's limits is refused in SUBACK, and the other filters are accepted")
    func refusedFilter() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let reader = try await Client(server, "r")
        let deep = Array(repeating: UInt8(ascii: "/"), count: 100)
        let filters: [UInt8] = [0, 1, 0x61, 1, 0, 100] + deep + [2, 0, 1, 0x62, 2]
        try await reader.send([0x82, UInt8(2 + filters.count), 0, 1] + filters)
        try await reader.expect([0x20, 2, 0, 0, 0x90, 5, 0, 1, 1, 0x80, 2])
        await server.stop()
    }

    @Test("UNSUBSCRIBE is answered once, ends its subscriptions, and lets messages in flight complete")
    func unsubscribing() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let reader = try await Client(server, "r")
        try await reader.send([0x82, 10, 0, 1, 0, 1, 0x61, 2, 0, 1, 0x62, 0])
        try await reader.expect([0x20, 2, 0, 0, 0x90, 4, 0, 1, 2, 0])
        let writer = try await Client(server, "w")
        try await writer.send(publish(0x61, 1, first: 0x34, id: 1))
        try await reader.expect(publish(0x61, 1, first: 0x34, id: 1))
        // The second filter has no subscription.
        try await reader.send([0xa2, 8, 0, 2, 0, 1, 0x61, 0, 1, 0x63])
        try await reader.expect([0xb0, 2, 0, 2])
        try await writer.send([0x62, 2, 0, 1] + publish(0x61, 2) + publish(0x62, 3))
        try await reader.expect(publish(0x62, 3))
        try await reader.send([0x50, 2, 0, 1])
        try await reader.expect([0x62, 2, 0, 1])
        try await reader.send([0x70, 2, 0, 1, 0xa2, 5, 0, 3, 0, 1, 0x64])
        try await reader.expect([0xb0, 2, 0, 3])
        try await reader.expectNothingMore()
        await server.stop()
    }

    @Test("A retained message outlives the session of its publisher")
    func retainedOutlivesSession() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let writer = try await Client(server, "w")
        try await writer.send(publish(0x61, 1, first: 0x33, id: 1) + [0xe0, 0])
        try await writer.expect([0x20, 2, 0, 0, 0x40, 2, 0, 1])
        try await writer.expectEnd()
        let reader = try await Client(server, "r")
        try await reader.send([0x82, 6, 0, 1, 0, 1, 0x61, 0])
        try await reader.expect([0x20, 2, 0, 0, 0x90, 3, 0, 1, 0] + publish(0x61, 1, first: 0x31))
        await server.stop()
    }

    @Test(
        "A protocol violation ends the connection without an answer",
        arguments: [[0xf0], [0x82, 2, 0, 1], [0x36], [0x10]]
    )
    func violation(bytes: [UInt8]) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let client = try await Client(server, "c")
        try await client.expect([0x20, 2, 0, 0])
        try await client.send(bytes)
        try await client.expectEnd()
        await server.stop()
    }

    @Test("A will is published once and retained only if CONNECT says so, and a client without one leaves none")
    func willOnce() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let watcher = try await Client(server, "w")
        try await watcher.send([0x82, 6, 0, 1, 0, 1, 0x67, 0])
        try await watcher.expect([0x20, 2, 0, 0, 0x90, 3, 0, 1, 0])
        let name = "client-id=ann&clean-session=off"
        let url = "mqtt://127.0.0.1:\(try #require(server.endpoint.port))/?\(name)"
        for will in ["&will-topic=g&will-message=1", ""] {
            let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
            let proxied = "mqtt://127.0.0.1:\(try #require(proxy.endpoint.port))/?\(name)\(will)"
            let connection = try await TransportRegistry.standard.connect(proxied)
            await proxy.cut(.reset)
            _ = await connection.closed()
            await proxy.stop()
            // A will of the former connection would come before this message.
            let next = try await TransportRegistry.standard.connect("\(url)&publish=g")
            #expect(await next.send(Payload(text: "2")) == .written)
            if !will.isEmpty { try await watcher.expect(publish(0x67, 0x31)) }
            try await watcher.expect(publish(0x67, 0x32))
            await next.close()
        }
        try await watcher.expectNothingMore()
        let late = try await Client(server, "l")
        try await late.send([0x82, 6, 0, 1, 0, 1, 0x67, 0])
        try await late.expect([0x20, 2, 0, 0, 0x90, 3, 0, 1, 0])
        try await late.expectNothingMore()
        await server.stop()
    }
}
