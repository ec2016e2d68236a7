import Codecs
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

/// The rows of a command line, each with this number of messages in each repeat.
private func measured(_ line: String, messages: Int) async throws -> [FanoutRow] {
    let words = line.split(separator: " ").map(String.init)
    var vocabulary = everything
    vocabulary.transports = TransportRegistry.measured.transports.map(\.name)
    let options = try OptionParser(vocabulary: vocabulary).parse(words, as: FanoutCommand.self)
    return try await apart {
        let stage = try Stage(registry: .measured, outside: [], seed: 1, placement: nil)
        let bench = FanoutBench(
            options.rows,
            options.load,
            stage: stage,
            seed: 1,
            limits: .init(delivery: .seconds(60))
        )
        for _ in 0..<options.load.repeats {
            for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: messages) }
        }
        let rows = bench.results
        bench.close()
        stage.close()
        return rows
    }
}

@Suite("imbench fanout", .timeLimit(.minutes(5)), .ownThread)
struct FanoutTests {
    /// The transports that lose nothing.
    private static let reliable = TransportRegistry.measured.transports.map(\.name).filter {
        !["udp", "dtls"].contains($0)
    }

    @Test("Every message reaches every subscriber, over each transport and embedded server", arguments: reliable)
    func closedLoop(transport: String) async throws {
        let line =
            "fanout --transport \(transport) --subscribers 1,5 --warmup 0ms --repeat 2 --server fan-out,room,broker"
        // A client that polls gets a message a second.
        let messages = transport == "http-poll" ? 2 : 20
        let rows = try await measured(line, messages: messages)
        #expect(rows.count == 2 * Set(rows.map(\.server)).count && rows.count >= 2)
        for row in rows {
            let all = 2 * messages
            #expect(row.outcome == .measured && !row.hasFailed, "\(row.name): \(row.reason ?? "")")
            #expect(row.messages == all && row.accounts.sent == all * row.subscribers, "\(row.name)")
            #expect(row.accounts.acked == all * row.subscribers && row.accounts.unexpected == 0, "\(row.name)")
            #expect(row.first?.count == all && row.half?.count == all && row.last?.count == all, "\(row.name)")
            let (first, half, last) = (row.first?.minimum ?? 0, row.half?.minimum ?? 0, row.last?.minimum ?? 0)
            #expect(first > 0 && first <= half && half <= last, "\(row.name)")
            #expect(row.deliveryRate.map { $0 > 0 } == true, "\(row.name)")
            #expect(row.cpuPerDelivery.map { $0 > 0 } == true, "\(row.name)")
        }
    }

    @Test("The accounts close over a transport that may lose messages")
    func datagrams() async throws {
        let line = "fanout --transport udp --subscribers 3 --warmup 0ms --repeat 1 --server fan-out"
        let row = try #require(try await measured(line, messages: 20).first)
        #expect(row.closes && row.messages == 20 && row.accounts.inFlight == 0)
    }

    @Test("An open loop sends every message of the schedule", arguments: ["fan-out", "room"])
    func openLoop(server: String) async throws {
        let line = "fanout --transport tcp --subscribers 3 --warmup 0ms --repeat 1 --rate 500 --server \(server)"
        let row = try #require(try await measured(line, messages: 50).first)
        #expect(row.outcome == .measured && row.closes && row.targetRate == 500)
        #expect(row.messages == 50 && row.accounts.acked == 150 && row.last?.count == 50)
    }

    @Test("An open loop faster than the window is slowed down, and loses nothing")
    func fastOpenLoop() async throws {
        let line = "fanout --transport tcp --subscribers 2 --warmup 0ms --repeat 1 --rate 10000000 --server fan-out"
        let row = try #require(try await measured(line, messages: 5000).first)
        #expect(row.outcome == .measured && row.closes && row.accounts.acked == 10_000)
    }

    @Test("A message that is too large for the transport skips its row")
    func tooLarge() async throws {
        let line = "fanout --transport udp --subscribers 1 --size 4096 --warmup 0ms --server fan-out"
        let row = try #require(try await measured(line, messages: 1).first)
        #expect(!row.hasFailed)
        #expect(row.reason?.contains("the limit of udp is") == true)
    }

    @Test("mosquitto is measured beside the embedded broker, and is ended", .enabled(if: Mosquitto.path != nil))
    func mosquitto() async throws {
        let line = "fanout --transport mqtt,mqtts,stomp --subscribers 4 --warmup 0ms --repeat 2 --server mosquitto"
        let rows = try await measured(line, messages: 20)
        let row = try #require(rows.first { $0.transport == "mqtt" })
        #expect(row.outcome == .measured && row.closes && row.accounts.acked == 160)
        #expect(row.cpuPerDelivery.map { $0 > 0 } == true)
        #expect(rows.first { $0.transport == "mqtts" }?.reason == "mosquitto is started without TLS")
        #expect(rows.first { $0.transport == "stomp" }?.reason == "mosquitto speaks MQTT only")
    }

