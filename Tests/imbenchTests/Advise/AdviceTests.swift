import CommandTestSupport
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import EmulatedNetworks
@testable import Reporting
@testable import imbench

/// Figures as they are usually measured. Real ones differ by a few bytes.
private let usual: [String: CandidateFigures] = [
    "tcp": CandidateFigures(roundTrips: 1, bytes: 295, keepalive: 300_000),
    "ws": CandidateFigures(roundTrips: 2, bytes: 299, keepalive: 590_000),
    "mqtt": CandidateFigures(roundTrips: 3, bytes: 326, keepalive: 290_000),
    "mqtt+ws": CandidateFigures(roundTrips: 4, bytes: 330, keepalive: 600_000),
    "udp": CandidateFigures(roundTrips: 2, bytes: 283, keepalive: 310_000),
    "udp-reliable": CandidateFigures(roundTrips: 2, bytes: 325, keepalive: 320_000),
    "udp-unordered": CandidateFigures(roundTrips: 2, bytes: 325, keepalive: 320_000),
    "tls": CandidateFigures(roundTrips: 2, bytes: 317, keepalive: 370_000),
    "wss": CandidateFigures(roundTrips: 3, bytes: 321, keepalive: 720_000),
    "mqtts": CandidateFigures(roundTrips: 4, bytes: 348, keepalive: 360_000),
    "mqtt+wss": CandidateFigures(roundTrips: 5, bytes: 352, keepalive: 730_000),
    "dtls": CandidateFigures(roundTrips: 5, bytes: 320, keepalive: 560_000),
    "dtls-reliable": CandidateFigures(roundTrips: 5, bytes: 362, keepalive: 570_000),
    "dtls-unordered": CandidateFigures(roundTrips: 5, bytes: 362, keepalive: 570_000),
]

/// The usual figures, with each codec.
private let usualFigures = AdviceFigures(
    rows: usual.flatMap { name, figures in
        ["json", "protobuf"].map {
            AdviceFigures.Row(transport: name, codec: $0, size: 128, figures: figures)
        }
    },
    origin: "from run.json"
)

/// The advice for these answers, from the usual figures.
///
/// - Parameter others: the other answers with which the transports are ranked again.
func advice(
    _ answers: Answers,
    on run: RunResults = sampleResults(),
    _ options: AdviceOptions = AdviceOptions(),
    others: [OtherAnswer] = [],
    hostile: String? = nil
) throws -> Advice {
    var shortlist = try Shortlist(answers)
    if let hostile { shortlist.exclusions[0].reason = hostile }
    return try Advice(
        run: run,
        options: options,
        answers: answers,
        shortlist: shortlist,
        others: others,
        usualFigures
    )
}

/// The cells of the table below a heading in Markdown.
private func table(_ heading: String, of markdown: String) -> [[String]] {
    let part = markdown.components(separatedBy: "\n## \(heading)").dropFirst().first ?? ""
    let lines = part.split(separator: "\n").drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") }
    return lines.filter { !$0.hasPrefix("|-") }.map { line in
        line.dropFirst().dropLast().components(separatedBy: "|").map { $0.trimmingCharacters(in: .whitespaces) }
    }
}

@Suite("imbench advise")
struct AdviceTests {
    /// All answers to the last three questions, for some clients.
    private static let everyAnswer = Workload.allCases.flatMap { workload in
        [[ClientKind.browsers], [.mobile, .servers], [.devices]].flatMap { clients in
            Arrival.allCases.flatMap { arrival in
                PathKind.allCases.flatMap { path in
                    Receivers.allCases.map { Answers(workload, clients, arrival, path, $0) }
                }
            }
        }
    }

    @Test(
        "A network gives the round trip and the loss, and the report names it and its source",
        arguments: Network.presets
    )
    func networks(_ network: Network) throws {
        let words = ["advise", "--workload", "game", "--network", network.name]
        let options = try OptionParser(vocabulary: everything).parse(words, as: AdviseCommand.self)
        #expect(options.advice.roundTrip == network.delay * 2 && options.advice.loss == network.loss)
        let report = try advice(Workload.game.usual, options.advice).report
        for format in [Format.table, .markdown, .html] {
            let text = report.text(format, .none, .init(width: .max))
            #expect(text.contains("network \(network.name): round trip"))
            #expect(text.contains(network.source.prefix(20)))
        }
        let json = report.text(.json, .none)
        #expect(json.contains("\"network\": \"\(network.name)\"") && json.contains("\"network_source\""))
    }

