import CommandTestSupport
import Foundation
import Testing

@testable import CommandSupport
@testable import Reporting
@testable import imlab

@Suite("The command line of imlab", .timeLimit(.minutes(5)), .ownThread)
struct LaboratoryCommandLineTests {
    private func run(_ line: String, isOutputClosed: Bool = false) async throws -> BuiltProgram.Outcome {
        try await BuiltProgram.imlab.run(line.split(separator: " ").map(String.init), isOutputClosed: isOutputClosed)
    }

    @Test(
        "Wrong usage is one line on standard error with the mistake and what is allowed, and status 64",
        arguments: [
            ("work nope", ["'work': unknown step 'nope'", "allowed is json-encode"]),
            ("work json-encod", ["did you mean 'json-encode'?"]),
            ("work tcp ws", ["'work' takes one step, but got 'ws'"]),
            ("simulate --verbose", ["--verbose needs --seed"]),
            ("simulate --seed 1 --until-failure", ["--until-failure and --seed exclude each other"]),
            ("simulate --seed 1 --seeds 2", ["--seeds and --seed exclude each other"]),
            ("hostile --idle 5 --transport udp", [#"--transport is "udp""#, #"allowed with --idle is "tcp""#]),
            ("hostile --attack ping", [#"--attack is "ping""#, #"did you mean "ping-flood"?"#]),
            ("run", ["unknown command 'run'", "allowed is simulate, hostile, work"]),
        ]
    )
    func usage(line: String, parts: [String]) async throws {
        let outcome = try await run(line)
        #expect(outcome.status == ExitStatus.usage && !outcome.wasKilled && outcome.output.isEmpty)
        #expect(outcome.errorLines.count == 1 && outcome.errors.hasPrefix("imlab: "), "\(outcome.errors)")
        for part in parts { #expect(outcome.errors.contains(part), "\(outcome.errors)") }
    }

    @Test(
        "A closed pipe ends every command by SIGPIPE",
        arguments: ["help", "work", "simulate --seeds 3", "simulate --seed 3 --verbose"]
    )
    func closedPipe(line: String) async throws {
        let outcome = try await run(line, isOutputClosed: true)
        #expect(outcome.wasKilled && outcome.status == SIGPIPE && outcome.errors.isEmpty, "\(outcome.errors)")
    }

    #if os(Linux)
    @Test("An interrupted command ends with status 130")
    func interrupted() async throws {
        let ending = try await BuiltProgram.imlab.interrupt(["simulate", "--seeds", "100000000"]).ending
        #expect(ending == .status(130))
    }
    #endif

    @Test("Every example of the help is a correct command line, and no line is longer than 80 columns")
    func examples() throws {
        for command in Vocabulary.laboratory.commands {
            for example in command.command.examples {
                // Quotes group words, as in a shell.
                let parts = example.line.split(omittingEmptySubsequences: false) { $0 == "'" }
                let words = parts.enumerated().flatMap { number, part in
                    number % 2 == 1 ? [String(part)] : part.split(separator: " ").map(String.init)
                }
                #expect(words.first == "imlab")
                let parsed = try OptionParser(vocabulary: .laboratory).parse(Array(words.dropFirst()))
                guard case .run(let given) = parsed else {
                    Issue.record("\(example.line) runs no command")
                    continue
                }
                #expect(type(of: given).command.name == command.command.name)
            }
            for line in HelpText.make(.laboratory, command: command).split(separator: "\n") {
                #expect(line.count <= 80)
            }
        }
    }

    @Test("The help lists each command on one line below its question")
    func overview() {
        let lines = HelpText.make(.laboratory, command: nil).split(separator: "\n")
        for command in Vocabulary.laboratory.commands {
            #expect(lines.filter { $0.hasPrefix("  \(command.command.name) ") }.count == 1)
        }
        #expect(
            lines.contains("What can a hostile client do?")
                && lines.allSatisfy { $0.count <= 80 && !$0.hasPrefix("   ") }
        )
    }

    @Test("The record omits options without an effect")
    func effects() throws {
        let simulate = try OptionParser(vocabulary: .laboratory).parse(
            ["simulate", "--seed", "3"],
            as: SimulateCommand.self
        )
        #expect(Set(simulate.record(.laboratory).map(\.name)).isDisjoint(with: ["seeds", "from", "threads"]))
    }

    @Test("The replay of one seed honours the format, and has a verdict in words", arguments: [true, false])
    func replay(isStack: Bool) async throws {
        let line = "simulate --seed 3" + (isStack ? " --stack" : "")
        let name = isStack ? "schedule" : "world"
        #expect(try await run(line).output.contains("\nNo rule is broken in the \(name) of seed 3.\n"))
        let json = try await run(line + " --verbose --format json").output
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        #expect(object["schema"] as? String == "imbench/1")
        #expect((object["verdict"] as? [String])?.first == "No rule is broken in the \(name) of seed 3.")
        #expect((object["log"] as? [String])?.isEmpty == false)
        #expect(try await run(line + " --format html").output.contains("</html>"))
        #expect(try await run(line + " --format csv").output == "seed,failure\r\n")
    }
}
