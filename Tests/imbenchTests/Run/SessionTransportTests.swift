import CommandTestSupport
import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

@Suite("imbench run with session delivery", .timeLimit(.minutes(5)), .ownThread)
struct SessionTransportTests {
    private static let vocabulary = {
        var vocabulary = everything
        vocabulary.transports = TransportRegistry.measured.transports.map(\.name)
        return vocabulary
    }()
    private static let transports = TransportRegistry.measured.transports.filter(\.hasSessions).map(\.name)

    private func parse(_ line: String) throws(UsageError) -> RunCommand {
        try OptionParser(vocabulary: Self.vocabulary).parse(
            line.split(separator: " ").map(String.init),
            as: RunCommand.self
        )
    }

    @Test("A row with session delivery has its echoes, one more round trip, and more bytes", arguments: transports)
    func rows(transport: String) async throws {
        // A client that polls gets a message a second.
        let messages = transport == "http-poll" ? 2 : 50
        let options = try parse(
            "run --transport \(transport) --delivery plain,session --codec json --size 32 --messages \(messages) --warmup 0s "
                + "--repeat 1"
        )
        let rows = try await apart {
            let stage = try Stage(registry: .withSessions, outside: [], seed: 1, placement: nil)
            let bench = EchoBench(
                options.rows,
                options.load,
                stage: stage,
                seed: 1,
                limits: .init(connect: .seconds(60), answer: 60_000_000_000)
            )
            for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: messages) }
            let rows = bench.results(FloorBench(kinds: [], sizes: []))
            bench.close()
            stage.close()
            return rows
        }
        #expect(rows.map(\.transport) == [transport, transport + "-session"])
        let (plain, session) = (rows[0], rows[1])
        #expect(session.outcome == .measured && session.accounts.closes, "\(session.reason ?? "")")
        // Session delivery repeats what a datagram loses.
        #expect(session.accounts.sent == messages && session.accounts.acked == messages && session.errors == 0)
        let bytes = try #require(session.bytesPerMessage)
        // The envelope of the message and that of the acknowledgement of its echo have nine bytes each.
        let plainBytes = try #require(plain.bytesPerMessage)
        #expect(bytes.framing >= plainBytes.framing + 18)
        let (opened, before) = (try #require(session.handshake), try #require(plain.handshake))
        #expect(opened.roundTrips == before.roundTrips + 1)
        // The hello has 46 bytes, and its answer 25.
        if transport != "ws-deflate" { #expect(opened.bytes >= before.bytes + 46 + 25) }
    }

    @Test("A connection that is lost ends the row, because the supervisor does not reconnect")
    func lost() async throws {
        let loop = try QuietLoop.get()
        let registry = TransportRegistry.withSessions
        let server = try await EmbeddedServer.start("tcp-session://127.0.0.1:0", on: loop, registry: registry)
        let target = Endpoint(scheme: "tcp", host: server.endpoint.host, port: server.endpoint.port)
        let proxy = try await FaultProxy.start(to: target, on: loop, seed: 1)
        var endpoint = proxy.endpoint
        endpoint.scheme = "tcp-session"
        let connection = try await registry.transport(for: endpoint, on: loop).connect(timeout: .seconds(60))
        #expect(await connection.send(Payload([1, 2, 3])) == .written)
        #expect(try await connection.receive()?.bytes == [1, 2, 3])
        await proxy.cut(.reset)
        await #expect(throws: TransportError.self) { _ = try await connection.receive() }
        #expect(await connection.closed().initiator != .user)
        #expect(await !connection.send(Payload([4])).isSuccess)
        await proxy.stop()
        await server.stop()
    }

    @Test("A connection to no server throws the reason")
    func refused() async throws {
        let loop = try QuietLoop.get()
        let reserved = try ReservedPort(isDatagram: false)
        let endpoint = Endpoint(scheme: "tcp-session", host: "127.0.0.1", port: reserved.port)
        let transport = try TransportRegistry.withSessions.transport(for: endpoint, on: loop)
        let error = await #expect(throws: TransportError.self) {
            _ = try await transport.connect(timeout: .seconds(60))
        }
        #expect(error?.reason.contains("connection refused") == true)
    }

    @Test("Rows with session delivery are named in assertions, and the options can be typed again")
    func options() throws {
        let options = try parse("run --transport tcp,mqtt --delivery session --assert tcp-session.lost==0")
        #expect(options.rows.rowTransports == ["tcp-session"] && options.rows.transports == ["tcp", "mqtt"])
        #expect(options.record(.measured).first { $0.name == "delivery" }?.value == "session")
        #expect(try parse("run --transport udp --delivery plain,session").rows.rowTransports == ["udp", "udp-session"])
        #expect(try parse("run --transport udp").rows.rowTransports == ["udp"])
    }

    @Test(
        "A mistake is one sentence",
        arguments: [
            (
                "run --delivery session --url tcp://a:1",
                "--delivery session measures embedded servers, so it excludes --url"
            ),
            ("run --transport tcp-session", #"--transport is "tcp-session""#),
            (
                "run --delivery session --transport mqtt",
                "--delivery session: mqtt has no session server; allowed is tcp"
            ),
            ("run --transport tcp --assert tcp-session.lost==0", "the run has no 'tcp-session', but tcp"),
        ]
    )
    func mistakes(line: String, part: String) {
        do throws(UsageError) {
            _ = try parse(line)
            Issue.record("'\(line)' was accepted")
        } catch {
            #expect(error.message.contains(part), "\(error.message)")
        }
    }
}