    @Test("A description gives its delay in both directions and its loss")
    func description() throws {
        let words = ["advise", "--network", "delay=20ms,loss=3%,rate=1mbit"]
        let advice = try OptionParser(vocabulary: everything).parse(words, as: AdviseCommand.self).advice
        #expect(advice.roundTrip == .milliseconds(40) && advice.loss == 0.03)
        #expect(advice.assumed == "network delay=20ms,loss=3%,rate=1mbit: round trip 40ms, loss 3 % (--network)")
    }

    @Test("Every configuration is accepted by the library and by imbench run, and names each scheme once")
    func configurations() throws {
        for answers in Self.everyAnswer {
            let configuration = try #require(try advice(answers).configuration)
            let read = try TransportConfiguration(json: configuration.text.utf8, label: "advised.json")
            #expect(try read.transports().count == configuration.endpoints.count)
            #expect(read.codec == answers.codec)
            #expect(Set(read.endpoints.map(\.scheme)).count == read.endpoints.count)
            for endpoint in read.endpoints { try checkURL(endpoint, "--config", .measured) }
        }
    }

    @Test("imbench run reads the written file", arguments: Workload.allCases)
    func readBack(_ workload: Workload) throws {
        let folder = try Folder()
        defer { folder.remove() }
        let configuration = try #require(try advice(workload.usual).configuration)
        try folder.write("advised.json", configuration.text)
        let line = ["run", "--config", folder.path + "/advised.json"]
        let options = try OptionParser(vocabulary: everything).parse(line, as: RunCommand.self).withConfiguredServers()
        #expect(options.urls.map(\.description) == configuration.endpoints.map(\.description))
    }

