import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

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

    @Test("There are five questions, and empty lines take the usual answers", arguments: Workload.allCases)
    func usual(_ workload: Workload) throws {
        let (answers, questions) = asked([workload.rawValue, "", "", "", ""])
        #expect(try answers.get() == workload.usual)
        #expect(questions.count == 5)
        #expect(questions[1].contains("[\(workload.usual.clients.map(\.rawValue).joined(separator: ","))]: "))
    }

    @Test("Answers override the usual ones")
    func answers() throws {
        let (answers, _) = asked(["game", "servers, devices".replacing(" ", with: ""), "MAY-BE-LATE", "own", "topic"])
        #expect(try answers.get() == Answers(.game, [.servers, .devices], .mayBeLate, .own, .topic))
    }

    @Test("Options on the command line are not asked again")
    func options() throws {
        var options = AdviceOptions()
        (options.clients, options.path) = ([.servers], .own)
        let (answers, questions) = asked(["chat", "", ""], options)
        #expect(try answers.get() == Answers(.chat, [.servers], .mustArrive, .own, .room))
        #expect(questions.count == 3)
    }

    @Test(
        "The question about the network takes its kind, a network, or both",
        arguments: [
            ("", PathKind.internet, 100, 0.01, nil), ("company", .company, 100, 0.01, nil),
            ("4g", .internet, 70, 0, "4g"), ("own, satellite", .own, 558, 0, "satellite"),
            ("Internet,metro", .internet, 190, 0.01, "metro"),
            ("delay=50ms,loss=2%", .internet, 100, 0.02, "delay=50ms,loss=2%"),
            ("company,delay=50ms,loss=2%", .company, 100, 0.02, "delay=50ms,loss=2%"),
        ]
    )
    func networks(_ line: String, _ path: PathKind, _ roundTrip: Int, _ loss: Double, _ name: String?) throws {
        var options = AdviceOptions()
        let (answers, questions) = asked(["chat", "", "", line, ""], &options)
        #expect(try answers.get().path == path)
        #expect(options.roundTrip == .milliseconds(roundTrip) && options.loss == loss && options.network?.name == name)
        for preset in Network.presets { #expect(questions[3].contains(preset.name)) }
        #expect(questions[3].contains("Without the second, round trip 100ms, loss 1 % is assumed."))
    }

    @Test("A wrong network is explained, and the question is asked again")
    func wrongNetwork() throws {
        var options = AdviceOptions()
        let lines = ["chat", "", "", "intrnet", "own,5g", "own,delay=1ms,nat=3s", "own,3g", ""]
        let (answers, questions) = asked(lines, &options)
        #expect(try answers.get().path == .own)
        #expect(options.network?.name == "3g" && questions.count == 8)
        #expect(questions[4].hasPrefix("unknown answer 'intrnet'; did you mean 'internet'? allowed is own, internet, "))
        #expect(questions[5].contains("unknown network '5g'; did you mean '4g'?"))
        #expect(questions[6].hasPrefix("--network: 'nat' is for 'open' and 'outage', not for 'advise'"))
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
        #expect(!questions[3].contains("satellite"))
    }

    @Test("A wrong answer is explained, and the question is asked again")
    func again() throws {
        let (answers, questions) = asked(["chta", "chat", "phones", "mobile", "", "", ""])
        #expect(try answers.get().clients == [.mobile])
        #expect(questions[1].hasPrefix(#"answer is "chta"; did you mean "chat"? allowed is "chat", "presence", "#))
        #expect(questions[3].contains(#"answer is "phones"; allowed is "browsers", "mobile", "servers", "devices""#))
    }

    @Test("The command ends when the input ends, or after five wrong answers")
    func ends() {
        let ended = UsageError("'advise': the input has ended before question 2 was answered")
        #expect(asked(["chat"]).answers == .failure(ended))
        let (answers, questions) = asked(Array(repeating: "chess", count: 9))
        #expect(questions.count == 5)
        guard case .failure(let error) = answers else {
            Issue.record("accepted")
            return
        }
        #expect(error.message.contains(#"allowed is "chat", "presence", "game", "iot", "live", "corporate""#))
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
        ]
    )
    func usage(line: String, parts: [String]) async throws {
        let outcome = try await BuiltProgram.run(line.split(separator: " ").map(String.init))
        #expect(outcome.status == ExitStatus.usage && outcome.output.isEmpty)
        #expect(outcome.errorLines.count == 1, "\(outcome.errors)")
        for part in parts { #expect(outcome.errors.contains(part), "\(outcome.errors)") }
    }

    @Test("The command measures, ranks, and writes a file that imbench run accepts")
    func measured() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let file = folder.path + "/advised.json"
        // Without a server, run accepts the file, and its rows fail.
        let words = ["advise", "--workload", "chat", "--path", "own", "--clients", "servers", "--host", "127.0.0.1"]
        let outcome = try await BuiltProgram.run(words + ["--quiet", "--format", "json", "--output", file])
        #expect(outcome.status == ExitStatus.good, "\(outcome.errors)")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any])
        let results = try #require(object["results"] as? [[String: Any]])
        let names = results.compactMap { $0["transport"] as? String }
        #expect(Set(["tcp", "ws", "mqtt", "udp-reliable"]).isSubset(of: names))
        #expect(!names.contains("udp"))
        #expect((object["unmeasured"] as? [Any])?.isEmpty == true, "\(object["unmeasured"] ?? "")")
        let configuration = try TransportConfiguration(json: try readText(file, limit: 1 << 16).utf8)
        #expect(configuration.endpoints.count == 1 && configuration.endpoints[0].host == "127.0.0.1")
    }
}
