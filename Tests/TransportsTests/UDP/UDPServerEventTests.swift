import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// What strangers do to a server, and what its owner hears of that.
@Suite("UDP, what the owner hears", .timeLimit(.minutes(5)), .ownThread)
struct UDPServerEventTests {
    private static let loop = Result { try EventLoop(name: "udp-notes") }

    private struct Server {
        let server: EmbeddedServer
        let notes: AsyncStream<ServerEvent>

        init(_ options: String = "") async throws {
            let (stream, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
            notes = stream
            server = try await EmbeddedServer.start(
                "udp://127.0.0.1:0/?\(options)",
                on: try UDPServerEventTests.loop.get()
            ) {
                continuation.yield($0)
            }
        }

        func stranger() throws -> DatagramStranger { try DatagramStranger(port: server.endpoint.port) }

        func client() async throws -> any Connection {
            var endpoint = server.endpoint
            endpoint.options = [.init(name: "reliable", value: "ordered")]
            return try await TransportRegistry.standard.transport(for: endpoint).connect(timeout: .seconds(10))
        }

        /// The next note of this code.
        func note(_ code: TransportError.Code) async throws -> ServerEvent {
            try #require(await notes.first { $0.reason.error?.code == code })
        }

        func serves(_ connection: any Connection) async throws -> Bool {
            guard await connection.send(Payload([1, 2])).isSuccess else { return false }
            return try await connection.receive()?.bytes == [1, 2]
        }
    }

    @Test("Why a stranger was turned away, at once, and then how often within each second")
    func reasons() async throws {
        let server = try await Server()
        let stranger = try server.stranger()
        let tail = [UInt8](repeating: 9, count: 60)
        for (datagram, code) in [
            ([1, 2, 3, 4], .protocolViolation), ([0x49, 0x4d, 1, 3] + tail, .handshakeFailed),
            ([0x49, 0x4d, 1, 5] + tail, .notFound),
        ] as [([UInt8], TransportError.Code)] {
            for _ in 0..<4 { stranger.send(datagram) }
            let first = try await server.note(code)
            #expect(first.count == 1 && !first.wasOpen && first.client?.hasPrefix("127.0.0.1:") == true)
            #expect(try await server.note(code).count == 3)
        }
        await server.server.stop()
    }

    @Test("Of what happens ever again, one note a second tells, with how often")
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

    @Test("What is told of a flood is put together for its notes, and not for each datagram")
    func meterContents() {
        var meter = EventRateLimiter()
        var built = 0
        func note() -> EventRateLimiter.Event {
            built += 1
            return EventRateLimiter.Event(client: nil, reason: .user)
        }
        for time in 0..<10_000 as Range<Int64> { _ = meter.count(.datagrams(.unknownSession), note(), now: time) }
        #expect(built == 2)
        #expect(meter.due(EventRateLimiter.pause).map(\.count) == [9_999])
        _ = meter.count(.datagrams(.unknownSession), note(), now: EventRateLimiter.pause + 1)
        #expect(built == 3 && meter.deadline == 2 * EventRateLimiter.pause)
    }

    @Test("A client that pings more often than it may is ended")
    func pings() async throws {
        let server = try await Server("control-rate=20")
        let stranger = try server.stranger()
        let session = try stranger.open()
        for number in 0..<30 as Range<UInt8> {
            stranger.send([0x49, 0x4d, 1, 6] + session + [0, 0, 0, 0, 0, 0, 0, number])
        }
        #expect(try await server.note(.tooManyRequests).wasOpen)
        let bye = try stranger.receive(8)
        #expect(bye[12...13] == [0x03, 0xf0])
        await server.server.stop()
    }

    @Test("Clients that acknowledge nothing are bounded together by what is kept for them, and others are served")
    func unacknowledged() async throws {
        let server = try await Server("max-held=1048576")
        let honest = try await server.client()
        let strangers = try (0..<2).map { _ in try server.stranger() }
        for stranger in strangers {
            try stranger.sendReliably(480, of: 1100, in: try stranger.open(terms: DatagramStranger.terms))
        }
        let note = try await server.note(.resourcesExhausted)
        #expect(note.wasOpen && note.reason.code == 1013)
        #expect(try await server.serves(honest))
        await honest.close()
        await server.server.stop()
    }

    @Test("What a server's own messages take is bounded with the rest")
    func unacknowledgedMessages() async throws {
        let listener = try await TransportRegistry.standard.listen(
            "udp://127.0.0.1:0?max-held=1048576&write-buffer=4194304",
            on: try Self.loop.get()
        )
        var connections: [any Connection] = []
        var strangers: [DatagramStranger] = []
        for _ in 0..<2 {
            let stranger = try DatagramStranger(port: listener.endpoint.port)
            _ = try stranger.open(terms: DatagramStranger.terms)
            strangers.append(stranger)
            connections.append(try #require(try await listener.accept()))
        }
        #expect(await connections[0].send(Payload([UInt8](repeating: 1, count: 600_000))) == .written)
        #expect(await connections[1].send(Payload([UInt8](repeating: 1, count: 500_000))) == .written)
        #expect(await connections[0].closed().code == 1013)
        let bye = try strangers[0].receive(8)
        #expect(bye[12...13] == [0x03, 0xf5])
        for connection in connections { await connection.close() }
        await listener.close()
    }

    @Test("A full server takes a newcomer in place of a client that says nothing, and tells both sides")
    func displaced() async throws {
        let server = try await Server("max-sessions=2")
        let honest = try await server.client()
        #expect(try await server.serves(honest))
        let mute = try server.stranger()
        _ = try mute.open()
        // For a second the newcomer hears that there is no room.
        var newcomer: (any Connection)?
        while newcomer == nil { newcomer = try? await server.client() }
        let connection = try #require(newcomer)
        let bye = try mute.receive(8)
        #expect(bye[12...13] == [0x03, 0xf5])
        let served = try await (server.serves(honest), server.serves(connection))
        #expect(served == (true, true))
        var notes = server.notes.makeAsyncIterator()
        var hasHeard = false
        while !hasHeard, let note = await notes.next() {
            hasHeard = note.wasOpen && note.reason.error?.code == .tooManyRequests
        }
        await honest.close()
        await connection.close()
        await server.server.stop()
    }

    @Test("One address has no more sessions than it may")
    func perAddress() async throws {
        let server = try await Server("max-per-address=2")
        let connections = [try await server.client(), try await server.client()]
        let error = await #expect(throws: TransportError.self) { _ = try await server.client() }
        #expect(error?.code == .serverUnavailable)
        #expect(try await server.note(.tooManyRequests).wasOpen == false)
        for connection in connections { #expect(try await server.serves(connection)) }
        for connection in connections { await connection.close() }
        await server.server.stop()
    }
}
