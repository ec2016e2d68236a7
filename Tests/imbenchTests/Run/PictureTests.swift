import Codecs
import CommandTestSupport
import EmbeddedServers
import Foundation
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

private let vocabulary = {
    var vocabulary = everything
    vocabulary.transports = TransportRegistry.measured.transports.map(\.name)
    return vocabulary
}()

private func parse(_ line: String) throws(UsageError) -> RunCommand {
    try OptionParser(vocabulary: vocabulary).parse(line.split(separator: " ").map(String.init), as: RunCommand.self)
}

/// The rows of a run over loopback, and its report.
private func run(_ line: String) async throws -> RunResults {
    let options = try parse(line)
    return try await apart {
        let stage = try Stage(registry: .withSessions, outside: options.urls, seed: 1, placement: nil)
        let bench = EchoBench(
            options.rows,
            options.load,
            stage: stage,
            seed: 1,
            limits: .init(connect: .seconds(60), answer: 60_000_000_000)
        )
        let messages = if case .messages(let count) = options.load.extent { count / options.load.repeats } else { 0 }
        for _ in 0..<options.load.repeats {
            for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: messages) }
        }
        var results = RunResults(of: options, seed: 1)
        results.pictureBytes = options.load.pictureBytes
        results.rows = bench.results(FloorBench(kinds: [], sizes: []))
        bench.close()
        stage.close()
        return results
    }
}

@Suite("imbench run with a picture: the command line")
struct PictureOptionTests {
    @Test("A size is read with its unit, and the report records it")
    func sizes() throws {
        for (text, bytes) in [("1MB", 1_000_000), ("256KiB", 256 << 10), ("1024", 1024), ("1GiB", 1 << 30)] {
            let options = try parse("run --mix picture=\(text)")
            #expect(options.load.pictureBytes == bytes && options.load.picturePlaces == [.none, .same, .second])
            #expect(options.record(.measured).first { $0.name == "mix" }?.value == "picture=\(bytes)")
        }
        #expect(try parse("run").load.picturePlaces == [.none])
        #expect(Picture.text(1_000_000) == "1 MB" && Picture.text(256 << 10) == "256 KiB")
        #expect(Picture.text(5000) == "5 kB" && Picture.text(1025) == "1025 bytes")
    }

    @Test("A picture has fewer rows by default, which other options change")
    func defaults() throws {
        let options = try parse("run --mix picture=1MB")
        #expect(options.rows.codecs == ["protobuf"] && options.rows.sizes == [128] && options.load.connections == 1)
        #expect(options.rows.transports == ["tcp", "ws", "mqtt", "udp", "udp-reliable"])
        let network = try parse("run --mix picture=1MB --network 4g")
        #expect(network.load.connections == 1 && network.load.rate == 20)
        #expect(network.rows.transports == options.rows.transports)
        let given = try parse(
            "run --mix picture=1MB --network 4g --codec json --size 32 --connections 3 --repeat 2 --transport ws"
        )
        #expect(given.rows == RowOptions(transports: ["ws"], codec: "json", size: 32))
        #expect(given.load.connections == 3 && given.load.repeats == 2)
        #expect(try parse("run --mix picture=1MB --url ws://a:1").rows.transports == ["ws"])
    }

