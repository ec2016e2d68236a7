import CommandTestSupport
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Reporting
@testable import Workloads
@testable import imbench

private func options(_ line: String) throws(UsageError) -> HeartbeatCommand {
    try OptionParser(vocabulary: everything).parse(
        line.split(separator: " ").map(String.init),
        as: HeartbeatCommand.self
    )
}

@Suite("The radio model")
struct RadioModelTests {
    @Test("The awake time follows from the tail alone", arguments: [(180, 1.33), (45, 5.33), (30, 8.0), (5, 24.0)])
    func tail(seconds: Int, hours: Double) throws {
        let model = try RadioModel("tail=10s")
        #expect(abs(model.awakeHoursPerDay(every: .seconds(seconds)) - hours) < 0.01)
    }

    @Test("The time to wake up is added to the tail")
    func wake() throws {
        let model = try RadioModel("wake=2s,tail=14s")
        #expect(abs(model.awakeHoursPerDay(every: .seconds(160)) - 2.4) < 1e-9)
        #expect(model == RadioModel(name: "wake=2s,tail=14s", wake: .seconds(2), tail: .seconds(14), source: "--radio"))
    }

    @Test("Messages keep the radio awake too, and replace the pings that they make needless")
    func messages() throws {
        let model = try RadioModel("tail=10s")
        // 24 messages an hour apart, and 59 pings after each of them.
        let hourly = DailyTraffic(bursts: 24, messages: 1, rate: 1)
        #expect(abs(model.awakeHoursPerDay(every: .seconds(60), beside: hourly) - 4) < 1e-9)
        #expect(abs(model.awakeHoursPerDay(every: .seconds(3601), beside: hourly) - 24 * 10 / 3600) < 1e-9)
        // Each burst lasts 40 s, in which the radio stays awake, and the tail follows its last message.
        let bursts = DailyTraffic(bursts: 24, messages: 5, rate: 0.1)
        #expect(abs(model.awakeHoursPerDay(every: .seconds(3601), beside: bursts) - 24 * 50 / 3600) < 1e-9)
        // Between messages that are 20 s apart, the radio sleeps for 10 s, unless there is a ping.
        let slow = DailyTraffic(bursts: 24, messages: 5, rate: 0.05)
        #expect(abs(model.awakeHoursPerDay(every: .seconds(3601), beside: slow) - 24 * 50 / 3600) < 1e-9)
        #expect(model.awakeHoursPerDay(every: .seconds(15), beside: slow) > 15)
        #expect(model.awakeHoursPerDay(every: .seconds(5), beside: slow) == 24)
    }

    @Test("Messages without a pause keep the radio awake all day, whatever the interval", arguments: [25, 60])
    func busy(seconds: Int) {
        let traffic = DailyTraffic(bursts: 2, messages: 43_200, rate: 1)
        let hours = RadioModel.lte.awakeHoursPerDay(every: .seconds(seconds), beside: traffic)
        #expect(abs(hours - 24) < 0.01)
    }

    @Test("Each known radio names its source and its year", arguments: RadioModel.known)
    func sources(_ model: RadioModel) throws {
        #expect(try RadioModel(model.name) == model)
        #expect(model.source.contains("20") && model.sentence.contains(model.source))
        #expect(model.sentence.contains("a model, not a measurement"))
    }

