import CommandTestSupport
import Testing
import TransportAPI

@testable import CommandSupport
@testable import Measuring
@testable import Reporting
@testable import Workloads
@testable import imbench

let everything = Vocabulary(
    program: "imbench",
    purpose: "a test",
    groups: Vocabulary.measured.groups,
    transports: ["tcp", "ws", "mqtt", "udp", "memory"],
    defaultTransports: ["tcp", "ws", "mqtt", "udp"],
    codecs: ["json", "protobuf"],
    rowNames: Vocabulary.measured.rowNames
)

private let names = everything.commands.map { $0.command.name }

private func words(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }

private func parse<Parsed: RunnableCommand>(_ line: String, as _: Parsed.Type) throws(UsageError) -> Parsed {
    try OptionParser(vocabulary: everything).parse(words(line), as: Parsed.self)
}

private func run(_ line: String) throws(UsageError) -> RunCommand { try parse(line, as: RunCommand.self) }

/// The command that a line names.
private func command(_ line: String) throws(UsageError) -> String? {
    guard case .run(let command) = try OptionParser(vocabulary: everything).parse(words(line)) else { return nil }
    return type(of: command).command.name
}

/// The texts that a line prints in place of running a command: "help", "help COMMAND" or "version".
private func text(_ line: String) throws(UsageError) -> String? {
    switch try OptionParser(vocabulary: everything).parse(words(line)) {
    case .help(let topic): topic.map { "help \($0.command.name)" } ?? "help"
    case .version: "version"
    case .run: nil
    }
}

private func mistake(_ words: [String]) -> String? {
    do throws(UsageError) {
        _ = try OptionParser(vocabulary: everything).parse(words)
        return nil
    } catch {
        return error.message
    }
}

private let commands = (names + ["help", "version"]).joined(separator: ", ")
private let hint = "'imbench help run' lists its options"

private func mistake(_ line: String) -> String? { mistake(words(line)) }

@Suite struct OptionParserTests {
    @Test("An empty command line compares everything")
    func defaults() throws {
        let options = try run("")
        #expect(options == RunCommand(everything))
        #expect(options.rows.transports == ["tcp", "ws", "mqtt", "udp"])
        #expect(options.rows.codecs == ["json", "protobuf"])
        #expect(options.rows.sizes == [32, 256, 4096])
        #expect(options.load.extent == .duration(.milliseconds(2500)))
        #expect(options.report.format == .table)
        #expect(options.machine.placement == .apart)
    }

    @Test("XML is measured on request alone")
    func codecs() throws {
        #expect(Vocabulary.measured.defaultCodecs == ["json", "protobuf"])
        for (line, expected) in [("", ["json", "protobuf"]), ("--codec xml,json", ["xml", "json"])] {
            let parser = OptionParser(vocabulary: .measured)
            #expect(try parser.parse(words("run \(line)"), as: RunCommand.self).rows.codecs == expected)
            #expect(try parser.parse(words("overhead \(line)"), as: OverheadCommand.self).rows.codecs == expected)
            #expect(try parser.parse(words("trace \(line) text"), as: TraceCommand.self).codecs == expected)
        }
    }

    @Test("Passwords of a broker's users may contain colons")
    func users() throws {
        let users = try parse("serve --user ann:a:b --user bob: --listen mqtt://a:1", as: ServeCommand.self).users
        #expect(users.map(\.name) == ["ann", "bob"] && users.map(\.password) == ["a:b", ""])
    }