    @Test("A mosquitto process has ended when it is stopped", .enabled(if: Mosquitto.path != nil))
    func ended() async throws {
        let loop = try QuietLoop.get()
        let transport = try TransportRegistry.standard.transport(named: "mqtt")
        let broker = try await Task(executorPreference: loop) {
            try await Mosquitto.start(transport, host: "127.0.0.1", on: loop)
        }.value
        #expect(broker.cpu != nil)
        try await apart { broker.stop() }
        #expect(broker.cpu == nil)
    }

    // MARK: Failures

    /// Clients of a server, after this number of messages.
    private func run(
        _ server: EmbeddedServer,
        delivery: Duration = .seconds(60),
        slice: FanoutClients.Slice = .init(end: .max),
        meanwhile: @escaping @Sendable () async -> Void = {}
    ) async throws -> (accounts: DeliveryCounts, messages: Int, failure: String?, elapsed: Int64) {
        let loop = try QuietLoop.get()
        let transport = try TransportRegistry.measured.transport(named: server.endpoint.scheme)
        let message = try FanoutMessage(size: 32, codec: .json, seed: 1)
        let clients = try await Task(executorPreference: loop) {
            try await FanoutClients.connect(
                transport,
                server.endpoint,
                subscribers: 3,
                message,
                topic: "fanout",
                .init(delivery: delivery),
                on: loop
            )
        }.value
        async let run = Task(executorPreference: loop) {
            let outcome = await clients.run(slice)
            let (accounts, messages, failure) = clients.summary
            return (accounts, messages, failure, outcome.elapsed)
        }.value
        await meanwhile()
        let summary = await run
        await Task(executorPreference: loop) { await clients.close() }.value
        return summary
    }

    @Test("A reliable server that delivers nothing fails the row with a sentence, and the accounts close")
    func silent() async throws {
        // An echo server answers the publisher alone.
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", .echo, on: try QuietLoop.get())
        let (accounts, messages, failure, _) = try await run(server, delivery: .milliseconds(100))
        #expect(
            failure == "3 subscribers did not receive message 0, and nothing has arrived for 100ms"
        )
        #expect(messages == 1 && accounts == DeliveryCounts(sent: 3, lost: 3))
        await server.stop()
    }

    @Test("One message of an open loop stands for its whole interval, so that its rate is not that of one delivery")
    func shortSlice() async throws {
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", .fanOut, on: try QuietLoop.get())
        let slice = FanoutClients.Slice(end: .max, messages: 1, interval: 200_000_000)
        let summary = try await run(server, slice: slice)
        #expect(summary.messages == 1 && summary.accounts.acked == 3 && summary.failure == nil)
        #expect(summary.elapsed >= 200_000_000)
        await server.stop()
    }

    @Test("A server that closes its connections fails the row, and the accounts close")
    func closed() async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0", .fanOut, on: try QuietLoop.get())
        let (accounts, messages, failure, _) = try await run(server) { await server.stop() }
        #expect(failure != nil)
        #expect(accounts.closes && accounts.sent == 3 * messages && accounts.inFlight == 0)
    }

    @Test("Over an unreliable transport, missing deliveries are lost and the run continues")
    func unreliable() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo, on: try QuietLoop.get())
        let slice = FanoutClients.Slice(end: .max, messages: 2)
        let (accounts, messages, failure, _) = try await run(server, delivery: .milliseconds(50), slice: slice)
        #expect(failure == nil && messages == 2)
        #expect(accounts == DeliveryCounts(sent: 6, lost: 6))
        await server.stop()
    }
}

@Suite("imbench fanout: options and report") struct FanoutReportTests {
    private func parse(_ line: String) throws(UsageError) -> FanoutCommand {
        try OptionParser(vocabulary: everything).parse(
            line.split(separator: " ").map(String.init),
            as: FanoutCommand.self
        )
    }

    @Test("Every option is read, and the defaults are one size and three numbers of subscribers")
    func options() throws {
        let options = try parse(
            "fanout --transport ws,mqtt --server broker,fan-out --subscribers 2,30 --size 1KiB --rate 5 --duration 3s"
                + " --repeat 2 --warmup 0s --placement free --seed 4"
        )
        #expect(options.rows.servers == [.broker, .fanOut] && options.rows.subscribers == [2, 30])
        #expect(options.rows.sizes == [1024] && options.load.rate == 5 && options.load.duration == .seconds(3))
        let standard = try parse("fanout")
        #expect(standard.rows.sizes == [256] && standard.rows.subscribers == [1, 10, 100])
        #expect(standard.rows.servers == FanoutServerKind.allCases)
    }

