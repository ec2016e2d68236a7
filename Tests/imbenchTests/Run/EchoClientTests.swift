import Codecs
import CommandTestSupport
import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

/// `imbench run --rate`: messages are sent by a schedule, independent of the answers.
@Suite("imbench run with a rate", .timeLimit(.minutes(5)), .ownThread)
struct OpenLoopTests {
    /// No message times out because the machine is busy.
    private static let answerTimeout: Int64 = 30_000_000_000

    /// The outcome of a slice over an awkward connection to an echo server.
    private func run(
        messages: Int = 50,
        interval: Int64 = 1_000_000,
        time: Int64? = nil,
        stall: Int64 = 0,
        answerTimeout: Int64 = OpenLoopTests.answerTimeout,
        isReliable: Bool = true,
        loses: @escaping @Sendable (Int) -> Bool = { _ in false }
    ) async throws -> (outcome: EchoClient.Outcome, accounts: DeliveryCounts, failure: String?) {
        let loop = try QuietLoop.get()
        let (server, connection) = try await echo(on: loop)
        let awkward = AwkwardConnection(over: connection, on: loop, stall: stall, isReliable: isReliable, loses: loses)
        let client = client(awkward, answerTimeout, on: loop)
        let end = time.map { Clocks.monotonic() + $0 } ?? .max
        let slice = EchoClient.Slice(end: end, messages: messages, interval: interval)
        let result = await Task(executorPreference: loop) {
            let outcome = await client.run(slice)
            let (accounts, _, failure) = client.summary
            return (outcome, accounts, failure)
        }.value
        await connection.close()
        await server.stop()
        return result
    }

    private func echo(on loop: EventLoop) async throws -> (EmbeddedServer, any Connection) {
        let server = try await EmbeddedServer.start("tcp://127.0.0.1:0", on: loop)
        let transport = try TransportRegistry.trial.transport(for: server.endpoint, on: loop)
        return (server, try await transport.connect(timeout: .seconds(10)))
    }

    private func client(_ connection: any Connection, _ answerTimeout: Int64 = answerTimeout, on loop: EventLoop)
        -> EchoClient
    {
        let message = ChatMessage.sample(size: 32, seed: 1)
        return EchoClient(
            connection,
            codec: WireFormat.json.codec(),
            message: message,
            answerTimeout: answerTimeout,
            on: loop
        )
    }