    @Test("Every option of run is read, with a space and with an equals sign")
    func everyOption() throws {
        let spaced = try run(
            "run --transport ws,tcp --codec json --size 1,2 --messages 9 --warmup 0s --repeat 3 --connections 4 --rate 12.5"
                + " --awake --placement same --busy-poll 50us --seed 7 --format json --output out.json --quiet --url ws://a:1/x"
        )
        let joined = try run(
            "run --transport=ws,tcp --codec=json --size=1,2 --messages=9 --warmup=0s --repeat=3 --connections=4 --rate=12.5"
                + " --awake --placement=same --busy-poll=50us --seed=7 --format=json --output=out.json --quiet --url=ws://a:1/x"
        )
        #expect(spaced == joined)
        #expect(spaced.rows.transports == ["ws", "tcp"])
        #expect(spaced.rows.sizes == [1, 2])
        #expect(spaced.load.extent == .messages(9))
        #expect(spaced.load.warmup == .zero)
        #expect(spaced.load.pacing == .open(rate: 12.5))
        #expect(spaced.seed == 7)
        #expect(spaced.report.output == "out.json")
        #expect(spaced.urls.map(\.host) == ["a"])
        #expect(spaced.machine.isAwake && spaced.general.isQuiet && spaced.machine.placement == .same)
        #expect(spaced.machine.polling == .always(for: .microseconds(50)))
    }

    @Test(
        "A run over a network has as many repeats as the differences of its rows need, unless the line has another number"
    )
    func networkRepeats() throws {
        #expect(try run("run --network 4g").load.repeats == 10)
        // 26 rows have 25 comparisons with the first one.
        #expect(PairedInterval.neededRepeats(1 - 0.05 / 25) == 10)
        #expect(try run("run --network 4g --repeat 3").load.repeats == 3)
    }

    @Test("The changed options are those of the line, the network first, and no defaults that follow from others")
    func changes() throws {
        #expect(try run("run").changes(everything).isEmpty)
        #expect(try run("run --network 4g --quiet --seed 3 --format json").changes(everything) == ["network"])
        #expect(try run("run --size 8 --network 4g --rate 5").changes(everything) == ["network", "size", "rate"])
        let open = try OptionParser(vocabulary: everything).parse(["open"], as: OpenCommand.self)
        #expect(open.changes(everything).isEmpty)
    }

    @Test("Loops poll only if --busy-poll is given")
    func polling() throws {
        #expect(try run("run").machine.polling == .never)
        #expect(try run("run --busy-poll auto").machine.polling == .adaptive)
        #expect(try run("run --busy-poll 0s").machine.polling == .never)
        for value in ["soon", "2s", "-1s", ""] {
            let sentence = "--busy-poll is \"\(value)\"; allowed is \"0s\" to \"1s\", or \"auto\""
            #expect(mistake("run --busy-poll=\(value)") == sentence)
        }
    }

    @Test("The command may follow options")
    func commandAfterOptions() throws {
        #expect(try command("--format json overhead") == "overhead")
        #expect(try command("--quiet --format=json overhead") == "overhead")
    }

