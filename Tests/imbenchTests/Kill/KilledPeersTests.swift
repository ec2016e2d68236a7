import CommandTestSupport
import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import Transports

@testable import CommandSupport
@testable import imbench

/// Two processes send numbers to each other, acknowledge each message after they have processed it, and are killed
/// meanwhile. By default the test is short; `IMBENCH_KILLS=25 IMBENCH_KILL_MESSAGES=40000` makes it
/// long. With `IMBENCH_KILL_MODE=receipt` messages are acknowledged when they are received, and some are lost.
@Suite("Processes that are killed", .timeLimit(.minutes(30)), .serialized, .ownThread)
struct KilledPeersTests {
    private static func setting(_ name: String, _ standard: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? standard
    }

    private let kills = KilledPeersTests.setting("IMBENCH_KILLS", 3)
    private let messages = KilledPeersTests.setting("IMBENCH_KILL_MESSAGES", 3000)
    private let mode = ProcessInfo.processInfo.environment["IMBENCH_KILL_MODE"] ?? "processing"

    private struct Life: @unchecked Sendable {
        // Unchecked, because only one thread at a time uses it.
        var process: ChildProcess
        var kills: Int
    }

    /// Runs one peer, and kills it repeatedly. It ends when all sent messages are acknowledged and all received ones are
    /// processed, or when nothing happens for a minute.
    private func live(_ words: [String]) async throws -> Life {
        let program = try #require(BuiltProgram.imbench.path)
        // Each direction reports every twenty messages.
        let step = max(1, messages / 10 / (kills + 2))
        let kills = kills
        return try await apart { () throws -> Life in
            var killed = 0
            while true {
                let process = try ChildProcess([program, KillPeer.word] + words + ["\(killed + 1)"])
                var (lines, isDone, isProcessed) = (0, false, false)
                while killed >= kills || lines < step, !isDone || !isProcessed,
                    case .line(let line) = process.next(timeout: 60_000)
                {
                    switch line {
                    case "done": isDone = true
                    case "processed": isProcessed = true
                    default: lines += 1
                    }
                }
                guard killed < kills, lines >= step else { return Life(process: process, kills: killed) }
                kill(process.identifier, SIGKILL)
                killed += 1
            }
        }
    }

    /// How often each number was processed.
    private func processed(in folder: String) throws -> [Int: Int] {
        let text = try String(contentsOfFile: "\(folder)/processed", encoding: .utf8)
        return text.split(separator: "\n").compactMap { Int($0) }.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    private func converse(_ first: (role: String, url: String), _ second: (role: String, url: String)) async throws {
        let left = try Folder()
        let right = try Folder()
        let paths = [left.path, right.path]
        async let one = live([first.role, first.url, paths[0], "\(messages)", mode])
        async let other = live([second.role, second.url, paths[1], "\(messages)", mode])
        let lives = try await (one, other)
        let ends = (lives.0.process.end(), lives.1.process.end())
        #expect(ends.0 == .status(0) && ends.1 == .status(0))
        for folder in paths {
            let counts = try processed(in: folder)
            let lost = (0..<messages).filter { counts[$0] == nil }
            print(
                "\(first.url.prefix { $0 != ":" }): \(messages) messages, \(lives.0.kills) and \(lives.1.kills) kills,",
                "\(lost.count) lost, \(counts.values.reduce(0) { $0 + $1 - 1 }) processed again"
            )
            #expect(lost.isEmpty)
        }
        #expect(lives.0.kills == kills && lives.1.kills == kills)
        left.remove()
        right.remove()
    }

    @Test(
        "Killed processes lose no message that is acknowledged after processing, in sessions",
        arguments: ["tcp", "ws"]
    )
    func sessions(transport: String) async throws {
        let port = try ReservedPort(isDatagram: false)
        let url = "\(transport)://127.0.0.1:\(port.port)"
        try await converse(("server", url), ("client", url))
        withExtendedLifetime(port) {}
    }

    @Test("Killed processes lose no message that is acknowledged after processing, over MQTT", arguments: 1...2)
    func broker(qos: Int) async throws {
        var limits = BrokerLimits()
        limits.queuedMessages = 1 << 20
        limits.queuedBytes = 64 << 20
        let broker = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0", limits: limits)
        let port = try #require(broker.endpoint.port)
        func url(_ name: String, _ publish: String, _ subscribe: String) -> String {
            "mqtt://127.0.0.1:\(port)/?client-id=\(name)&publish=\(publish)&subscribe=\(subscribe)"
                + "&qos=\(qos)&clean-session=off"
        }
        // The broker keeps messages only for clients that have subscribed before.
        for (name, publish, subscribe) in [("ann", "a", "b"), ("ben", "b", "a")] {
            let connection = try await TransportRegistry.standard.connect(url(name, publish, subscribe))
            await connection.close()
        }
        try await converse(("client", url("ann", "a", "b")), ("client", url("ben", "b", "a")))
        await broker.stop()
    }
}
