import CommandTestSupport
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite("The command line of imbench", .timeLimit(.minutes(5)), .ownThread)
struct CommandLineTests {
    private func run(_ line: String) async throws -> BuiltProgram.Outcome {
        try await BuiltProgram.imbench.run(line.split(separator: " ").map(String.init))
    }

    @Test(
        "Wrong usage is one line on standard error with the mistake and what is allowed, and status 64",
        arguments: [
            ("rum", ["unknown command 'rum'", "did you mean 'run'?", "allowed is run, overhead"]),
            ("help rum", ["unknown command 'rum'"]),
            ("run --transprt ws", ["'--transprt' of 'run'", "did you mean '--transport'?", "imbench help run"]),
            ("run --size ten", [#"--size is "ten""#, "allowed is 1 to"]),
            ("run --format", ["--format needs a value", #""json""#]),
            ("run --assert ws.lost", ["--assert: 'ws.lost'", "'ws.json.256.rtt.p99_us < 2000'"]),
            ("run --assert wx.lost<1", ["--assert 'wx.lost<1': unknown transport 'wx'", "did you mean 'ws'?"]),
            ("run --assert ws.rtt.p98_us<1", ["unknown metric 'rtt.p98_us'", "allowed is rtt.min_us"]),
            ("run --url ws://127.0.0.1:1?frob=1", ["--url ws://127.0.0.1:1: ", "frob", "deflate"]),
            ("run --transport websocket", [#"--transport is "websocket"; did you mean "ws"?"#]),
            ("run --url xs://h", [#"--url "xs://h""#, #"did you mean "ws"?"#]),
            ("run --url ssl://h", [#"--url "ssl://h""#, #"scheme is "ssl"; here it is tls://"#]),
            ("chat websocket://127.0.0.1:1 --name ann", ["'chat': URL", #"scheme is "websocket"; here it is ws://"#]),
            ("run --tls --url mqtt://h", ["--tls does not encrypt mqtt://h: write mqtts:// in place of mqtt://"]),
            ("serve --tls --listen ws://127.0.0.1:0", ["--tls does not encrypt ws://127.0.0.1:0: write wss://"]),
            ("serve --tls --proxy tcp://127.0.0.1:1", ["--tls does not encrypt tcp://127.0.0.1:1: write tls://"]),
            ("run --config /nowhere/c.json", ["--config: cannot read /nowhere/c.json: No such file"]),
            ("run --config /", ["--config: cannot read /: Is a directory"]),
            ("run --output /nowhere/r", ["--output: cannot write /nowhere/r: No such file"]),
            ("compare /nowhere/a /nowhere/b", ["'compare': cannot read /nowhere/a: No such file"]),
            ("compare a", ["'compare' needs two files, but got 1"]),
            ("chat ws://127.0.0.1:1?frob=1 --name ann", ["'chat' ws://127.0.0.1:1: ", "frob"]),
            ("chat xs://127.0.0.1:1 --name ann", ["'chat': URL", #"did you mean "ws"?"#]),
            ("serve --listen ws://127.0.0.1:0?frob=1", ["--listen ws://127.0.0.1:0: ", "frob"]),
            ("serve --listen tcp://127.0.0.1:0 --origins any", ["'serve': --origins is for servers over WebSocket"]),
            ("serve --proxy ws://127.0.0.1:1?frob=1", ["--proxy ws://127.0.0.1:1: ", "frob"]),
            ("outage --transport memory", [#"--transport is "memory""#, #"allowed is "tcp""#]),
            (
                "outage --store file",
                ["--store is for processes that are killed", "--fault client-killed,server-killed"]
            ),
            ("outage --fault client-killed --store disk", [#"--store is "disk""#, #"allowed is"#]),
            (
                "outage --fault reset,server-killed --network 4g",
                ["--fault server-killed is measured over loopback", "remove it, or --network"]
            ), ("outage --store-cost . --fault reset", ["--store-cost measures no faults; remove --fault"]),
            ("trace x --transport udp-reliable", [#"--transport is "udp-reliable""#, #"allowed is "tcp""#]),
            ("crowd --transport udp", [#"--transport is "udp""#, #"allowed is "tcp""#]),
        ]
    )
    func usage(line: String, parts: [String]) async throws {
        let outcome = try await run(line)
        #expect(outcome.status == ExitStatus.usage && !outcome.wasKilled && outcome.output.isEmpty)
        #expect(outcome.errorLines.count == 1 && outcome.errors.hasPrefix("imbench: "), "\(outcome.errors)")
        for part in parts { #expect(outcome.errors.contains(part), "\(outcome.errors)") }
    }

    @Test("A chat that never connects says why at the end of its input, and ends with status 1")
    func unconnected() async throws {
        let folder = try Folder()
        let port = try ReservedPort(isDatagram: false)
        try folder.write("chat.json", #"{"endpoints": ["ws://\#(port.address)"], "connect-timeout": "50ms"}"#)
        let outcome = try await run("chat --name ann --config \(folder.path)/chat.json")
        #expect(outcome.status == ExitStatus.failed && !outcome.wasKilled)
        #expect(outcome.output.contains("· no connection within 50ms: connection refused at \(port.address)"))
        folder.remove()
    }

    @Test("The error of rows that have failed is one line on standard error, with its phase and code")
    func failedRows() async throws {
        let port = try ReservedPort(isDatagram: false)
        let outcome = try await run("run --url tcp://\(port.address) --transport tcp --codec json --quiet")
        #expect(outcome.status == ExitStatus.failed)
        let lines = outcome.errorLines.filter { $0.contains("refused") }
        #expect(lines.count == 1, "\(outcome.errors)")
        let line =
            "imbench: tcp, json, 32: connect: connection refused at \(port.address): nothing listens there (refused "
        #expect(lines.first?.hasPrefix(line) == true, "\(outcome.errors)")
    }

    @Test("A port in use is one line on standard error, with the URL once and advice")
    func portInUse() async throws {
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        let url = "tcp://127.0.0.1:\(listener.endpoint.port ?? 0)"
        let outcome = try await run("serve --listen \(url)")
        #expect(outcome.status == ExitStatus.failed && outcome.errorLines.count == 1)
        #expect(outcome.errors.hasPrefix("imbench: cannot listen at \(url): bind: "), "\(outcome.errors)")
        #expect(outcome.errors.hasSuffix(": another process uses the port; choose another one, or port 0\n"))
        await listener.close()
    }

    @Test("Help and version are printed for each way to request them")
    func texts() async throws {
        let overview = try await run("help").output
        #expect(overview.contains("\nWhat does a message cost?\n") && overview.contains("\n  heartbeat "))
        for line in ["--help", "-h", "help help"] { #expect(try await run(line).output == overview) }
        let storm = try await run("help storm").output
        #expect(storm.contains("\nUsage: imbench storm [OPTIONS]\n"))
        for line in ["storm --help", "storm -h"] { #expect(try await run(line).output == storm) }
        let found = VersionText.make("imbench", .current(), SystemLibrary.all)
        #expect(found.hasPrefix("imbench \(version), "))
        for line in ["version", "--version", "run --version"] { #expect(try await run(line).output == found) }
    }

    @Test(
        "A closed pipe ends every command by SIGPIPE, without a message",
        arguments: [
            "help", "--help", "version", "trace hello", "storm --quiet --clients 10",
            "overhead --quiet --transport tcp --size 32",
        ]
    )
    func closedPipe(line: String) async throws {
        let words = line.split(separator: " ").map(String.init)
        let outcome = try await BuiltProgram.imbench.run(words, isOutputClosed: true)
        #expect(outcome.wasKilled && outcome.status == SIGPIPE)
        #expect(outcome.errors.isEmpty || outcome.errors == "imbench: this is a debug build\n", "\(outcome.errors)")
    }

    @Test("A table report is at most 80 columns wide unless --wide is given")
    func wide() async throws {
        let line = "trace \(String(repeating: "x", count: 120)) --transport ws --codec json"
        let lines = try await run(line).output.split(separator: "\n")
        for line in lines { #expect(line.count <= 80) }
        let wide = try await run(line + " --wide").output.split(separator: "\n")
        #expect(wide.count < lines.count && wide.contains { $0.count > 80 })
    }
}
