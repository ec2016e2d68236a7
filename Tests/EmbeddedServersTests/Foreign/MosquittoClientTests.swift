import Foundation
import TestSupport
import Testing

/// Tests mosquitto's clients with the broker of `imbench serve`.
@Suite(
    "mosquitto's clients",
    .enabled(if: Peers.mosquittoPub != nil && Peers.mosquittoSub != nil),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct MosquittoClientTests {
    /// A mosquitto_sub that has subscribed.
    private struct Subscriber {
        fileprivate let peer: Peer
        /// The messages of a former session that came before the subscription.
        fileprivate var early: [String]

        /// The next `count` messages, as QoS, retain flag, topic and payload.
        mutating func messages(_ count: Int) async throws -> [String] {
            let (peer, early) = (peer, early)
            self.early = []
            return try await aside {
                var seen = early
                while seen.count < count, let line = peer.line() {
                    if line.hasPrefix("got ") { seen.append(String(line.dropFirst(4))) }
                }
                return seen
            }
        }

        /// Kills the process, as a crash would.
        func kill() async throws {
            try await aside { [peer] in peer.destroy() }
        }

        /// Interrupts the process, so that it sends DISCONNECT, and waits for its end.
        func disconnect() async throws {
            try await aside { [peer] in
                peer.signal(SIGINT)
                _ = try peer.finish()
            }
        }
    }

    private func subscribe(_ server: Serving, _ arguments: String) async throws -> Subscriber {
        // Without stdbuf, mosquitto_sub would buffer its lines until its end, because it writes to a pipe.
        let words = ["stdbuf", "-oL", try #require(Peers.mosquittoSub), "-h", "127.0.0.1", "-p", "\(server.port)"]
        return try await aside {
            let format = ["-d", "-F", "got %q %r %t %p"]
            let peer = try Peer("/usr/bin/env", words + format + arguments.split(separator: " ").map(String.init))
            var early: [String] = []
            while let line = peer.line(), !line.hasPrefix("Subscribed") {
                if line.hasPrefix("got ") { early.append(String(line.dropFirst(4))) }
            }
            return Subscriber(peer: peer, early: early)
        }
    }

    /// Runs mosquitto_pub to its end. At QoS 1 and 2 it ends when the broker has all messages.
    private func publish(_ server: Serving, _ arguments: String, lines: [String] = []) async throws {
        #expect(try await status(of: Peers.mosquittoPub, server, arguments, lines: lines) == 0)
    }

    /// Runs one of the clients to its end. Its status is the code of a CONNACK that refuses it.
    private func status(
        of program: String?,
        _ server: Serving,
        _ arguments: String,
        lines: [String] = []
    ) async throws -> Int32 {
        let words = ["-h", "127.0.0.1", "-p", "\(server.port)"] + arguments.split(separator: " ").map(String.init)
        let program = try #require(program)
        return try await aside {
            let peer = try Peer(program, words)
            for line in lines { try peer.write(line + "\n") }
            return try peer.finish()
        }
    }

    @Test("A subscriber receives each message at the lower QoS of both clients, in order", arguments: 0...2, 0...2)
    func qualities(publisher: Int, subscriber: Int) async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0")
        var reader = try await subscribe(server, "-q \(subscriber) -t chat/room")
        let texts = (0..<20).map { "message \($0)" }
        try await publish(server, "-q \(publisher) -t chat/room -l", lines: texts)
        let lower = min(publisher, subscriber)
        #expect(try await reader.messages(20) == texts.map { "\(lower) 0 chat/room \($0)" })
    }

    @Test("A subscriber receives a retained message until it is deleted", arguments: 0...2)
    func retained(qos: Int) async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0")
        var early = try await subscribe(server, "-q 2 -t room/#")
        try await publish(server, "-q \(qos) -r -t room/a -m old")
        try await publish(server, "-q \(qos) -r -t room/a -m kept")
        #expect(try await early.messages(2) == ["\(qos) 0 room/a old", "\(qos) 0 room/a kept"])
        var late = try await subscribe(server, "-q 2 -t room/+")
        #expect(try await late.messages(1) == ["\(qos) 1 room/a kept"])
        try await publish(server, "-q \(qos) -r -t room/a -n")
        #expect(try await late.messages(1) == ["\(qos) 0 room/a "])
        var later = try await subscribe(server, "-q 2 -t room/#")
        try await publish(server, "-q 1 -t room/b -m plain")
        #expect(try await later.messages(1) == ["1 0 room/b plain"])
    }

    @Test("A killed client's will is published, and a client that disconnects leaves none", arguments: 0...2)
    func wills(qos: Int) async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0")
        var watcher = try await subscribe(server, "-q 2 -t gone/#")
        func member(_ name: String) async throws -> Subscriber {
            let will = "--will-topic gone/\(name) --will-payload \(name) --will-qos \(qos) --will-retain"
            return try await subscribe(server, "-t room \(will)")
        }
        let (disconnected, killed) = (try await member("ann"), try await member("ben"))
        try await disconnected.disconnect()
        try await killed.kill()
        #expect(try await watcher.messages(1) == ["\(qos) 0 gone/ben ben"])
        var late = try await subscribe(server, "-q 2 -t gone/#")
        #expect(try await late.messages(1) == ["\(qos) 1 gone/ben ben"])
    }

    @Test("A subscriber receives the messages that match its wildcards, and no others")
    func wildcards() async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0")
        var reader = try await subscribe(server, "-q 1 -t +/b -t x/# -t /+/c")
        var all = try await subscribe(server, "-q 1 -t #")
        let topics = ["a/b", "a/b/c", "/b", "b", "x", "xy", "x/y/z", "x/", "/a/c", "a/a/c", "end/b"]
        for topic in topics { try await publish(server, "-q 1 -t \(topic) -m m") }
        let matching = ["a/b", "/b", "x", "x/y/z", "x/", "/a/c", "end/b"]
        #expect(try await reader.messages(matching.count) == matching.map { "1 0 \($0) m" })
        #expect(try await all.messages(topics.count) == topics.map { "1 0 \($0) m" })
    }

    @Test("A client receives the messages that came while it was away, and keeps its subscriptions", arguments: 1...2)
    func persistent(qos: Int) async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0")
        let before = try await subscribe(server, "-c -i bob -q \(qos) -t room")
        try await before.kill()
        let texts = (0..<20).map { "message \($0)" }
        try await publish(server, "-q \(qos) -t room -l", lines: texts)
        var back = try await subscribe(server, "-c -i bob -q \(qos) -t other")
        #expect(try await back.messages(20) == texts.map { "\(qos) 0 room \($0)" })
        try await publish(server, "-q \(qos) -t room -m live")
        #expect(try await back.messages(1) == ["\(qos) 0 room live"])
    }

    @Test("A broker with users accepts a client only with its password")
    func users() async throws {
        let server = try await Serving.start("mqtt://127.0.0.1:0", "--user", "ann:secret", "--user", "ben:a:b")
        var reader = try await subscribe(server, "-q 1 -t room -u ben -P a:b")
        try await publish(server, "-q 1 -t room -m right -u ann -P secret")
        for wrong in ["-u ann -P wrong", "-u ann -P a:b", "-u ben -P a", "-u cid -P secret", "-u ann", ""] {
            // MQTT 3.1.1, table 3.1: 4 is a bad user name or password.
            #expect(try await status(of: Peers.mosquittoPub, server, "-q 1 -t room -m wrong \(wrong)") == 4)
            #expect(try await status(of: Peers.mosquittoSub, server, "-q 1 -t room \(wrong)") == 4)
        }
        try await publish(server, "-q 1 -t room -m end -u ben -P a:b")
        #expect(try await reader.messages(2) == ["1 0 room right", "1 0 room end"])
    }
}