    @Test(
        "A mistake is one sentence with the value and what is allowed",
        arguments: [
            ("run --mix picture", #"--mix is "picture"; allowed is picture=SIZE, as in picture=1MB"#),
            ("run --mix video=1MB", #"--mix is "video=1MB"; allowed is picture=SIZE"#),
            ("run --mix picture=0", #"--mix picture is "0"; allowed is 1024 to 1073741824"#),
            ("run --mix picture=2GiB", #"--mix picture is "2GiB"; allowed is 1024 to 1073741824"#),
            ("run --mix picture=big", #"--mix picture is "big"; allowed is 1024"#),
            ("run --mix picture=1MB --transport udp", "udp does not send lost datagrams again"),
            ("overhead --mix picture=1MB", "--mix belongs to 'run', not to 'overhead'"),
            ("run --transport tcp --assert tcp.same.lost==0", "the run has no 'same', but none"),
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

    @Test("An assertion can name the connection of the picture")
    func assertion() throws {
        let options = try parse("run --mix picture=1MB --transport tcp --assert tcp.same.pieces.lost<1")
        var row = ResultRow(transport: "tcp", codec: "protobuf", size: 128)
        row.picture = PictureFigures(place: .second, bytes: 1)
        row.picture?.pieces.lost = 5
        var other = row
        other.picture = PictureFigures(place: .same, bytes: 1)
        #expect(options.assertions[0].failure(in: [row, other]) == nil)
        #expect(options.assertions[0].failure(in: [row])?.contains("there is no such row") == true)
    }
}

@Suite("imbench run with a picture", .timeLimit(.minutes(5)), .ownThread)
struct PictureTests {
    @Test(
        "Each row sends whole pictures beside its messages, and the accounts of both close",
        arguments: ["", " --rate 2000 --connections 2"]
    )
    func rows(load: String) async throws {
        let transports = ["tcp", "ws", "mqtt", "udp-reliable"]
        let results = try await run(
            "run --mix picture=100000 --transport \(transports.joined(separator: ",")) --messages 40 --repeat 2 --warmup 0s"
                + load
        )
        #expect(results.rows.map(\.transport) == transports.flatMap { [$0, $0, $0] })
        #expect(!results.hasFailed)
        for (row, place) in zip(results.rows, transports.flatMap { _ in PicturePlace.allCases }) {
            #expect(row.outcome == .measured, "\(row.reason ?? "")")
            #expect(row.accounts.closes && row.accounts.sent == 40 && row.accounts.acked == 40 && row.errors == 0)
            let picture = try #require(row.picture)
            #expect(picture.place == place && picture.bytes == 100_000 && row.accountsClose)
            guard place != .none else {
                #expect(picture.count == 0 && picture.pieces.sent == 0 && row.bytesPerMessage != nil)
                continue
            }
            // 100,000 bytes are seven pieces. Each repeat sends one picture on each connection, or more.
            #expect(picture.count >= (load.isEmpty ? 2 : 4) && picture.repeats.count == 2)
            #expect(picture.pieces.sent == picture.count * 7 && picture.pieces.acked == picture.pieces.sent)
            #expect(picture.pieces.closes && picture.pieces.unexpected == 0 && picture.pieces.duplicated == 0)
            let (shortest, longest) = (try #require(picture.minimum), try #require(picture.maximum))
            let median = try #require(picture.median)
            #expect(shortest > 0 && shortest <= median && median <= longest)
            // They would count the picture.
            #expect(row.bytesPerMessage == nil && row.cpuPerMessage == nil)
        }
    }

    @Test("A slice that is shorter than a picture lasts until the picture is whole, and messages go on")
    func longPicture() async throws {
        let options = try parse("run --mix picture=4MiB --transport tcp --warmup 0s --repeat 1")
        let rows = try await apart {
            let stage = try Stage(registry: .measured, outside: [], seed: 1, placement: nil)
            let bench = EchoBench(
                options.rows,
                options.load,
                stage: stage,
                seed: 1,
                limits: .init(connect: .seconds(60), answer: 60_000_000_000)
            )
            for key in bench.keys { bench.measure(key, duration: .nanoseconds(1), messages: .max) }
            let rows = bench.results()
            bench.close()
            stage.close()
            return rows
        }
        for row in rows.dropFirst() {
            #expect(row.picture?.count == 1 && row.accountsClose && row.accounts.acked > 1)
            #expect(row.picture?.pieces.acked == row.picture?.pieces.sent)
        }
    }

    @Test("Plain UDP is skipped with a reason, and a session over it carries a picture")
    func udp() async throws {
        let results = try await run(
            "run --mix picture=20000 --transport udp --delivery plain,session --messages 20 --repeat 1 --warmup 0s"
        )
        #expect(results.rows.map(\.transport) == ["udp", "udp", "udp", "udp-session", "udp-session", "udp-session"])
        for row in results.rows.prefix(3) {
            #expect(row.outcome.name == "skipped" && row.reason?.contains("no flow control") == true)
        }
        for row in results.rows.suffix(3) { #expect(row.outcome == .measured && row.accountsClose) }
        #expect(!results.hasFailed)
    }

    /// The client of a row whose paths are proxies.
    private func client(
        _ plan: (FaultProxy, FaultProxy) async throws -> (any Connection, PictureSender.Plan),
        answerTimeout: Int64,
        _ fault: @escaping @Sendable (FaultProxy, FaultProxy, Task<Void, Never>) async -> Void
    ) async throws -> (messages: DeliveryCounts, pieces: DeliveryCounts, failure: String?) {
        let loop = try QuietLoop.get()
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: loop)
        let first = try await FaultProxy.start(to: server.endpoint, on: loop, seed: 1)
        let second = try await FaultProxy.start(to: server.endpoint, on: loop, seed: 1)
        let (connection, picture) = try await plan(first, second)
        let client = EchoClient(
            connection,
            codec: WireFormat.protobuf.codec(),
            message: ChatMessage.sample(size: 32, seed: 1),
            answerTimeout: answerTimeout,
            picture: picture,
            on: loop
        )
        let isOver = Flag()
        let work = Task(executorPreference: loop) {
            var slice = EchoClient.Slice(end: .max)
            slice.hasPicture = true
            _ = await client.run(slice)
            isOver.raise()
        }
        // On a slow machine, the row can fail by its time limit before.
        while !isOver.isRaised, await picture.connection.statistics().messagesReceived < 100 { await Task.yield() }
        await fault(first, second, work)
        await work.value
        let (accounts, _, failure) = await loop.perform { client.summary }
        let pieces = await loop.perform { client.pieces }
        await first.stop()
        await second.stop()
        await server.stop()
        return (accounts, pieces, failure)
    }

    private func connect(_ proxy: FaultProxy) async throws -> any Connection {
        let loop = try QuietLoop.get()
        return try await TransportRegistry.standard.transport(for: proxy.endpoint, on: loop).connect(
            timeout: .seconds(10)
        )
    }

    private func shared(_ first: FaultProxy, _ second: FaultProxy) async throws -> (any Connection, PictureSender.Plan)
    {
        let connection = try await connect(first)
        return (connection, PictureSender.Plan(connection: connection, bytes: 1 << 20, isShared: true))
    }

    private func separate(
        _ first: FaultProxy,
        _ second: FaultProxy
    ) async throws -> (any Connection, PictureSender.Plan) {
        let plan = PictureSender.Plan(connection: try await connect(second), bytes: 1 << 20, isShared: false)
        return (try await connect(first), plan)
    }

    @Test("A server that stops reading the picture fails the row after the time limit, and the accounts close")
    func stalled() async throws {
        let (messages, pieces, failure) = try await client(shared, answerTimeout: 200_000_000) { first, _, _ in
            await first.set(.dead)
        }
        #expect(try #require(failure).contains("200ms"))
        #expect(messages.closes && pieces.closes && messages.inFlight == 0 && pieces.inFlight == 0 && pieces.lost > 0)
    }

    @Test("A silent second connection fails the row, although the messages have their answers")
    func stalledSecond() async throws {
        let (messages, pieces, failure) = try await client(separate, answerTimeout: 200_000_000) { _, second, _ in
            await second.set(.dead)
        }
        #expect(try #require(failure).contains("the server has sent back no piece of the picture for 200ms"))
        #expect(messages.closes && pieces.closes && pieces.inFlight == 0 && pieces.lost > 0)
    }

    @Test("A second connection that is lost fails the row with its error")
    func lostSecond() async throws {
        let (messages, pieces, failure) = try await client(separate, answerTimeout: .max / 2) { _, second, _ in
            await second.cut(.reset)
        }
        #expect(failure != nil)
        #expect(messages.closes && pieces.closes && pieces.inFlight == 0)
    }

    @Test("An interruption ends the picture, whose pieces remain in flight")
    func interrupted() async throws {
        let (messages, pieces, failure) = try await client(separate, answerTimeout: .max / 2) { _, second, work in
            await second.set(.dead)
            work.cancel()
        }
        #expect(failure == nil)
        #expect(messages.closes && pieces.closes && pieces.lost == 0 && messages.lost == 0)
    }
}

@Suite("The report of imbench run with a picture")
struct PictureReportTests {
    /// A row of each place over tcp and ws, whose round trips have these factors.
    private func results(same: Double = 4, second: Double = 1.6, repeats: Int = 12) -> RunResults {
        var results = sampleResults()
        let sample = results.rows[0]
        results.pictureBytes = 1_000_000
        results.rows = ["tcp", "ws"].flatMap { transport in
            zip(PicturePlace.allCases, [1, same, second]).map { place, factor in
                var row = sample
                (row.transport, row.codec, row.size) = (transport, "protobuf", 128)
                row.repeats[.p50] = [Double?](repeating: 100 * factor, count: repeats)
                var picture = PictureFigures(place: place, bytes: 1_000_000)
                guard place != .none else {
                    row.picture = picture
                    return row
                }
                picture.repeats = [Double?](repeating: place == .same ? 1000 : 1100, count: repeats)
                (picture.median, picture.minimum, picture.maximum, picture.count) = (1000, 900, 1200, repeats)
                picture.pieces = DeliveryCounts(sent: 744, acked: 744)
                row.picture = picture
                return row
            }
        }
        return results
    }

    @Test("The sentences name the cost of the picture, and what a second connection changes")
    func sentences() {
        #expect(
            results().pictureSentences == [
                "In every row, a message beside a picture on the same connection takes 4 times as long as a message alone.",
                "In every row, a message beside a picture on a second connection takes 60 % less time than a message beside one "
                    + "on the same connection.",
                "In every row, a message beside a picture on a second connection takes 60 % longer than a message alone.",
                "In every row, a picture on a second connection takes 10 % longer than one on the same connection.",
            ]
        )
        let few = results(repeats: 3).pictureSentences.filter { $0.contains("repeats are too few") }
        #expect(few.count == 1)
    }

    @Test("The JSON has the connection of the picture, its times and its pieces, with units in the names")
    func json() throws {
        let text = results().report.text(.json, .none)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        #expect(object["schema"] as? String == "imbench/1" && (object["sentences"] as? [String])?.count == 4)
        let rows = try #require(object["results"] as? [[String: Any]])
        #expect(rows.map { $0["picture"] as? String } == ["none", "same", "second", "none", "same", "second"])
        #expect(rows[0]["picture_ms"] is NSNull && rows[0]["pieces"] is NSNull)
        #expect(rows[1]["picture_bytes"] as? Int == 1_000_000 && rows[1]["accounts_close"] as? Bool == true)
        let times = try #require(rows[1]["picture_ms"] as? [String: Double])
        #expect(times == ["p50": 1000, "min": 900, "max": 1200, "n": 12])
        #expect(rows[1]["picture_mbit_per_s"] as? Double == 8)
        #expect((rows[1]["picture_repeats_ms"] as? [Double])?.count == 12)
        #expect((rows[1]["pieces"] as? [String: Double])?["acked"] == 744)
        #expect(!sampleResults().report.text(.json, .none).contains("picture"))
    }

    @Test("'imbench compare' reads the three rows of a transport as different rows")
    func compared() throws {
        let run = try RecordedRun(json: results().report.text(.json, .none).utf8, label: "a")
        #expect(run.rows.map(\.name.picture) == ["none", "same", "second", "none", "same", "second"])
    }

    @Test("Text, Markdown, CSV and HTML have a row for each connection of the picture")
    func formats() {
        let report = results().report
        for format in [Format.table, .markdown, .html] {
            let text = report.text(format, .none)
            #expect(text.contains("same connection") && text.contains("second connection"))
            #expect(text.contains("Mbit/s") && text.contains("picture of 1 MB"))
        }
        let lines = report.text(.csv, .none).split(separator: "\r\n")
        #expect(lines[0].contains(",picture,") && lines[0].contains("picture.p50_ms") && lines[2].contains(",same,"))
        #expect(!sampleResults().report.text(.csv, .none).contains("picture"))
    }

    @Test("The chart has its values with the unit of its axis")
    func chart() throws {
        let chart = try #require(results().report.sections.flatMap(\.charts).first as? BarChart)
        #expect(chart.title == "128 bytes, protobuf: round trip of the messages")
        #expect(chart.rows.map(\.value).first == "100.0 / 180.1 µs")
        #expect(chart.legend.map(\.meaning) == ["p50", "p90"])
    }

    @Test("Pieces that are unaccounted for fail the row, and the table says so")
    func brokenAccounts() {
        var results = results()
        results.rows[1].picture?.pieces.sent += 1
        #expect(results.hasFailed)
        #expect(results.report.text(.table, .none).contains("✗ pieces sent 745 ≠ acked 744"))
    }
}