    @Test(
        "A wrong radio names what is allowed",
        arguments: [
            ("lt", "--radio: unknown radio 'lt'; did you mean 'lte'? allowed is lte, 3g, wifi, tail=TIME,wake=TIME"),
            ("tail=10", #"--radio: tail is "10"; its unit is missing ("10s" are seconds); allowed is "0s" to "1h""#),
            ("tail=10s,tail=1s", "--radio: tail is given twice"),
            ("wake=1s", #"--radio "wake=1s": tail is missing; allowed is tail=TIME, as in tail=10s"#),
            (
                "tale=10s",
                "--radio: unknown parameter 'tale=10s'; allowed is tail=TIME, wake=TIME"
            ),
        ]
    )
    func mistakes(_ text: String, _ sentence: String) {
        #expect(throws: UsageError(sentence)) { try options("heartbeat --radio \(text)") }
    }
}

@Suite("imbench heartbeat", .timeLimit(.minutes(5)), .ownThread)
struct HeartbeatTests {
    private let seconds = [30, 120].map { Duration.seconds($0) }

    /// A client behind the measured NAT.
    private static func client(
        _ transport: String,
        _ client: Double,
        server: Double? = nil,
        _ delivery: DeliveryConfiguration.Mode = .session,
        seen: NATObservation
    ) -> NATRow {
        var row = NATRow(
            transport: transport,
            pings: NATPings(client: .seconds(client), server: server.map { .seconds($0) }),
            delivery: delivery,
            survivesRebinding: transport == "udp"
        )
        row.record(seen)
        return row
    }

    private static let kept = NATObservation(message: .seconds(3.5), isReachable: true)
    private static let died = NATObservation(
        forgotten: 1,
        lost: .seconds(5),
        reopened: .seconds(5.02),
        message: .seconds(5.03),
        isReachable: true
    )
    private static let moved = NATObservation(
        forgotten: 1,
        answered: .seconds(4),
        message: .seconds(4.5),
        isReachable: true
    )

    private func results(_ outcome: ResultRow.Outcome = .measured) throws -> HeartbeatResults {
        let given = HeartbeatOptions(intervals: seconds, expiries: [.seconds(30), .seconds(90)])
        var results = HeartbeatResults(run: sampleResults(), options: given)
        for name in ["tcp", "ws", "udp"] {
            let descriptor = try TransportRegistry.measured.transport(named: name)
            results.rows += given.rows(of: descriptor, pingBytes: 100, outcome)
        }
        return results
    }

    @Test("A connection survives a NAT only if the ping comes before the NAT forgets the mapping")
    func verdicts() throws {
        let rows = try results().rows
        func verdict(_ transport: String, _ interval: Int, _ nat: Int) -> HeartbeatRow.Verdict? {
            rows.first { $0.transport == transport && $0.interval == .seconds(interval) }?.verdict(.seconds(nat))
        }
        #expect(verdict("tcp", 30, 31) == .survives)
        #expect(verdict("tcp", 30, 30) == .dies)
        #expect(verdict("tcp", 60, 30) == .dies)
        #expect(verdict("udp", 25, 30) == .survives)
        // A session over UDP continues from the new address.
        #expect(verdict("udp", 120, 90) == .gaps)
    }

    @Test("Each transport has a row for its own interval and for each given one, in order")
    func rows() throws {
        let intervals = try results().rows.map { "\($0.transport) \($0.interval.settingText)\($0.isOwn ? "*" : "")" }
        #expect(
            intervals == [
                "tcp 30s", "tcp 1m*", "tcp 2m", "ws 30s*", "ws 2m", "udp 25s*", "udp 30s", "udp 2m",
            ]
        )
    }

    @Test("Bytes and detection follow from the interval")
    func arithmetic() throws {
        let row = try #require(try results().rows.first)
        #expect(row.bytesPerDay == 288_000 && row.pingsPerDay == 2880)
        #expect(row.detection(timeout: .seconds(10)) == .seconds(40))
        #expect(HeartbeatOptions().timeout == SupervisorConfiguration().keepalive.timeout)
    }

    @Test("What goes over HTTP in silence costs bytes, keeps the mapping of a NAT, and keeps the radio awake")
    func idleTraffic() throws {
        var row = HeartbeatRow(transport: "http-poll", interval: .seconds(120))
        row.idle = IdleTraffic(of: "http-poll")
        row.pingBytes = 100
        // Without the bytes of a poll, those of a day are not known.
        #expect(row.bytesPerDay == nil)
        row.idle?.bytes = 500
        #expect(abs(try #require(row.bytesPerDay) - 43_272_000) < 0.01)
        #expect(row.silence == .seconds(1) && row.verdict(.seconds(30)) == .survives)
        #expect(IdleTraffic(of: "ws") == nil)
    }

    @Test("A server that pings more often than the NAT forgets keeps the mapping")
    func serverPings() {
        var row = HeartbeatRow(transport: "tcp", interval: .seconds(120))
        #expect(row.verdict(.seconds(60)) == .dies)
        row.serverInterval = .seconds(30)
        #expect(row.verdict(.seconds(60)) == .survives)
        #expect(row.verdict(.seconds(30)) == .dies)
    }

    @Test("The events of a client behind the NAT decide its verdict, its times and the fate of the message")
    func observations() {
        let survived = Self.client("tcp", 1, seen: Self.kept)
        #expect(survived.seen == .survives && survived.calculated == .survives && !survived.differs)
        #expect(survived.detected == nil && survived.recovered == nil && survived.fate == .atOnce)

        let dead = Self.client("tcp", 4, seen: Self.died)
        #expect(dead.seen == .dies && dead.calculated == .dies && !dead.differs)
        #expect(dead.detected == .seconds(5) && dead.recovered == .seconds(5.02) && dead.fate == .reconnect)

        let gap = Self.client("udp", 4, seen: Self.moved)
        #expect(gap.seen == .gaps && gap.calculated == .gaps && !gap.differs)
        #expect(gap.detected == nil && gap.recovered == .seconds(4) && gap.fate == .late)

        var seen = Self.moved
        seen.message = nil
        #expect(Self.client("udp", 4, seen: seen).fate == .lost)
        seen = Self.died
        seen.message = nil
        #expect(Self.client("tcp", 4, seen: seen).fate == .lost)

        let saved = Self.client("tcp", 4, server: 1, seen: Self.kept)
        #expect(saved.calculated == .survives && !saved.differs)
    }

    @Test("A client that did not connect again, or cannot be reached, has a reason and no verdict")
    func withoutResult() {
        var seen = Self.died
        seen.reopened = nil
        var row = Self.client("tcp", 4, seen: seen)
        #expect(row.failure == "the supervisor did not connect again")
        #expect(row.seen == nil && row.fate == nil && !row.differs)
        seen = Self.kept
        seen.isReachable = false
        row = Self.client("tcp", 1, seen: seen)
        #expect(row.failure == "the connection is open, but a message from the server does not arrive")
        seen = Self.died
        seen.forgotten = 0
        row = Self.client("tcp", 1, seen: seen)
        #expect(row.failure == "the connection ended after 5.00 s, although the NAT kept its mapping")
    }

    @Test("The report says whether the calculation agrees with what happened", arguments: Format.allCases)
    func agreement(_ format: Format) throws {
        var results = try results()
        results.trial = [Self.client("tcp", 4, seen: Self.died), Self.client("udp", 4, .plain, seen: Self.moved)]
        var text = results.report.text(format, .none, .init(width: .max))
        #expect(!text.contains("DIFFERS"))
        for part in ["dies between pings", "gaps between pings", "reconnect", "late"] { #expect(text.contains(part)) }
        if format != .csv, format != .json {
            #expect(text.contains("all 2 clients had the verdict that is calculated"))
        }

        results.trial.append(Self.client("ws", 4, .plain, seen: Self.kept))
        #expect(results.trial[2].differs)
        text = results.report.text(format, .none, .init(width: .max))
        switch format {
        case .csv: #expect(text.contains("ws") && text.contains("survives"))
        case .json: #expect(text.contains("\"agrees\": false"))
        case .table, .markdown, .html:
            #expect(text.contains("THE CALCULATION DIFFERS"))
            #expect(text.contains("for 1 of 3 clients: ws, plain, 4s: seen "))
        }
    }

    @Test(
        "The verdict has the least and the most bytes a day, and the radio time of the longest and the shortest interval"
    )
    func costs() throws {
        let verdict = try results().report.verdict
        // 100 bytes every 120 s, and every 25 s. The radio is awake for 10.26 s each time.
        #expect(
            verdict == [
                "Without messages, a connection costs from 72,000 bytes a day over tcp at an interval of 2m to 345,600 bytes a day "
                    + "over udp at an interval of 25s.",
                "By the model, the radio (lte) is awake for 2.05 h a day if something is sent every 2m, and for 9.85 h a day if something is sent every 25s.",
            ]
        )
        #expect(try results(.skipped("the protocol has no ping")).report.verdict.isEmpty)
    }

    @Test("Without a network namespace, one sentence says what is missing")
    func refused() throws {
        var results = try results()
        results.options.refusal = "Linux"
        let text = results.report.text(.table, .none, .init(width: .max))
        #expect(
            text.contains(
                "No NAT was measured, because that needs Linux. So the verdicts about NATs are calculated only."
            )
        )
    }