    @Test(
        "A mistake is one sentence",
        arguments: [
            ("fanout --subscribers 0", #"--subscribers is "0"; allowed is 1 to 10000"#),
            (
                "fanout --server brker",
                #"--server is "brker"; did you mean "broker"? allowed is "fan-out", "room", "broker", "mosquitto""#
            ),
            (
                "fanout --server broker --transport ws",
                "--server broker does not serve --transport ws; allowed is fan-out, room"
            ),
            (
                "fanout --transport ws --assert ws.broker.lost<1",
                "--assert 'ws.broker.lost<1': the run has no 'broker', but fan-out, room"
            ),
            ("fanout --assert ws.room.7.lost<1", "--assert 'ws.room.7.lost<1': the run has no '7', but 1, 10, 100"),
        ]
    )
    func mistakes(line: String, sentence: String) {
        #expect(throws: UsageError(sentence)) { try parse(line) }
    }

    @Test("Assertions apply to the rows that they name")
    func assertions() throws {
        let rows = sampleFanout(hostile: "hostile").rows
        func failure(_ text: String) throws -> String? {
            try Assertion(text, everything, .fanout).failure(in: rows)
        }
        #expect(try failure("mqtt.broker.100.256.last.p50_us > 1") == nil)
        #expect(try failure("mqtt.lost == 0") == nil)
        #expect(try failure("mqtt.broker.100.last.p50_us < 1")?.contains("mqtt broker 100 256 has") == true)
        #expect(try failure("mqtt.broker.10.lost == 0")?.hasSuffix("there is no such row") == true)
        #expect(try failure("tcp.fan-out.last.p50_us > 0")?.contains("hostile") == true)
    }

    @Test("A row whose accounts do not close fails")
    func accounts() throws {
        var row = try #require(sampleFanout(hostile: "").rows.first)
        #expect(row.closes && !row.hasFailed)
        row.messages += 1
        #expect(!row.closes && row.hasFailed)
        let results = FanoutResults(run: sampleResults(), rows: [row])
        #expect(results.report.text(.table, .none, .init(width: .max)).contains("✗ 21 × 100 ≠ 2000"))
    }

    @Test("The verdict has the range of the rows with the most subscribers, and names only sure differences")
    func verdict() throws {
        var rows = sampleFanout(hostile: "").rows
        var later = try #require(rows[1].last)
        later.p50 = 2000
        rows[1].last = later
        rows[2].outcome = .measured
        rows[2].last = later
        let verdict = FanoutResults(run: sampleResults(), rows: rows).report.verdict
        #expect(verdict.first?.hasPrefix("In the median, the last of 100 subscribers has a message after 10") == true)
        // Their repeats are not known, so no row is named.
        #expect(verdict.first?.hasSuffix(" to 2000 µs.") == true && verdict.first?.contains("(") == false)
        #expect(verdict.last == "There are too few repeats to compare the rows.")
        rows[0].last?.p50 = nil
        #expect(
            FanoutResults(run: sampleResults(), rows: rows).report.verdict.last
                == "1 of 2 rows has too few messages for a median."
        )
        let one = FanoutResults(run: sampleResults(), rows: [rows[1]]).report.verdict
        #expect(one == ["In the median, the last of 100 subscribers has a message after 2000 µs."])
        #expect(FanoutResults(run: sampleResults(), rows: [rows[3]]).report.verdict.isEmpty)
    }

    @Test("The verdict begins with the rows that failed, and a repeat without a delivery is no failure")
    func failedRows() throws {
        var results = sampleFanout(hostile: "refused")
        #expect(results.report.verdict.first == "1 of 4 rows failed: tcp fan-out 1 4096 (refused).")
        results.rows.removeSubrange(1...)
        results.rows[0].lastP50Repeats = [Double?](repeating: 1000, count: 27) + [nil, nil, nil]
        results.rows[0].measuredRepeats = 27
        #expect(results.report.text(.table, .none, .init(width: .max)).contains("✓ 27 of 30 repeats"))
        #expect(results.report.verdict.first?.contains("failed") == false)
    }

