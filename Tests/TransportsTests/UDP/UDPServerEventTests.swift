import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests the events that the owner of a server receives about untrusted clients.
@Suite("UDP: server events", .timeLimit(.minutes(5)), .ownThread)
struct UDPServerEventTests {
    private static let loop = Result { try EventLoop(name: "udp-events") }

    private struct Server {
        let server: EmbeddedServer
        let events: AsyncStream<ServerEvent>

        init(_ options: String = "") async throws {
            let (stream, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
            events = stream
            server = try await EmbeddedServer.start(
                "udp://127.0.0.1:0/?\(options)",
                on: try UDPServerEventTests.loop.get()
            ) {
                continuation.yield($0)
            }
        }

        func hostile() throws -> RawDatagramClient { try RawDatagramClient(port: server.endpoint.port) }

        func client() async throws -> any Connection {
            var endpoint = server.endpoint
            endpoint.options = [.init(name: "reliable", value: "ordered")]
            return try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        }

        /// The next event with this code.
        func event(_ code: TransportError.Code) async throws -> ServerEvent {
            try #require(await events.first { $0.reason.error?.code == code })
        }

        func serves(_ connection: any Connection) async throws -> Bool {
            guard await connection.send(Payload([1, 2])).isSuccess else { return false }
            return try await connection.receive()?.bytes == [1, 2]
        }
    }

    @Test("The first refused datagram of a kind is reported at once, and the later ones with their count each second")
    func reasons() async throws {
        let server = try await Server()
        let hostile = try server.hostile()
        let tail = [UInt8](repeating: 9, count: 60)
        for (datagram, code) in [
            ([1, 2, 3, 4], .protocolViolation), ([0x49, 0x4d, 1, 3] + tail, .handshakeFailed),
            ([0x49, 0x4d, 1, 5] + tail, .notFound),
        ] as [([UInt8], TransportError.Code)] {
            for _ in 0..<4 { hostile.send(datagram) }
            let first = try await server.event(code)
            #expect(first.count == 1 && !first.wasOpen && first.client?.hasPrefix("127.0.0.1:") == true)
            #expect(try await server.event(code).count == 3)
        }
        await server.server.stop()
    }

    @Test("Repeated events of one kind become one event per second with a count")
    func meter() {
        var meter = EventRateLimiter()
        let second: Int64 = 1_000_000_000
        func count(_ kind: EventRateLimiter.Kind, _ now: Int64) -> Int? {
            meter.count(kind, EventRateLimiter.Event(client: nil, reason: .user), now: now)?.count
        }
        #expect(count(.datagrams(.full), 0) == 1)
        for time in 1...1000 as ClosedRange<Int64> { #expect(count(.datagrams(.full), time) == nil) }
        #expect(count(.datagrams(.malformed), 1000) == 1)
        #expect(meter.deadline == second && meter.due(second - 1).isEmpty)
        #expect(meter.due(second).map(\.count) == [1000])
        #expect(meter.deadline == nil)
        #expect(count(.datagrams(.full), second + 5) == nil)
        #expect(meter.due(2 * second).map(\.count) == [1])
        #expect(count(.datagrams(.full), 3 * second + 5) == 1)
    }

    @Test("The contents of an event are built once per event and not for each datagram")
    func meterContents() {
        var meter = EventRateLimiter()
        var built = 0
        func event() -> EventRateLimiter.Event {
            built += 1
            return EventRateLimiter.Event(client: nil, reason: .user)
        }
        for time in 0..<10_000 as Range<Int64> { _ = meter.count(.datagrams(.unknownSession), event(), now: time) }
        #expect(built == 2)
        #expect(meter.due(EventRateLimiter.pause).map(\.count) == [9_999])
        _ = meter.count(.datagrams(.unknownSession), event(), now: EventRateLimiter.pause + 1)
        #expect(built == 3 && meter.deadline == 2 * EventRateLimiter.pause)
    }

    @Test("A client that pings more often than allowed loses its session")
    func pings() async throws {
        let server = try await Server("control-rate=20")
        let hostile = try server.hostile()
        let session = try hostile.open()
        for number in 0..<30 as Range<UInt8> {
            hostile.send([0x49, 0x4d, 1, 6] + session + [0, 0, 0, 0, 0, 0, 0, number])
        }
        #expect(try await server.event(.tooManyRequests).wasOpen)
        let bye = try hostile.receive(8)
        #expect(bye[12...13] == [0x03, 0xf0])
        await server.server.stop()
    }

    @Test("Clients that acknowledge nothing share one limit, and others are still served")
    func unacknowledged() async throws {
        let server = try await Server("max-held=1048576")
        let legitimate = try await server.client()
        let hostileClients = try (0..<2).map { _ in try server.hostile() }
        for hostile in hostileClients {
            try hostile.sendReliably(480, of: 1100, in: try hostile.open(terms: RawDatagramClient.terms))
        }
        let event = try await server.event(.resourcesExhausted)
        #expect(event.wasOpen && event.reason.code == 1013)
        #expect(try await server.serves(legitimate))
        await legitimate.close()
        await server.server.stop()
    }

    @Test("The unacknowledged messages of a server count towards the same limit")
    func unacknowledgedMessages() async throws {
        let listener = try await TransportRegistry.standard.listen(
            "udp://127.0.0.1:0?max-held=1048576&write-buffer=4194304",
            on: try Self.loop.get()
        )
        var connections: [any Connection] = []
        var hostileClients: [RawDatagramClient] = []
        for _ in 0..<2 {
            let hostile = try RawDatagramClient(port: listener.endpoint.port)
            _ = try hostile.open(terms: RawDatagramClient.terms)
            hostileClients.append(hostile)
            connections.append(try #require(try await listener.accept()))
        }
        #expect(await connections[0].send(Payload([UInt8](repeating: 1, count: 600_000))) == .written)
        #expect(await connections[1].send(Payload([UInt8](repeating: 1, count: 500_000))) == .written)
        #expect(await connections[0].closed().code == 1013)
        let bye = try hostileClients[0].receive(8)
        #expect(bye[12...13] == [0x03, 0xf5])
        for connection in connections { await connection.close() }
        await listener.close()
    }

    @Test("A full server replaces a silent client with a new one, and informs the silent client and the owner")
    func displaced() async throws {
        let server = try await Server("max-sessions=2")
        let legitimate = try await server.client()
        #expect(try await server.serves(legitimate))
        let mute = try server.hostile()
        _ = try mute.open()
        // For one second the new client is refused because the server is full.
        var accepted: (any Connection)?
        while accepted == nil { accepted = try? await server.client() }
        let connection = try #require(accepted)
        let bye = try mute.receive(8)
        #expect(bye[12...13] == [0x03, 0xf5])
        let served = try await (server.serves(legitimate), server.serves(connection))
        #expect(served == (true, true))
        var events = server.events.makeAsyncIterator()
        var isReported = false
        while !isReported, let event = await events.next() {
            isReported = event.wasOpen && event.reason.error?.code == .tooManyRequests
        }
        #expect(isReported)
        await legitimate.close()
        await connection.close()
        await server.server.stop()
    }

    @Test("One address has at most its allowed number of sessions")
    func perAddress() async throws {
        let server = try await Server("max-per-address=2")
        let connections = [try await server.client(), try await server.client()]
        let error = await #expect(throws: TransportError.self) { _ = try await server.client() }
        #expect(error?.code == .serverUnavailable)
        #expect(try await server.event(.tooManyRequests).wasOpen == false)
        for connection in connections { #expect(try await server.serves(connection)) }
        for connection in connections { await connection.close() }
        await server.server.stop()
    }
}