    @Test("A URL chooses its transport, unless --transport excludes it")
    func urlChoosesTransport() throws {
        #expect(try run("--url mqtt://h:1883").rows.transports == ["mqtt"])
        #expect(
            mistake("--transport ws --url mqtt://h:1883")?.contains("is not of a transport of --transport ws") == true
        )
        #expect(mistake("--url mqtt://h --url mqtt://i")?.contains("two servers for mqtt") == true)
    }

    @Test("The text of trace may begin with dashes after --")
    func traceText() throws {
        #expect(try parse("trace -- --hello", as: TraceCommand.self).text == "--hello")
        #expect(try parse("trace hello world", as: TraceCommand.self).text == "hello world")
        #expect(mistake("trace") == "'trace' needs a text: imbench trace \"TEXT\"")
    }

    @Test("The compare command takes two files and a noise threshold")
    func compareFiles() throws {
        let options = try parse("compare a.json b.json --noise 2.5 --format html", as: CompareCommand.self)
        #expect(options.before == "a.json" && options.after == "b.json" && options.noisePercent == 2.5)
        #expect(options.report.format == .html)
        #expect(try parse("compare a b", as: CompareCommand.self).noisePercent == 1)
        for line in ["compare", "compare a.json", "compare a b c"] {
            #expect(mistake(line)?.hasPrefix("'compare' needs two files, but got ") == true)
        }
        #expect(mistake("compare a b --noise -1") == #"--noise is "-1"; allowed is 0 to 100, or "0%" to "100%""#)
        #expect(
            mistake("run --noise 1")
                == "--noise belongs to 'compare', not to 'run'; 'imbench help run' lists its options"
        )
        #expect(
            HelpText.make(everything, command: everything.command("compare")).contains(
                "Usage: imbench compare A.json B.json [OPTIONS]"
            )
        )
    }

    @Test("Help is given even if a mistake follows")
    func helpFirst() throws {
        #expect(try text("run -h") == "help run" && text("help storm") == "help storm")
        for line in ["help", "help help", "--quiet help", "--help --nonsense"] { #expect(try text(line) == "help") }
        for line in ["version", "--version", "storm --version"] { #expect(try text(line) == "version") }
        #expect(try text("run") == nil)
    }

    @Test(
        "A mistake is one sentence, with the nearest word if there is one",
        arguments: [
            ("rum", "unknown command 'rum'; did you mean 'run'? allowed is \(commands)"),
            ("hlep", "unknown command 'hlep'; did you mean 'help'? allowed is \(commands)"),
            ("xyzzy", "unknown command 'xyzzy'; allowed is \(commands)"),
            ("help rum", "unknown command 'rum'; did you mean 'run'? allowed is \(commands)"),
            ("help run now", "'help' takes one command, but got 'now'"),
            ("version now", "'version' takes no argument, but got 'now'"),
            ("--transprt ws", "unknown option '--transprt' of 'run'; did you mean '--transport'? \(hint)"),
            ("-quiet", "unknown option '-quiet' of 'run'; did you mean '--quiet'? \(hint)"),
            ("--xyzzyplugh", "unknown option '--xyzzyplugh' of 'run'; \(hint)"),
            (
                "--transport wss",
                #"--transport is "wss"; did you mean "ws"? allowed is "tcp", "ws", "mqtt", "udp", "memory""#
            ),
            ("--codec proto", #"--codec is "proto"; did you mean "protobuf"? allowed is "json", "protobuf""#),
            (
                "--format jsn",
                #"--format is "jsn"; did you mean "json"? allowed is "table", "json", "csv", "markdown", "html""#
            ),
            (
                "--codec ,",
                #"--codec is ","; allowed is a list of up to 64, separated by commas, of: "json", "protobuf""#
            ),
            ("--size ten", #"--size is "ten"; allowed is 1 to 16777216, or with a unit ("64KiB")"#),
            ("--size 1,0", #"--size is "0"; allowed is 1 to 16777216, or with a unit ("64KiB")"#),
            ("--size -5", #"--size is "-5"; allowed is 1 to 16777216, or with a unit ("64KiB")"#),
            ("--repeat 0", #"--repeat is "0"; allowed is 1 to 1000"#),
            ("--repeat 99999999999999999999", #"--repeat is "99999999999999999999"; allowed is 1 to 1000"#),
            ("--rate 0", #"--rate is "0"; allowed is 0.001 to 10000000"#),
            ("--rate inf", #"--rate is "inf"; allowed is 0.001 to 10000000"#),
            ("--duration 5", #"--duration is "5"; its unit is missing ("5s" are seconds); allowed is "1ms" to "24h""#),
            ("--duration 0s", #"--duration is "0s"; allowed is "1ms" to "24h""#),
            ("--output", "--output needs a value: --output FILE"),
            ("--output --quiet", "--output needs a value: --output FILE"),
            ("--awake=yes", "--awake takes no value, but got 'yes'"),
            (
                "--format",
                #"--format needs a value: --format WORD; allowed is "table", "json", "csv", "markdown", "html""#
            ),
            (
                "trace x --transport udp-reliable",
                #"--transport is "udp-reliable"; allowed is "tcp", "ws", "mqtt", "udp", "memory""#
            ),
            (
                "--transport tcp --assert ws.lost<1",
                "--assert 'ws.lost<1': the run has no 'ws', but tcp"
            ),
            (
                "--placement appart",
                #"--placement is "appart"; did you mean "apart"? allowed is "apart", "same", "free""#
            ),
            ("--duration 1s --messages 5", "--messages and --duration exclude each other"),
            ("--in-flight 2 --rate 5", "--rate and --in-flight exclude each other"),
            ("run --listen ws://a:1", "--listen belongs to 'serve', not to 'run'; \(hint)"),
            ("serve --user ann", "--user needs NAME:PASSWORD, but the value has no colon"),
            ("serve --user :secret", "--user needs NAME:PASSWORD, but the value has no name"),
            ("serve --user ann:secret --proxy ws://a:1", "--user and --proxy exclude each other"),
            (
                "serve --user ann:secret --listen ws://a:1",
                "--user is for a broker, and no --listen has a scheme of MQTT or STOMP"
            ),
            (
                "serve --rate 5",
                "--rate belongs to 'run' and 'fanout', not to 'serve'; 'imbench help serve' lists its options"
            ),
            ("run now", "'run' takes no argument, but got 'now'"),
            ("--url host:1", #"--url "host:1": url has no scheme; write it as scheme://host:port"#),
            (
                "--url mqt://h",
                #"--url "mqt://h": scheme is "mqt"; did you mean "mqtt"? allowed is "tcp", "ws", "mqtt", "udp", "memory""#
            ),
        ]
    )
    func mistakes(_ line: String, _ sentence: String) {
        #expect(mistake(line) == sentence)
    }

    @Test("The last value of an option counts, and all values of one that may be repeated")
    func repetition() throws {
        #expect(try run("--repeat 2 --size 1 --repeat 3 --size=2").load.repeats == 3)
        #expect(mistake("--repeat none --repeat 3") == #"--repeat is "none"; allowed is 1 to 1000"#)
        let served = try parse("serve --listen ws://a:1 --listen tcp://b:2", as: ServeCommand.self)
        #expect(served.listen.map(\.scheme) == ["ws", "tcp"])
        let many = "serve" + String(repeating: " --listen ws://a:1", count: 65)
        #expect(mistake(many) == "--listen occurs 65 times; allowed are at most 64")
        let networks = "run" + (1...17).map { " --network delay=\($0)ms" }.joined()
        #expect(mistake(networks) == "--network occurs 17 times; allowed are at most 16")
    }

    @Test("The record omits options without an effect")
    func effects() throws {
        func names(_ command: some RunnableCommand) -> Set<String> { Set(command.record(.measured).map(\.name)) }
        #expect(try names(run("run --rate 5")).isSuperset(of: ["rate", "duration"]))
        #expect(try names(run("run --rate 5")).isDisjoint(with: ["in-flight", "messages", "delay-percent", "network"]))
        #expect(try names(run("run --messages 5")).isSuperset(of: ["in-flight", "messages"]))
        let serve = try parse("serve --user ann:secret --listen mqtt://a:1", as: ServeCommand.self)
        #expect(names(serve).isDisjoint(with: ["user", "delay", "loss"]))
    }

    @Test("Commands and options that the build does not offer are unknown")
    func unofferedCommand() {
        let small = Vocabulary(
            program: "imbench",
            purpose: "a test",
            groups: [CommandGroup("What does a message cost?", [(RunCommand.self, "time")])],
            transports: ["ws"],
            defaultTransports: ["ws"],
            codecs: ["json"]
        )
        #expect(throws: UsageError("unknown command 'serve'; allowed is run, help, version")) {
            try OptionParser(vocabulary: small).parse(["serve"])
        }
        #expect(throws: UsageError("unknown option '--listen' of 'run'; \(hint)")) {
            try OptionParser(vocabulary: small).parse(["--listen", "ws://a:1"])
        }
    }

    @Test("No line of random words traps")
    func randomLines() {
        var generator = RandomSource.seeded(1)
        let words =
            everything.commands.flatMap { everything.options(of: $0) }.map { "--" + $0.name } + [
                "run", "trace", "--", "-", "=", "--=", "", "5s", "1,2", "ws", "é", "-h=",
            ]
        for _ in 0..<5000 {
            let line = (0..<Int.random(in: 0...6, using: &generator)).compactMap { _ in
                words.randomElement(using: &generator)
            }
            _ = mistake(line)
        }
    }

    @Test("The recorded options can be typed again")
    func recordReadsBack() throws {
        let options = try run("--size 7 --duration 1500ms --rate 2.5 --seed 3 --transport ws --output f")
        let line = options.record(everything).filter { $0.name != "awake" }.map { "--\($0.name)=\($0.value)" }
        #expect(line.contains("--size=7") && line.contains("--rate=2.5"))
        let again = try OptionParser(vocabulary: everything).parse(line, as: RunCommand.self)
        #expect(again == options)
    }
}

@Suite struct HelpTextTests {
    @Test("The help without a command is short, and has each command on one line below its question")
    func overview() throws {
        let lines = HelpText.make(everything, command: nil).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 48)
        var question = ""
        var questions: [String: String] = [:]
        for line in lines {
            if line.hasSuffix("?") { question = String(line) }
            if line.hasPrefix("  "), let name = line.split(separator: " ").first { questions[String(name)] = question }
        }
        for name in names { #expect(lines.filter { $0.hasPrefix("  \(name) ") }.count == 1) }
        #expect(questions["run"] == "What does a message cost?" && questions["trace"] == questions["run"])
        #expect(questions["outage"] == "What happens when the network fails?")
        #expect(questions["advise"] == "Which transport fits my app?" && questions["chat"] == "How do I try it?")
        #expect(lines.contains("  run           time, bytes and CPU over each transport (the default)"))
        #expect(lines.contains("Every command also takes --quiet, --help, --version."))
        #expect(!lines.contains { $0.contains("--listen") || $0.hasPrefix("   ") })
    }

    @Test("The help of a command lists its own options only, and examples", arguments: names)
    func ownOptions(of name: String) throws {
        let command = try #require(everything.command(name))
        let help = HelpText.make(everything, command: command)
        let listed = help.split(separator: "\n").filter { $0.hasPrefix("  --") }.map { $0.split(separator: " ")[0] }
        #expect(listed.sorted() == everything.options(of: command).map { "--" + $0.name }.sorted().map { $0[...] })
        #expect((2...3).contains(command.command.examples.count))
        for example in command.command.examples { #expect(help.contains("  \(example.line)\n")) }
    }

    @Test("Every option with a value shows its default", arguments: names)
    func defaults(of name: String) throws {
        let command = try #require(everything.command(name))
        // These have no default, because they add to something or are required.
        let others: Set = ["url", "config", "proxy", "assert", "name"]
        for option in everything.options(of: command) where option.placeholder != nil && !others.contains(option.name) {
            // An option that excludes another has the other's default.
            guard option.name != "messages" || name != "run" else { continue }
            #expect(!option.standard.isEmpty, "--\(option.name)")
        }
    }

    @Test("Every example of the help is a correct command line", arguments: names)
    func examples(of name: String) throws {
        let command = try #require(everything.command(name))
        for example in command.command.examples {
            // Quotes group words, as in a shell.
            let parts = example.line.split(omittingEmptySubsequences: false) { $0 == "\"" || $0 == "'" }
            let words = parts.enumerated().flatMap { number, part in
                number % 2 == 1 ? [String(part)] : part.split(separator: " ").map(String.init)
            }
            #expect(words.first == "imbench")
            guard case .run(let parsed) = try OptionParser(vocabulary: everything).parse(Array(words.dropFirst()))
            else {
                Issue.record("\(example.line) runs no command")
                continue
            }
            #expect(type(of: parsed).command.name == name)
        }
    }

    @Test("No line of the help is longer than 80 columns", arguments: [nil] + names)
    func width(of name: String?) {
        let command = name.flatMap(everything.command)
        for line in HelpText.make(everything, command: command).split(separator: "\n") { #expect(line.count <= 80) }
    }
}
