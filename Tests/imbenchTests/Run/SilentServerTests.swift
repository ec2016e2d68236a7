import Codecs
import CommandTestSupport
import EmbeddedServers
import Foundation
import Primitives
import Protocols
import SocketIO
import TestSupport
import Testing
import Transports

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

@Suite("A silent server", .timeLimit(.minutes(5)), .ownThread)
struct SilentServerTests {
    private func options(_ line: String) throws -> RunCommand {
        try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init), as: RunCommand.self)
    }

    /// The rows of a run against an outside server.
    private func rows(_ url: String, _ limits: EchoBench.Limits) async throws -> [ResultRow] {
        let options = try options(
            "run --url \(url) --transport \(url.prefix { $0 != ":" }) --messages 100 --codec json"
        )
        return try await apart {
            let stage = try Stage(registry: .measured, outside: options.urls, seed: 1, placement: nil)
            let bench = EchoBench(options.rows, options.load, stage: stage, seed: 1, limits: limits)
            for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: 100) }
            let rows = bench.results(FloorBench(kinds: [], sizes: []))
            bench.close()
            stage.close()
            return rows
        }
    }

    @Test("A server that accepts connections and sends nothing fails every row, with a sentence")
    func accepting() async throws {
        let loop = try QuietLoop.get()
        let address = try #require(SocketAddress(numeric: "127.0.0.1", port: 0))
        // The kernel completes the handshakes, and no program accepts the connections.
        let listener = try await loop.perform {
            Result { LoopBound(try ListeningSocket(boundTo: address, on: loop), to: loop) }
        }.get()
        let port = try #require(await loop.perform { listener.value.local?.port })
        let rows = try await rows("tcp://127.0.0.1:\(port)", .init(answer: 200_000_000))
        #expect(rows.count == 3)
        for row in rows {
            #expect(row.hasFailed)
            #expect(row.reason?.contains("the server has not returned a message; with --url, it must") == true)
        }
        await loop.perform { listener.value.close() }
    }

    @Test("A refused connection appears once in each row, with the address of the server")
    func refused() async throws {
        let loop = try QuietLoop.get()
        let address = try #require(SocketAddress(numeric: "127.0.0.1", port: 0))
        let listener = try await loop.perform {
            Result { LoopBound(try ListeningSocket(boundTo: address, on: loop), to: loop) }
        }.get()
        let port = try #require(await loop.perform { listener.value.local?.port })
        await loop.perform { listener.value.close() }
        for row in try await rows("tcp://127.0.0.1:\(port)?inbox=100", .init()) {
            #expect(
                row.reason == "tcp://127.0.0.1:\(port): connection refused at 127.0.0.1:\(port): nothing listens there"
            )
        }
    }

    @Test("A UDP server that sends nothing fails every row that fits in a datagram")
    func datagrams() async throws {
        let loop = try QuietLoop.get()
        let address = try #require(SocketAddress(numeric: "127.0.0.1", port: 0))
        let socket = try await loop.perform {
            Result { LoopBound(try DatagramSocket(boundTo: address, on: loop), to: loop) }
        }.get()
        let port = try #require(await loop.perform { socket.value.local?.port })
        let rows = try await rows("udp://127.0.0.1:\(port)", .init(connect: .milliseconds(200)))
        let failed = rows.filter(\.hasFailed)
        #expect(failed.map(\.size) == [32, 256])
        for row in failed { #expect(row.reason?.hasPrefix("udp://127.0.0.1:\(port): ") == true) }
        await loop.perform { socket.value.close() }
    }

    /// The outcome of a slice during which the path to the server starts to drop all packets.
    private func goingSilent(_ transport: String, _ slice: EchoClient.Slice) async throws -> (DeliveryCounts, String?) {
        let loop = try QuietLoop.get()
        let server = try await EmbeddedServer.start("\(transport)://127.0.0.1:0", on: loop)
        let proxy = try await FaultProxy.start(to: server.endpoint, on: loop, seed: 1)
        let registry = TransportRegistry.standard
        let connection = try await registry.transport(for: proxy.endpoint, on: loop).connect(timeout: .seconds(10))
        let message = ChatMessage.sample(size: 32, seed: 1)
        let client = EchoClient(
            connection,
            codec: WireFormat.json.codec(),
            message: message,
            answerTimeout: 100_000_000,
            on: loop
        )
        let isOver = Flag()
        async let run = Task(executorPreference: loop) {
            _ = await client.run(slice)
            isOver.raise()
            let (accounts, _, failure) = client.summary
            return (accounts, failure)
        }.value
        // On a slow machine, the row can fail by its time limit before.
        while !isOver.isRaised, await connection.statistics().messagesReceived < 5 { await Task.yield() }
        await proxy.set(.dead)
        let result = await run
        await proxy.stop()
        await server.stop()
        return result
    }

    @Test(
        "A server that stops answering fails the row, and the accounts close",
        arguments: ["tcp", "ws", "udp"]
    )
    func midway(transport: String) async throws {
        let (accounts, failure) = try await goingSilent(transport, EchoClient.Slice(end: .max))
        #expect(try #require(failure).contains("the server has answered"))
        #expect(accounts.closes && accounts.acked >= 5 && accounts.lost == 1 && accounts.inFlight == 0)
    }

    @Test("A server that stops answering an open loop fails the row")
    func midwayOpen() async throws {
        let (accounts, failure) = try await goingSilent("tcp", EchoClient.Slice(end: .max, interval: 1_000_000))
        #expect(try #require(failure).contains("the server has answered nothing for 100ms"))
        #expect(accounts.closes && accounts.acked >= 5 && accounts.lost > 0)
    }

    @Test("A slice much longer than the answer timeout loses nothing while answers arrive")
    func answerTimeout() async throws {
        let loop = try QuietLoop.get()
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: loop)
        let transport = try TransportRegistry.standard.transport(for: server.endpoint, on: loop)
        let connection = try await transport.connect(timeout: .seconds(10))
        let message = ChatMessage.sample(size: 32, seed: 1)
        let answerTimeout: Int64 = 200_000_000
        let client = EchoClient(
            connection,
            codec: WireFormat.json.codec(),
            message: message,
            answerTimeout: answerTimeout,
            on: loop
        )
        let accounts = await Task(executorPreference: loop) {
            _ = await client.run(EchoClient.Slice(end: Clocks.monotonic() + 3 * answerTimeout))
            return client.summary.accounts
        }.value
        #expect(accounts.closes && accounts.lost == 0 && accounts.acked > 0)
        await connection.close()
        await server.stop()
    }

    @Test("A message that is in flight when the run is interrupted is not lost")
    func interrupted() async throws {
        let loop = try QuietLoop.get()
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: loop)
        let transport = try TransportRegistry.standard.transport(for: server.endpoint, on: loop)
        let connection = AwkwardConnection(over: try await transport.connect(timeout: .seconds(10)), on: loop) {
            $0 == 5
        }
        let message = ChatMessage.sample(size: 32, seed: 1)
        let client = EchoClient(
            connection,
            codec: WireFormat.json.codec(),
            message: message,
            answerTimeout: .max / 2,
            on: loop
        )
        let run = Task(executorPreference: loop) {
            _ = await client.run(EchoClient.Slice(end: .max))
            return client.summary
        }
        while await connection.statistics().messagesReceived < 5 { await Task.yield() }
        run.cancel()
        let (accounts, errors, failure) = await run.value
        #expect(accounts.closes && accounts.acked == 5 && accounts.inFlight == 1 && accounts.lost == 0)
        #expect(errors == 0 && failure == nil)
        await connection.close()
        await server.stop()
    }
}