    @Test("An open loop sends every message of the schedule over each transport, and its accounts close")
    func transports() throws {
        let line = "run --rate 1000 --messages 101 --warmup 0ms --repeat 1 --connections 2 --size 32 --codec json"
        var options = try OptionParser(vocabulary: everything).parse(
            line.split(separator: " ").map(String.init),
            as: RunCommand.self
        )
        options.rows.transports = TransportRegistry.available.transports.map(\.name)
        let stage = try Stage(registry: .trial, outside: [], seed: 1, placement: nil)
        let bench = EchoBench(
            options.rows,
            options.load,
            stage: stage,
            seed: 1,
            limits: .init(connect: .seconds(60), answer: Self.answerTimeout)
        )
        for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: 101) }
        let rows = bench.results(FloorBench(kinds: [], sizes: []))
        bench.close()
        stage.close()
        #expect(rows.map(\.transport) == options.rows.transports)
        for row in rows {
            #expect(row.outcome == .measured && row.loop == .open && row.targetRate == 2000)
            #expect(row.accounts.closes && row.accounts.sent == 101 && row.accounts.inFlight == 0)
            #expect(row.accounts.acked == 101 || row.transport == "udp")
            #expect(row.rtt?.count == row.accounts.acked && row.service?.count == row.accounts.acked)
            // A schedule can be late, and never early.
            let rates = (try #require(row.sendRate), try #require(row.throughput))
            #expect(rates.0 > 0 && rates.0 <= 2000.001 && rates.1 <= rates.0)
        }
    }

    @Test("A row whose connections need more descriptors than are left is skipped with the reason")
    func descriptors() throws {
        let line = "run --transport tcp --messages 20 --warmup 0ms --connections 2 --size 32,33 --codec json"
        let options = try OptionParser(vocabulary: everything).parse(
            line.split(separator: " ").map(String.init),
            as: RunCommand.self
        )
        let stage = try Stage(registry: .trial, outside: [], seed: 1, placement: nil)
        // Each row takes four.
        let limits = EchoBench.Limits(answer: Self.answerTimeout, descriptors: EchoBench.otherDescriptors + 6)
        let bench = EchoBench(options.rows, options.load, stage: stage, seed: 1, limits: limits)
        for key in bench.keys { bench.measure(key, duration: .seconds(3600), messages: 20) }
        let rows = bench.results()
        bench.close()
        stage.close()
        #expect(rows.map(\.outcome.name) == ["measured", "skipped"])
        #expect(rows[1].reason?.hasPrefix("it needs 4 descriptors beside those of the rows above; ") == true)
    }

    @Test("The latency of a message counts from its scheduled time, not from the actual send time")
    func lateness() async throws {
        // While the first message is delayed by 60 ms, the 49 others become due, 1 ms after each other. Then the first of
        // them is sent 59 ms late, and the last 11 ms late.
        let (outcome, accounts, _) = try await run(stall: 60_000_000)
        #expect(accounts.closes && accounts.acked == 50)
        #expect(outcome.rtt.count == 50 && outcome.service.count == 50)
        let (rtt, service) = (try #require(outcome.rtt.mean), try #require(outcome.service.mean))
        let lateness = (11...59).reduce(0) { $0 + $1 * 1_000_000 }
        // Sums of such large numbers are exact to about a nanosecond.
        #expect((rtt - service) * 50 >= Double(lateness) - 1000)
        #expect(try #require(outcome.rtt.minimum) >= 11_000_000)
    }

    @Test("An open loop continues its schedule when answers are missing, and counts the messages as lost")
    func losses() async throws {
        let (outcome, accounts, failure) = try await run(answerTimeout: 2_000_000_000, isReliable: false) {
            $0.isMultiple(of: 5)
        }
        #expect(failure == nil)
        #expect(accounts.closes && accounts.sent == 50 && accounts.acked == 40 && accounts.lost == 10)
        #expect(outcome.sent == 50 && outcome.answered == 40 && outcome.rtt.count == 40)
    }

    @Test("A message of an open loop has the time of its interval, however early its answer is")
    func oneMessage() async throws {
        let outcome = try await run(messages: 1, interval: 60_000_000_000).outcome
        #expect(outcome.answered == 1 && outcome.elapsed == 60_000_000_000)
        #expect(EchoBench.rate([outcome], isOpenLoop: true, of: \.sent) == 1.0 / 60)
    }

    @Test(
        "A slice that ends between two messages has no more of them, although the last answer came long before its end"
    )
    func slowRate() async throws {
        let (outcome, accounts, _) = try await run(messages: .max, interval: 200_000_000, time: 300_000_000)
        #expect(outcome.sent == 2 && accounts.sent == 2 && accounts.acked == 2)
    }

    @Test("Messages that are sent late take longer than their schedule")
    func late() async throws {
        #expect(EchoState.scheduleTime(of: 50, 1_000_000, sentWithin: 49_300_000) == 50_000_000)
        #expect(EchoState.scheduleTime(of: 50, 1_000_000, sentWithin: 70_000_000) == 70_000_000)
        #expect(EchoState.scheduleTime(of: 0, 1_000_000, sentWithin: 70_000_000) == 0)
        #expect(try await run(stall: 60_000_000).outcome.elapsed >= 60_000_000)
    }

    @Test("The rate of an open loop is the sum over its connections, whose schedules differ in length")
    func rates() {
        let outcomes = [(3, 3_000_000_000), (2, 2_000_000_000), (0, 0)].map { (count: Int, elapsed: Int64) in
            var outcome = EchoClient.Outcome()
            (outcome.sent, outcome.elapsed) = (count, elapsed)
            return outcome
        }
        #expect(EchoBench.rate(outcomes, isOpenLoop: true, of: \.sent) == 2)
        let closed = EchoBench.rate(outcomes, isOpenLoop: false, of: \.sent) ?? 0
        #expect(abs(closed - 5.0 / 3) < 1e-9)
        #expect(EchoBench.rate([], isOpenLoop: true, of: \.sent) == nil)
    }

    @Test("An open loop reports that the server has closed the connection, and its accounts close")
    func serverGone() async throws {
        let loop = try QuietLoop.get()
        let (server, connection) = try await echo(on: loop)
        let client = client(connection, on: loop)
        async let run = Task(executorPreference: loop) {
            _ = await client.run(EchoClient.Slice(end: .max, interval: 1_000_000))
            return client.summary
        }.value
        while await connection.statistics().messagesReceived < 5 { await Task.yield() }
        await server.stop()
        let (accounts, errors, failure) = await run
        #expect(failure != nil && errors > 0)
        #expect(accounts.closes && accounts.acked >= 5)
    }
}

@Suite("Message identifiers")
struct MessageIDTests {
    @Test(
        "An identifier contains a sequence number that is read back",
        arguments: [0, 1, 9_999, 123_456_789_012_345] as [UInt64]
    )
    func roundTrip(number: UInt64) {
        #expect(MessageNumber.text(number).utf8.count == 15)
        #expect(MessageNumber.number(MessageNumber.text(number)) == number)
    }

    @Test(
        "A text that is no identifier has no sequence number",
        arguments: ["", "12345", "00000000000000x", "0000000000000000"]
    )
    func refused(text: String) {
        #expect(MessageNumber.number(text) == nil)
    }
}