    @Test("A sentence compares servers of a transport and transports with a server, or says that repeats are too few")
    func differences() throws {
        let first = try #require(sampleFanout(hostile: "").rows.first)
        func lines(_ repeats: Int) -> [String] {
            let times: [(String, FanoutServerKind, Double)] = [
                ("tcp", .fanOut, 100), ("tcp", .room, 300), ("ws", .fanOut, 100), ("ws", .room, 300),
                ("mqtt", .broker, 50),
            ]
            let rows = times.map { transport, server, time in
                var row = first
                (row.transport, row.server) = (transport, server)
                row.lastP50Repeats = [Double?](repeating: time, count: repeats)
                row.cpuRepeats = [Double?](repeating: transport == "ws" ? 6 : 2, count: repeats)
                return row
            }
            let text = FanoutResults(run: sampleResults(), rows: rows).report.text(.table, .none, .init(width: .max))
            return text.split(separator: "\n").map(String.init)
        }
        let many = lines(12)
        for sentence in [
            "ws fan-out: no sure difference from tcp fan-out in time to the last subscriber with 100 subscribers: between 0 % "
                + "and 0 %.",
            "With 100 subscribers, ws fan-out uses 3 times as much CPU time of the server per delivery as tcp fan-out.",
        ] { #expect(many.contains(sentence), "\(sentence)") }
        #expect(!many.contains { $0.contains(", mqtt broker takes") })
        #expect(lines(3).contains { $0.hasPrefix("3 repeats are too few") })
    }

    /// Rows with these times of the last subscriber, in µs.
    private func results(
        _ times: [(transport: String, server: FanoutServerKind, subscribers: Int, time: Double)],
        rate: Double? = nil
    ) throws -> FanoutResults {
        let first = try #require(sampleFanout(hostile: "").rows.first)
        let rows = times.map { transport, server, subscribers, time in
            var row = first
            (row.transport, row.server, row.subscribers, row.targetRate) = (transport, server, subscribers, rate)
            row.last?.p50 = time
            row.deliveryRate = Double(subscribers) * 1e6 / time
            row.accounts = DeliveryCounts(sent: row.messages * subscribers, acked: row.messages * subscribers)
            row.lastP50Repeats = [Double?](repeating: time, count: 20)
            row.cpuRepeats = [Double?](repeating: 2, count: 20)
            return row
        }
        return FanoutResults(run: sampleResults(), rows: rows)
    }

    @Test("Rows that show the limit of the room are not compared, and a note says so")
    func room() throws {
        let times: [(String, FanoutServerKind, Int, Double)] = [
            ("tcp", .fanOut, 1, 80), ("tcp", .room, 1, 140), ("tcp", .fanOut, 100, 500), ("tcp", .room, 100, 10_000),
            ("ws", .fanOut, 100, 600), ("ws", .room, 100, 10_010),
        ]
        let report = try results(times).report
        #expect(
            report.verdict == [
                "In the median, the last of 100 subscribers has a message after 500.0 (tcp fan-out) to 600.0 µs (ws fan-out), apart "
                    + "from the rooms, whose rate is limited.",
                "The largest difference that is sure with 95 %: ws fan-out takes at least 20 % longer to the last subscriber than "
                    + "tcp fan-out.",
            ]
        )
        let notes = report.sections[0].notes
        #expect(notes.contains { $0.hasPrefix("With 1 subscriber, tcp room takes 75 % longer to the last subscriber") })
        #expect(!notes.contains { $0.contains("ws room takes") })
        #expect(
            notes.contains { $0.contains("The rows with 100 subscribers show this limit, so they are not compared") }
        )
        // Below the rate from which a member writes much, all rows are compared.
        let slow = try results(times, rate: 50).report
        // The two rooms do not surely differ.
        #expect(slow.verdict[0].hasSuffix(" to 10,010 µs."))
        #expect(!slow.sections[0].notes.contains { $0.contains("this limit") })
        let only = try results([("tcp", .room, 100, 10_000)]).report
        #expect(
            only.verdict.count == 1 && only.verdict[0].hasPrefix("room: for a member that writes much, a room sends")
        )
    }

    @Test("The verdict is as sure as the sentences: both have the comparisons of all numbers of subscribers")
    func sameIntervals() throws {
        var results = try results([
            ("tcp", .fanOut, 1, 100), ("ws", .fanOut, 1, 100), ("udp", .fanOut, 1, 100), ("tcp", .fanOut, 100, 100),
            ("ws", .fanOut, 100, 300), ("udp", .fanOut, 100, 100),
        ])
        for index in results.rows.indices { results.rows[index].lastP50Repeats.removeLast(13) }
        // 7 repeats are enough for the two comparisons with 100 subscribers, and too few for all four.
        #expect(results.report.verdict.last?.contains("7 repeats are too few to separate any difference") == true)
    }

    @Test("The median of a row is that of its repeats, which the sentences compare, if most repeats have one")
    func median() {
        var times = Histogram()
        for value in 1...100 as ClosedRange<Int64> { times.record(value * 1000) }
        #expect(FanoutBench.latency(times, [10, nil, 20]).p50 == 15)
        #expect(FanoutBench.latency(times, [10, nil, nil]).p50 == Latency(times).p50)
        #expect(FanoutBench.latency(times, []).p50 == Latency(times).p50)
    }
}