    @Test("The order follows from the printed figures, weights and rules", arguments: Workload.allCases)
    func arithmetic(_ workload: Workload) throws {
        let markdown = try advice(workload.usual).report.text(.markdown, .none)
        let rules = Dictionary(
            uniqueKeysWithValues: table("The criteria", of: markdown).dropFirst().map { ($0[0], $0[1]) }
        )
        let rows = table("The arithmetic", of: markdown)
        let names = Array(try #require(rows.first).dropFirst(2))
        var sums = names.map { _ in 0.0 }
        var weights = 0.0
        for row in rows.dropFirst().dropLast() {
            let weight = try #require(Double(row[1]))
            weights += weight
            let scores = try row.dropFirst(2).map { cell in
                try cell.components(separatedBy: " → ").map { try #require(Double($0)) }
            }
            let smallest = scores.map { $0[0] }.min() ?? 0
            for (index, score) in scores.enumerated() {
                let points =
                    switch rules[row[0]] {
                    case "10 × smallest / figure": score[0] > 0 ? 10 * smallest / score[0] : 10
                    case "10 - 2 × figure, at least 0": max(0, 10 - 2 * score[0])
                    case "10 if 0, otherwise 0": score[0] == 0 ? 10.0 : 0
                    default: -1.0
                    }
                #expect(abs(points - score[1]) <= 0.051, "\(row[0]) \(names[index])")
                sums[index] += weight * score[1]
            }
        }
        let totals = try #require(rows.last)
        #expect(totals[1] == fixed(weights, 0))
        for (index, sum) in sums.enumerated() {
            #expect(abs(try #require(Double(totals[index + 2])) - sum / weights) <= 0.0051, "\(names[index])")
        }
        let printed = totals.dropFirst(2).compactMap { Double($0) }
        #expect(printed == printed.sorted(by: >))
        #expect(table("Ranking", of: markdown).dropFirst().map { $0[0] } == names)
        #expect(markdown.contains("\n\(names[0]) comes first for '\(workload.rawValue)'"))
    }

    @Test("No transport is ranked that the answers exclude, and each exclusion has its source")
    func exclusions() throws {
        for answers in Self.everyAnswer {
            let advice = try advice(answers)
            for candidate in advice.ranking.entries.map(\.candidate) {
                if answers.clients.contains(.browsers) { #expect(candidate.isWeb) }
                if answers.path != .own { #expect(candidate.descriptor.isEncrypted) }
                if answers.path == .company { #expect(!candidate.descriptor.isDatagram) }
                if answers.arrival != .mayBeLost { #expect(candidate.capabilities.isReliable) }
            }
            for exclusion in advice.exclusions { #expect(exclusion.source.contains(#/RFC|WICG/#)) }
        }
        let text = try advice(Workload.chat.usual).report.text(.table, .none, .init(width: .max))
        #expect(text.contains("a page in a browser opens no raw TCP or UDP connections"))
        #expect(text.contains("WICG, Direct Sockets explainer, 2024"))
    }

    @Test(
        "Usual answers lead to usual choices, with a fallback where other ports or UDP may be blocked",
        arguments: [
            (Workload.chat, ["wss://chat.example/"]), (.presence, ["wss://chat.example/"]),
            (.game, ["dtls://chat.example/", "wss://chat.example/"]),
            (
                .iot,
                [
                    "mqtts://chat.example/?publish=iot/1&subscribe=iot/1&qos=1&clean-session=off&client-id=iot-client-1",
                    "mqtt+wss://chat.example/?publish=iot/1&subscribe=iot/1&qos=1&clean-session=off&client-id=iot-client-1",
                ]
            ),
            (.live, ["wss://chat.example/"]),
            (.corporate, ["wss://chat.example/?proxy=environment"]),
        ]
    )
    func choices(_ workload: Workload, _ endpoints: [String]) throws {
        let configuration = try #require(try advice(workload.usual).configuration)
        #expect(configuration.endpoints.map(\.description) == endpoints)
        #expect((configuration.fallbackReason != nil) == (endpoints.count > 1))
    }

    @Test("Messages that must arrive are confirmed, and others expire")
    func delivery() throws {
        var answers = Workload.chat.usual
        #expect(try advice(answers).configuration?.text.contains(#""delivery": {"mode": "session"}"#) == true)
        answers.arrival = .mayBeLost
        let text = try #require(try advice(answers).configuration?.text)
        #expect(text.contains(#""outbox": {"age": "2s", "when-full": "drop-oldest"}"#) && !text.contains("delivery"))
    }

    @Test("The report fits in 80 columns, apart from the configuration", arguments: Workload.allCases)
    func width(_ workload: Workload) throws {
        let advice = try advice(workload.usual, others: OtherAnswer.all(workload.usual, AdviceOptions()))
        let file = advice.configuration?.lines ?? []
        for line in advice.report.text(.table, .none).split(separator: "\n") where !file.contains(String(line)) {
            #expect(line.count <= 80, "\(line)")
        }
    }

    @Test("Fan-out counts only for the subscribers of a topic, and the radio only where there is one")
    func weights() throws {
        var answers = Workload.chat.usual
        #expect(Criterion.routing.weight(answers) == 0 && Criterion.radio.weight(answers) > 0)
        (answers.receivers, answers.clients) = (.topic, [.servers])
        #expect(Criterion.routing.weight(answers) > 0 && Criterion.radio.weight(answers) == 0)
        #expect(try advice(answers).ranking.entries.first?.candidate.capabilities.routesByTopic == true)
    }

    @Test(
        "The report says how many messages a day the radio's time is for, and by which model",
        arguments: RadioModel.known
    )
    func traffic(_ radio: RadioModel) throws {
        var options = AdviceOptions()
        options.radio = radio
        let advice = try advice(Workload.chat.usual, options)
        let text = advice.report.text(.table, .none, .init(width: .max))
        #expect(
            text.contains("radio \(radio.name) (--network, or --round-trip and --loss; --radio); 200 messages a day")
        )
        #expect(
            text.contains("after each message and ping (\(radio.source)); 200 messages a day, in 40 bursts with 0.1/s")
        )
        let json = advice.report.text(.json, .none)
        #expect(json.contains(#""messages_per_day": 200"#) && json.contains(#""bursts_per_day": 40"#))
    }

    @Test("The radio is charged for messages too, so its hours are more than those of pings alone")
    func radioTime() throws {
        let answers = Workload.chat.usual
        let entry = try #require(try advice(answers).ranking.entries.first)
        let figure = try #require(entry.scores.first { $0.criterion == .radio }?.figure)
        let pings = RadioModel.lte.awakeHoursPerDay(every: entry.candidate.capabilities.keepaliveInterval)
        #expect(figure > pings)
    }

    @Test("Without figures nothing is ranked, and there is no configuration")
    func nothing() throws {
        let answers = Workload.chat.usual
        let empty = try AdviceFigures(json: #"{"schema": "imbench/1", "results": []}"#.utf8, label: "run.json")
        let ranking = Ranking(try Candidate.all(answers), empty, AdviceOptions(), answers)
        #expect(ranking.entries.isEmpty && ranking.verdict(answers) == nil)
        #expect(ranking.unmeasured.allSatisfy { $0.reason == "no figures from run.json" })
        #expect(AdvisedConfiguration(ranking, answers, host: "h") == nil)
    }
}

@Suite("Other answers of imbench advise")
struct TurningPointTests {
    @Test(
        "An answer is named if and only if the advice for it begins with that other transport",
        arguments: Workload.allCases
    )
    func construction(_ workload: Workload) throws {
        let (answers, options) = (workload.usual, AdviceOptions())
        let others = OtherAnswer.all(answers, options)
        let advised = try advice(answers, others: others)
        let first = try #require(advised.ranking.entries.first?.candidate.name)
        for other in others {
            let again = try advice(other.answers, other.options).ranking.entries.first?.candidate.name
            let named = advised.turningPoints.first { $0.option == other.option && $0.values.contains(other.value) }
            #expect(named?.first == (again == first ? nil : again), "--\(other.option) \(other.value)")
        }
    }

    @Test("Each question has its other answers, and the lists of clients differ from the given one")
    func others() {
        let others = OtherAnswer.all(Workload.chat.usual, AdviceOptions())
        func values(_ option: String) -> [String] { others.filter { $0.option == option }.map(\.value) }
        #expect(values("messages") == ["may-be-late", "may-be-lost"] && values("path") == ["own", "company"])
        #expect(values("receivers") == ["peer", "topic"] && values("network") == Network.presets.map(\.name))
        #expect(values("workload") == ["presence", "game", "iot", "live", "corporate"])
        #expect(
            values("clients") == [
                "browsers", "mobile", "servers", "devices", "mobile,browsers,servers", "mobile,browsers,devices",
            ]
        )
    }

    @Test("The report has a sentence for each question and transport, and says if there is none")
    func sentences() throws {
        let answers = Workload.chat.usual
        let text = try advice(answers, others: OtherAnswer.all(answers, AdviceOptions())).report
            .text(.table, .none, .init(width: .max))
        #expect(text.contains("With --path own in place of internet, ws would be first."))
        #expect(text.contains("With --receivers topic in place of room, mqtt+wss would be first."))
        let none = try advice(answers).report.text(.table, .none, .init(width: .max))
        #expect(none.contains("No other answer to a single question changes the first place."))
    }

    @Test("The report has at most five sentences, and the JSON has all")
    func limit() throws {
        var advice = try advice(Workload.chat.usual)
        advice.turningPoints = (1...7).map {
            TurningPoint(option: "path", values: ["own"], given: "internet", first: "t\($0)")
        }
        let text = advice.report.text(.markdown, .none)
        #expect(text.contains("t5 would be first.") && !text.contains("t6 would"))
        #expect(text.contains("--format json has 2 more."))
        #expect(advice.report.text(.json, .none).contains(#""first": "t7""#))
    }
}

@Suite("Figures of imbench advise")
struct CandidateFiguresTests {
    @Test("Figures are read from a report, from the row with the codec and the nearest size")
    func reads() throws {
        var results = sampleResults()
        results.rows[1] = results.rows[0]
        results.rows[1].size = 128
        results.rows[1].keepaliveBytesPerDay = 1000
        let text = results.report.text(.json, .none)
        let read = try AdviceFigures(json: text.utf8, label: "a.json")
        let row = try #require(read.row(of: "ws", for: Workload.chat.usual))
        #expect(row.figures == CandidateFigures(roundTrips: 2, bytes: 390.5, keepalive: 1000) && row.reason == nil)
        // The only row of 256 bytes has no keepalive.
        let other = try #require(read.row(of: "ws", for: Workload.corporate.usual))
        #expect(other.figures == nil && other.reason == "bytes, round trips or keepalive were not measured")
        // The report has no row in protobuf.
        #expect(read.row(of: "ws", for: Workload.game.usual) == nil)
    }

    @Test("A row whose size no run has is left out", arguments: ["-9223372036854775808", "0", "16777217", "null"])
    func wrongSize(_ size: String) throws {
        let text = #"{"schema": "imbench/1", "results": [{"transport": "ws", "codec": "json", "size": \#(size)}]}"#
        #expect(try AdviceFigures(json: text.utf8, label: "a.json").row(of: "ws", for: Workload.chat.usual) == nil)
    }

    @Test(
        "A mistake in a report names its place and what is allowed",
        arguments: [
            (#"{"schema": "imbench/2", "results": []}"#, #""schema" is "imbench/2"; allowed is "imbench/1""#),
            (#"{"schema": "imbench/1"}"#, #""results" is missing"#),
            (#"{"schema": "imbench/1", "results": 5}"#, #""results" is 5; allowed is an array"#),
            (#"{"schema": "imbench/1", "results": [{"transport": 5}]}"#, "a text of at most 64 bytes"),
            (
                #"{"schema": "imbench/1", "results": [{"transport": "ws", "codec": "json", "size": 128, "handshake": {"round_trips": -1}}]}"#,
                #""results[0].handshake.round_trips" is -1; allowed is 0 to 1000000000000000, or null"#
            ),
        ]
    )
    func mistakes(_ text: String, _ sentence: String) {
        do {
            _ = try AdviceFigures(json: text.utf8, label: "a.json")
            Issue.record("accepted")
        } catch {
            #expect(error.reason.contains(sentence), "\(error.reason)")
        }
    }
}
