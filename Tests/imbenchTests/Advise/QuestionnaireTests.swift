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

@Suite("The questions of imbench advise", .timeLimit(.minutes(5)), .ownThread)
struct QuestionnaireTests {
    /// Answers the questions with these lines, and returns the questions as well.
    private func asked(
        _ lines: [String],
        _ options: AdviceOptions = AdviceOptions()
    ) -> (answers: Result<Answers, UsageError>, questions: [String]) {
        var options = options
        return asked(lines, &options)
    }

    private func asked(
        _ lines: [String],
        _ options: inout AdviceOptions
    ) -> (answers: Result<Answers, UsageError>, questions: [String]) {
        var rest = lines[...]
        var questions: [String] = []
        let questionnaire = Questionnaire { question in
            questions.append(question)
            return rest.popFirst()
        }
        do throws(UsageError) {
            return (.success(try questionnaire.answers(&options)), questions)
        } catch {
            return (.failure(error), questions)
        }
    }

    @Test("There are six questions, and empty lines take the usual answers", arguments: Workload.allCases)
    func usual(_ workload: Workload) throws {
        let (answers, questions) = asked([workload.rawValue, "", "", "", "", ""])
        #expect(try answers.get() == workload.usual)
        #expect(questions.count == 6)
        for (index, question) in questions.enumerated() { #expect(question.hasPrefix("\(index + 1)/6 ")) }
        #expect(questions[1].hasSuffix("[\(workload.usual.clients.map(\.rawValue).joined(separator: ","))]: "))
        #expect(questions[4].hasSuffix("[round trip 100ms, loss 1 %]: "))
    }

    @Test("Each answer has a line with its number, its name and its meaning, within 80 columns")
    func lines() {
        let (_, questions) = asked(["", "", "", "", "", ""])
        #expect(questions[0].contains("\n   2 presence   typing and presence\n"))
        #expect(questions[1].contains("\n   4 devices   small devices on a battery\n"))
        #expect(questions[4].contains("\n   2 4g         round trip 70ms, loss 0 %\n"))
        for line in questions.flatMap({ $0.split(separator: "\n") }) { #expect(line.count <= 80, "\(line)") }
    }

    @Test("Answers override the usual ones")
    func answers() throws {
        let (answers, _) = asked(["game", "servers, devices", "MAY-BE-LATE", "own", "", "topic"])
        #expect(try answers.get() == Answers(.game, [.servers, .devices], .mayBeLate, .own, .topic))
    }

    @Test("An answer is its number, its name, or the beginning of its name, in any letter case")
    func shorthands() throws {
        let expected = Answers(.game, [.mobile, .servers], .mayBeLost, .company, .peer)
        for lines in [
            ["3", "2,3", "3", "3", "", "1"], ["GAME", "Mobile,SERVERS", "may-be-lost", "company", "", "Peer"],
            ["g", "m, s", "May-Be-Lo", "c", "", "p"],
        ] { #expect(try asked(lines).answers.get() == expected, "\(lines)") }
    }

    @Test("Options on the command line are not asked again")
    func options() throws {
        var options = AdviceOptions()
        (options.clients, options.path) = ([.servers], .own)
        let (answers, questions) = asked(["chat", "", "", ""], options)
        #expect(try answers.get() == Answers(.chat, [.servers], .mustArrive, .own, .room))
        #expect(questions.count == 4)
    }

    @Test(
        "The question about the network takes a number, a name, or a description",
        arguments: [
            ("", 100, 0.01, nil), ("4g", 70, 0, "4g"), ("2", 70, 0, "4g"), ("4", 190, 0.01, "metro"),
            ("Sat", 558, 0, "satellite"), ("delay=50ms,loss=2%", 100, 0.02, "delay=50ms,loss=2%"),
        ]
    )
    func networks(_ line: String, _ roundTrip: Int, _ loss: Double, _ name: String?) throws {
        var options = AdviceOptions()
        options.host = "a.example"
        let (answers, _) = asked(["chat", "", "", "own", line, ""], &options)
        #expect(try answers.get().path == .own && options.host == "a.example")
        #expect(options.roundTrip == .milliseconds(roundTrip) && options.loss == loss && options.network?.name == name)
    }

    @Test(
        "A network on the command line is not asked again",
        arguments: ["--network 4g", "--round-trip 5ms", "--loss 0"]
    )
    func givenNetwork(_ option: String) throws {
        let words = ["advise"] + option.split(separator: " ").map(String.init)
        let options = try OptionParser(vocabulary: everything).parse(words, as: AdviseCommand.self).advice
        let (answers, questions) = asked(["chat", "", "", "own", ""], options)
        #expect(try answers.get().path == .own)
        #expect(!questions.contains { $0.contains("satellite") })
    }

    @Test(
        "A wrong answer is explained, and the question is asked again",
        arguments: [
            (
                0, "chta",
                #""chta" is none of the answers; did you mean chat? type a number from 1 to 6, or the beginning of chat, "#
            ),
            (0, "7", #""7" is none of the numbers; type 1 to 6"#),
            (0, "-9223372036854775808", "is none of the numbers; type 1 to 6"),
            (
                1, "phones",
                #""phones" is none of the answers; type a number from 1 to 4, or the beginning of browsers, "#
            ),
            (1, "mobile,0", #""0" is none of the numbers; type 1 to 4"#),
            (1, ",", #""," is none of the answers"#),
            (2, "ma", #""ma" may be may-be-late or may-be-lost; type more of it, or its number"#),
            (4, "5g", #""5g" is none of the answers; did you mean 4g? type a number from 1 to 5"#),
            (4, "delay=1ms,nat=3s", "--network: 'nat' is for 'open' and 'outage', not for 'advise'"),
            (4, "dely=1ms", "--network: unknown key 'dely'; did you mean 'delay'?"),
        ]
    )
    func again(_ question: Int, _ line: String, _ sentence: String) throws {
        var lines = Array(repeating: "", count: 6)
        lines.insert(line, at: question)
        let (answers, questions) = asked(lines)
        #expect(try answers.get() == Workload.chat.usual && questions.count == 7)
        let mistake = try #require(questions[question + 1].split(separator: "\n").first)
        #expect(mistake.contains(sentence), "\(mistake)")
        #expect(questions[question + 1].hasSuffix("\n" + questions[question]))
    }

    @Test("The command ends when the input ends, or after five wrong answers")
    func ends() {
        for (count, option) in ["workload", "clients", "messages", "path", "network", "receivers"].enumerated() {
            let ended = UsageError(
                "'advise': the input has ended before question \(count + 1) was answered; answer it, or give --\(option)"
            )
            #expect(asked(Array(repeating: "", count: count)).answers == .failure(ended))
        }
        let (answers, questions) = asked(Array(repeating: "chess", count: 9))
        #expect(questions.count == 5)
        guard case .failure(let error) = answers else {
            Issue.record("accepted")
            return
        }
        #expect(
            error.message.hasPrefix(
                #"'advise': no answer to question 1 in 5 attempts: "chess" is none of the answers; "#
            )
        )
    }

    @Test("On a terminal, the end of the input ends the command with the question that it left open")
    func terminal() async throws {
        try await apart {
            let terminal = try PseudoTerminal(["advise"])
            #expect(terminal.wait { $0.current.hasSuffix("number or name [chat]:") })
            terminal.type("2\n")
            #expect(terminal.wait { $0.contains("with commas between them [mobile]:") })
            terminal.type("phones\n")
            #expect(
                terminal.wait { $0.contains("\"phones\" is none of the answers") && $0.current.contains("[mobile]:") }
            )
            terminal.type("\u{4}")
            #expect(terminal.finish() == ExitStatus.usage)
            #expect(terminal.screen.contains("the input has ended before question 2"))
        }
    }

    @Test(
        "Wrong usage is one line that names what is allowed",
        arguments: [
            (
                "advise",
                [
                    "--workload chat|presence|game|iot|live|corporate", "--clients browsers|mobile|servers|devices",
                    "--messages must-arrive|may-be-late|may-be-lost", "--path own|internet|company",
                    "--receivers peer|room|topic",
                ]
            ),
            ("advise --workload chta", [#"--workload is "chta"; did you mean "chat"?"#]),
            ("advise --workload chat --clients phones", [#"allowed is "browsers", "mobile", "servers", "devices""#]),
            ("advise --workload chat --messages lost", [#"allowed is "must-arrive", "may-be-late", "may-be-lost""#]),
            ("advise --workload chat --path mine", [#"allowed is "own", "internet", "company""#]),
            ("advise --workload chat --receivers all", [#"allowed is "peer", "room", "topic""#]),
            ("advise --workload chat --network 5g", ["unknown network '5g'; did you mean '4g'? allowed is wifi, 4g"]),
            ("advise --workload chat --network 4g --loss 0", ["--loss and --network exclude each other"]),
            ("advise --round-trip 1s --network 4g", ["--round-trip and --network exclude each other"]),
            ("advise --network delay=20s", ["--network: the delay is 20s; allowed with 'advise' is 500us to 5s"]),
            ("advise --network nat=2s", ["'nat' is for 'open' and 'outage', not for 'advise'"]),
            ("advise --workload chat --host a/b", ["--host", "letters, digits, dots and hyphens"]),
            ("advise --workload chat --loss 2", [#"allowed is 0 to 1, or "0%" to "100%""#]),
            ("advise --workload chat --from /nowhere/a", ["--from: cannot read /nowhere/a: No such file"]),
            ("advise --workload chat --write-config /nowhere/c", ["--write-config: cannot write /nowhere/c: No such"]),
            ("advise --output a --write-config a", ["--write-config and --output name the same file, 'a'"]),
        ]
    )
    func usage(line: String, parts: [String]) async throws {
        let outcome = try await BuiltProgram.imbench.run(line.split(separator: " ").map(String.init))
        #expect(outcome.status == ExitStatus.usage && outcome.output.isEmpty)
        #expect(outcome.errorLines.count == 1, "\(outcome.errors)")
        for part in parts { #expect(outcome.errors.contains(part), "\(outcome.errors)") }
    }

    @Test("The command measures, ranks, and writes a report, and a configuration that imbench run accepts")
    func measured() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let (file, report) = (folder.path + "/advised.json", folder.path + "/report.json")
        let words = ["advise", "--workload", "chat", "--path", "own", "--clients", "servers", "--host", "127.0.0.1"]
        let outcome = try await BuiltProgram.imbench.run(
            words + ["--quiet", "--format", "json", "--output", report, "--write-config", file]
        )
        #expect(outcome.status == ExitStatus.good && outcome.output.isEmpty, "\(outcome.errors)")
        let text = try readText(report, limit: 1 << 20)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        let results = try #require(object["results"] as? [[String: Any]])
        let names = results.compactMap { $0["transport"] as? String }
        #expect(Set(["tcp", "ws", "mqtt", "udp-reliable"]).isSubset(of: names))
        #expect(!names.contains("udp"))
        #expect((object["unmeasured"] as? [Any])?.isEmpty == true, "\(object["unmeasured"] ?? "")")
        // The transports of other answers are measured as well: a page in a browser needs WebSocket.
        let turning = try #require(object["turning_points"] as? [[String: Any]])
        let browsers = turning.first { ($0["values"] as? [String])?.contains("browsers") == true }
        #expect(browsers?["first"] as? String == "ws", "\(turning)")
        let configuration = try TransportConfiguration(json: try readText(file, limit: 1 << 16).utf8)
        #expect(configuration.endpoints.count == 1 && configuration.endpoints[0].host == "127.0.0.1")
    }
}
