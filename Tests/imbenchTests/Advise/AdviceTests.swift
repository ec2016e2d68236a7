import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

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

/// The advice for these answers, from the usual figures.
func advice(
    _ answers: Answers,
    on run: RunResults = sampleResults(),
    _ options: AdviceOptions = AdviceOptions(),
    hostile: String? = nil
) throws -> Advice {
    let candidates = try Candidate.all(answers)
    var exclusions = Exclusion.all(answers, candidates)
    if let hostile { exclusions[0].reason = hostile }
    let excluded = exclusions.flatMap(\.candidates)
    var figures = try AdviceFigures(json: #"{"schema": "imbench/1", "results": []}"#.utf8, label: "run.json", answers)
    figures.figures = usual
    let rest = candidates.filter { !excluded.contains($0.name) }
    return Advice(
        run: run,
        options: options,
        answers: answers,
        exclusions: exclusions,
        ranking: Ranking(rest, figures, options, answers),
        origin: figures.origin
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
            let text = report.text(format, .none, width: .max)
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
        let text = try advice(Workload.chat.usual).report.text(.table, .none, width: .max)
        #expect(text.contains("a page in a browser opens neither TCP nor UDP connections, only WebSocket"))
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
                    "mqtts://chat.example/?publish=iot/1&subscribe=iot/1&qos=1",
                    "mqtt+wss://chat.example/?publish=iot/1&subscribe=iot/1&qos=1",
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
        let advice = try advice(workload.usual)
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

    @Test("Without figures nothing is ranked, and there is no configuration")
    func nothing() throws {
        let answers = Workload.chat.usual
        let empty = try AdviceFigures(json: #"{"schema": "imbench/1", "results": []}"#.utf8, label: "run.json", answers)
        let ranking = Ranking(try Candidate.all(answers), empty, AdviceOptions(), answers)
        #expect(ranking.entries.isEmpty && ranking.verdict(answers) == nil)
        #expect(ranking.unmeasured.allSatisfy { $0.reason == "no figures from run.json" })
        #expect(AdvisedConfiguration(ranking, answers, host: "h") == nil)
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
        let read = try AdviceFigures(json: text.utf8, label: "a.json", Workload.chat.usual)
        #expect(read.figures == ["ws": CandidateFigures(roundTrips: 2, bytes: 390.5, keepalive: 1000)])
        // The only row of 256 bytes has no keepalive.
        let other = try AdviceFigures(json: text.utf8, label: "a.json", Workload.corporate.usual)
        #expect(other.figures.isEmpty && other.failures.keys.sorted() == ["ws"])
        // The report has no row in protobuf.
        #expect(try AdviceFigures(json: text.utf8, label: "a.json", Workload.game.usual).figures.isEmpty)
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
            _ = try AdviceFigures(json: text.utf8, label: "a.json", Workload.chat.usual)
            Issue.record("accepted")
        } catch {
            #expect(error.reason.contains(sentence), "\(error.reason)")
        }
    }
}
