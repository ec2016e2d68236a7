import CommandTestSupport
import EmbeddedServers
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import imbench

/// `imbench chat` on a terminal, as a user sees it.
@Suite("The terminal of a chat", .timeLimit(.minutes(5)), .ownThread)
struct ChatScreenTests {
    /// A chat server, another member, and ann at her terminal.
    private struct Scene {
        let server: ChatServer
        let bob: ChatPerson

        init() async throws {
            server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
            bob = try await ChatPerson("bob", at: server.endpoint)
        }

        /// Runs `body` with ann's terminal, once her chat is open, on a separate thread.
        func withAnn<Value: Sendable>(
            columns: Int = 80,
            variables: [String: String] = [:],
            _ body: @escaping @Sendable (PseudoTerminal) throws -> Value
        ) async throws -> Value {
            let words = ["chat", "\(server.endpoint)", "--name", "ann"]
            return try await apart {
                let terminal = try PseudoTerminal(words, columns: columns, variables: variables)
                #expect(terminal.wait { $0.contains("open, new session") && $0.current == ">" })
                return try body(terminal)
            }
        }

        /// Sends a message of bob, from a thread that may block.
        func say(_ text: String) {
            runBlocking(on: bob.client.loop) { [bob] in await bob.type(text) }
        }

        func end() async {
            await bob.leave()
            await server.stop()
        }
    }

    @Test("A message that arrives leaves the line that is being typed as it is, with its cursor")
    func redraw() async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            terminal.type("Grüße, 世界\u{1b}[D")
            #expect(terminal.wait { $0.current == "> Grüße, 世界" && $0.cursor.column == 11 })
            scene.say("from bob")
            #expect(terminal.wait { $0.contains("bob: from bob") && $0.current == "> Grüße, 世界" })
            #expect(terminal.screen.cursor.column == 11)
            terminal.type("新\n")
            #expect(
                terminal.wait { $0.contains("#1 ann: Grüße, 世新界") && $0.contains("✓✓ #1 bob") && $0.current == ">" }
            )
            #expect(terminal.screen.texts.count { $0.contains("世新界") } == 1)
            terminal.type("/quit\n")
            #expect(terminal.finish() == 0)
            #expect(terminal.isInItsOwnMode)
        }
        #expect(scene.bob.display.received == ["Grüße, 世新界"])
        await scene.end()
    }

    @Test("A line that is longer than the terminal is wide stays in one row")
    func long() async throws {
        let scene = try await Scene()
        try await scene.withAnn(columns: 40) { terminal in
            let text = String(repeating: "0123456789", count: 10)
            terminal.type(text)
            #expect(
                terminal.wait { $0.current.hasSuffix("789") && $0.current.hasPrefix("> ") && $0.current.count == 39 }
            )
            scene.say("meanwhile")
            #expect(terminal.wait { $0.contains("bob: meanwhile") && $0.current.hasSuffix("789") })
            #expect(terminal.screen.texts.count { $0.hasPrefix(">") } == 1)
            terminal.resize(columns: 20)
            #expect(terminal.wait { $0.current.count == 19 && $0.current.hasSuffix("789") })
            terminal.type("\u{15}\u{4}")
            #expect(terminal.finish() == 0 && terminal.isInItsOwnMode)
        }
        await scene.end()
    }

    @Test("Texts of others reach the terminal without control characters")
    func harmless() async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            scene.say("\u{1b}]0;evil\u{7}\u{1b}[2J\u{9b}5Athe end")
            #expect(terminal.wait { $0.contains("the end") })
            let text = String(decoding: terminal.screen.raw, as: UTF8.self)
            #expect(!text.contains("\u{1b}]") && !text.contains("\u{1b}[2J") && !text.contains("\u{9b}"))
            terminal.type("/quit\n")
            #expect(terminal.finish() == 0)
        }
        await scene.end()
    }

    @Test("A message of several lines has a row for each, and none looks like a message of another member")
    func rows() async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            terminal.type("half a line")
            scene.say("one\n23:59 carol: two\nthree")
            #expect(terminal.wait { $0.contains("three") && $0.current == "> half a line" })
            let rows = terminal.screen.texts
            let first = rows.firstIndex { $0.hasSuffix("bob: one") } ?? 0
            #expect(rows[first...].dropFirst().prefix(2) == ["  | 23:59 carol: two", "  | three"])
            terminal.type("\u{15}/history\n/quit\n")
            #expect(terminal.finish() == 0)
            #expect(terminal.screen.texts.filter { $0.contains("23:59 carol") }.allSatisfy { $0.hasPrefix("  | ") })
        }
        await scene.end()
    }

    @Test("Messages have a time, and colour unless NO_COLOR is set", arguments: [true, false])
    func colours(isColoured: Bool) async throws {
        let scene = try await Scene()
        try await scene.withAnn(variables: isColoured ? [:] : ["NO_COLOR": "1"]) { terminal in
            scene.say("hi")
            #expect(terminal.wait { $0.texts.contains { $0.wholeMatch(of: /\d\d:\d\d bob: hi/) != nil } })
            let text = String(decoding: terminal.screen.raw, as: UTF8.self)
            #expect(text.contains(/\u{1b}\[[0-9;]+m/) == isColoured)
            terminal.type("/quit\n")
            #expect(terminal.finish() == 0)
        }
        await scene.end()
    }

    @Test("/help lists the commands, and an unknown command names it")
    func help() async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            terminal.type("/help\n/helo\n")
            #expect(terminal.wait { $0.contains("unknown command /helo") })
            for command in ["/history", "/state", "/quit", "//text"] { #expect(terminal.screen.contains(command)) }
            terminal.type("/quit\n")
            #expect(terminal.finish() == 0)
        }
        await scene.end()
    }

    @Test(
        "The terminal returns to its own mode when a signal ends the chat",
        arguments: [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT]
    )
    func signals(number: Int32) async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            #expect(!terminal.isInItsOwnMode)
            terminal.type("half a line")
            #expect(terminal.wait { $0.current == "> half a line" })
            terminal.signal(number)
            #expect(terminal.finish() == 128 + number)
            #expect(terminal.isInItsOwnMode)
            // A shell's prompt would begin in an empty row.
            #expect(terminal.screen.current.isEmpty && terminal.screen.cursor.column == 0)
        }
        await scene.end()
    }

    @Test("Ctrl-C ends the chat with status 130")
    func interrupted() async throws {
        let scene = try await Scene()
        try await scene.withAnn { terminal in
            terminal.type("half a line\u{3}")
            #expect(terminal.finish() == 130 && terminal.isInItsOwnMode)
        }
        await scene.end()
    }

    @Test("A terminal that cannot move the cursor gets whole lines without escape sequences")
    func dumb() async throws {
        let scene = try await Scene()
        let words = ["chat", "\(scene.server.endpoint)", "--name", "ann"]
        try await apart {
            let terminal = try PseudoTerminal(words, variables: ["TERM": "dumb"])
            #expect(terminal.wait { $0.contains("open, new session") })
            #expect(terminal.isInItsOwnMode)
            scene.say("hi")
            #expect(terminal.wait { $0.contains("bob: hi") })
            terminal.type("ho\n")
            #expect(terminal.wait { $0.contains("#1 ann: ho") && $0.contains("✓✓ #1 bob") })
            #expect(!terminal.screen.raw.contains(0x1b))
            terminal.type("/quit\n")
            #expect(terminal.finish() == 0)
        }
        await scene.end()
    }
}