    @Test("A row that was not measured has a reason and no verdict")
    func failure() throws {
        let report = try results(.skipped("the protocol has no ping")).report
        #expect(report.text(.table, .none).contains("the protocol has no ping"))
        #expect(!report.text(.csv, .none).contains("survives"))
    }

    @Test("A protocol with heart-beats of its own has one row, and the verdict says that they are missing")
    func heartBeats() throws {
        var results = try results()
        let stomp = try TransportRegistry.measured.transport(named: "stomp")
        let reason = "heart-beats, whose bytes are not counted"
        results.rows += results.options.rows(of: stomp, pingBytes: nil, .skipped(reason))
        #expect(results.rows.count { $0.transport == "stomp" } == 1)
        #expect(results.report.text(.table, .none).ranges(of: reason).count == 1)
        #expect(results.report.verdict[0].hasSuffix(", without the heart-beats of stomp."))
    }

    @Test("The verdict names the rows that failed, and a protocol without pings is none of them")
    func failedRows() throws {
        let verdict = try results(.failed("tcp://h:1: Connection refused (111)")).report.verdict
        #expect(verdict.first?.hasPrefix("8 of 8 rows failed: tcp 30s, tcp 1m, tcp 2m and 5 more (tcp://h:1") == true)
    }

    @Test("The report has each verdict in each format, and fits in 80 columns", arguments: Format.allCases)
    func formats(_ format: Format) throws {
        var results = try results()
        results.trial = [
            Self.client("tcp", 4, .plain, seen: Self.died), Self.client("tcp", 4, seen: Self.died),
            Self.client("mqtt+wss", 4, server: 1, seen: Self.moved),
        ]
        let text = results.report.text(format, .none)
        for verdict in HeartbeatRow.Verdict.allCases { #expect(text.contains(verdict.rawValue), "\(verdict)") }
        guard format == .table else { return }
        for line in text.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
    }

    @Test("The bytes of a day are those of one measured ping at each interval")
    func measured() async throws {
        let line = "heartbeat --quiet --transport tcp,udp --interval 40s,80s --nat 50s --format json"
        let outcome = try await BuiltProgram.imbench.run(line.split(separator: " ").map(String.init))
        let object = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
        let clients = (object["measured_nat"] as? [String: Any])?["clients"] as? [[String: Any]] ?? []
        // A busy machine pings too late.
        let isLate = clients.contains { !($0["reason"] is NSNull) || $0["seen"] as? String != $0["verdict"] as? String }
        #expect(outcome.status == (isLate ? ExitStatus.failed : ExitStatus.good), "\(outcome.errors)")
        let rows = try #require(object["results"] as? [[String: Any]])
        #expect(rows.map { $0["transport"] as? String } == ["tcp", "tcp", "tcp", "udp", "udp", "udp"])
        for row in rows {
            let bytes = try #require(row["ping_bytes"] as? Double)
            let interval = try #require(row["interval_s"] as? Double)
            // A ping and its answer have at least two IP headers.
            #expect(bytes > 40)
            #expect(abs((row["bytes_per_day"] as? Double ?? 0) - bytes * 86_400 / interval) < 0.01)
            let verdict = ((row["nats"] as? [[String: Any]])?.first)?["verdict"] as? String
            let late = row["transport"] as? String == "udp" ? "gaps between pings" : "dies between pings"
            #expect(verdict == (interval < 50 ? "survives" : late))
        }
        try behindNAT(object)
    }

    /// Checks the clients of a real NAT, or that the report says what is missing for one.
    private func behindNAT(_ report: [String: Any]) throws {
        let nat = try #require(report["measured_nat"] as? [String: Any])
        let clients = try #require(nat["clients"] as? [[String: Any]])
        guard nat["needs"] is NSNull else {
            #expect((nat["needs"] as? String)?.isEmpty == false && clients.isEmpty)
            return
        }
        let names = clients.map { "\($0["transport"] ?? "") \($0["delivery"] ?? "")" }
        #expect(Set(names) == ["tcp plain", "tcp session", "udp plain", "udp session"] && clients.count == 12)
        for client in clients where client["transport"] as? String == "tcp" && client["server_interval_s"] is NSNull {
            let memory = try #require(client["nat_s"] as? Double)
            guard client["reason"] is NSNull else { continue }
            // At the long interval, a busy machine can only ping even later.
            guard let interval = client["interval_s"] as? Double, interval > memory else { continue }
            #expect(client["seen"] as? String == "dies between pings", "\(client)")
            // A busy server can send the message later, over the next connection.
            let allowed = client["delivery"] as? String == "plain" ? ["lost", "reconnect"] : ["reconnect"]
            #expect(allowed.contains(client["message"] as? String ?? ""), "\(client)")
            let detected = try #require(client["detected_after_s"] as? Double)
            #expect(detected > interval, "\(client)")
        }
    }
}
