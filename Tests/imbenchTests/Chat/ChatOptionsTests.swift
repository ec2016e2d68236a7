import Codecs
import CommandTestSupport
import Foundation
import Testing
import TransportAPI

@testable import CommandSupport
@testable import Reporting
@testable import imbench

@Suite struct ChatOptionsTests {
    private func parse<Parsed: RunnableCommand>(_ line: String, as _: Parsed.Type) throws(UsageError) -> Parsed {
        try OptionParser(vocabulary: everything).parse(line.split(separator: " ").map(String.init), as: Parsed.self)
    }

    private func parse(_ line: String) throws(UsageError) -> ChatCommand { try parse(line, as: ChatCommand.self) }

    /// A file with this text, for as long as `body` runs.
    private func withFile(_ text: String, _ body: (String) throws -> Void) throws {
        let folder = try Folder()
        defer { folder.remove() }
        try folder.write("chat.json", text)
        try body(folder.path + "/chat.json")
    }

    @Test("A chat needs a URL and a name, and takes one codec")
    func usage() throws {
        let options = try parse("chat ws://a:1/x --name ann --room kitchen --codec protobuf")
        #expect(options.url?.host == "a")
        #expect(options.name == "ann")
        #expect(options.room == "kitchen")
        let setup = try ChatSetup(options)
        #expect(setup.configuration.codec == .protobuf)
        #expect(setup.configuration.supervisor.delivery.mode == .session)
        for wrong in [
            "chat --name ann", "chat ws://a:1", "chat ws://a:1 ws://b:1 --name ann", "chat xyz://a --name ann",
            "chat ws://a:1 --name a/b", "chat ws://a:1 --name ann --codec json,protobuf", "serve --name ann",
            "run --config x --url ws://a:1",
        ] {
            #expect(throws: UsageError.self) { try parse(wrong) }
        }
    }

    @Test("Over a broker the room is a topic, unless the URL names others")
    func topics() throws {
        let setup = try ChatSetup(parse("chat mqtt://a --name ann --room kitchen"))
        let options = setup.configuration.endpoints[0].options
        #expect(options.map(\.name) == ["publish", "subscribe", "qos"])
        #expect(options.map(\.value) == ["imbench/chat/kitchen", "imbench/chat/kitchen", "1"])
        let own = try ChatSetup(parse("chat mqtt://a?publish=x&subscribe=y&qos=0 --name ann"))
        #expect(own.configuration.endpoints[0].options.map(\.value) == ["x", "y", "0"])
    }

    @Test("A configuration file gives the settings that the command line does not")
    func file() throws {
        let text = """
            {"endpoints": ["tcp://h:7", "ws://h:8"], "codec": "protobuf", "connect-timeout": "3s"}
            """
        try withFile(text) { path in
            let chat = try ChatSetup(parse("chat --name ann --config \(path)")).configuration
            #expect(chat.endpoints.map(\.scheme) == ["tcp", "ws"])
            #expect(chat.codec == .protobuf)
            #expect(chat.supervisor.connectTimeout == .seconds(3))
            let mixed = try ChatSetup(parse("chat ws://g --name ann --codec json --config \(path)")).configuration
            #expect(mixed.endpoints.map(\.host) == ["g"])
            #expect(mixed.codec == .json)
            let run = try parse("run --config \(path)", as: RunCommand.self).withConfiguredServers()
            #expect(run.urls.map(\.scheme) == ["tcp", "ws"])
            #expect(run.rows.transports == ["tcp", "ws"])
            #expect(run.rows.codecs == ["protobuf"])
        }
    }

    @Test("The error of a mistake in the file names the file and the line")
    func mistakes() throws {
        try withFile("{\"endpoints\": [\"ws://h\"],\n \"codecs\": \"json\"}") { path in
            let error = #expect(throws: TransportError.self) {
                try ChatSetup(parse("chat --name ann --config \(path)"))
            }
            #expect(error?.reason.hasPrefix("\(path):2: \"codecs\" is not known; did you mean \"codec\"?") == true)
        }
        try withFile("{\"endpoints\": [\"ws://h\", \"ws://g\"]}") { path in
            #expect(throws: TransportError.self) {
                try parse("run --config \(path)", as: RunCommand.self).withConfiguredServers()
            }
        }
        #expect(throws: TransportError.self) { try ChatSetup(parse("chat --name ann --config /nowhere.json")) }
    }

    @Test("Lines are read with LF, with CR LF and at the end of input, up to the longest line")
    func lines() throws {
        // A child process that starts meanwhile inherits a copy of the writing end. A shutdown of a socket also ends that
        // copy.
        var ends: [Int32] = [0, 0]
        #if canImport(Glibc)
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        #else
        try #require(socketpair(AF_UNIX, SOCK_STREAM, 0, &ends) == 0)
        #endif
        defer { for end in ends { close(end) } }
        var input = LineInput(ends[0])
        #expect(input.next(timeout: 0) == .nothing)
        writeAll(ends[1], "one\r\ntw")
        #expect(input.next(timeout: 1000) == .line("one"))
        #expect(input.next(timeout: 0) == .nothing)
        writeAll(ends[1], "o\n" + String(repeating: "x", count: 40_000) + "\nthree")
        #expect(input.next(timeout: 1000) == .line("two"))
        #expect(input.next(timeout: 1000) == .tooLong)
        shutdown(ends[1], Int32(SHUT_WR))
        #expect(input.next(timeout: 1000) == .line("three"))
        #expect(input.next(timeout: 1000) == .end)
    }
}
