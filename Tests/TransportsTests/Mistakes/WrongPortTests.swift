import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Every transport's client at the port of every other transport's server, and at servers of TLS.
@Suite("Clients at the port of another protocol", .timeLimit(.minutes(5)), .ownThread)
struct WrongPortTests {
    private static let names = ["tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp", "udp", "memory"]

    /// The server, and where others try to reach it. The port is one that no server of the other kind of socket has.
    private struct Served {
        var server: EmbeddedServer?
        var port: UInt16
        var others: ReservedPort
    }

    private func serve(_ name: String) async throws -> Served {
        guard name != "memory" else {
            let port = try ReservedPort(isDatagram: false)
            return Served(server: nil, port: port.port, others: port)
        }
        let isDatagram = name == "udp"
        while true {
            let others = try ReservedPort(isDatagram: !isDatagram)
            // Another process may have the port for the other kind of socket.
            guard let server = try? await EmbeddedServer.start("\(name)://127.0.0.1:\(others.port)", registry: .trial)
            else { continue }
            return Served(server: server, port: others.port, others: others)
        }
    }

    private func endpoint(_ client: String, _ port: UInt16) throws -> Endpoint {
        // No test listens there in memory.
        var endpoint = try Endpoint("\(client)://\(client == "memory" ? "localhost" : "127.0.0.1"):\(port)")
        endpoint.options = try TransportRegistry.trial.transport(named: client).loopback("wrong-port")
        return endpoint
    }

    /// The text that the error must contain, and whether the supervisor tries again.
    private func expected(_ client: String, _ server: String) -> (text: String, mustRetry: Bool) {
        switch (client, server) {
        case ("memory", _): ("connection refused: no listener at memory://", true)
        case ("udp", _): ("nothing listens on this UDP port", true)
        case (_, "udp"), (_, "memory"): ("connection refused at 127.0.0.1:", true)
        case ("stomp", "tcp"), ("stomp", "mqtt"): ("this port speaks \(server == "tcp" ? "framed TCP" : "MQTT")", false)
        case ("xmpp", "tcp"): ("this port speaks framed TCP: use tcp://", false)
        case ("xmpp", "mqtt"), ("xmpp", "stomp"): ("this port speaks \(server.uppercased()): use \(server)://", false)
        case ("mqtt", "xmpp"): ("the server speaks XMPP", false)
        case (_, "xmpp"): ("this port speaks XMPP", false)
        case ("xmpp", _): ("the server speaks HTTP", false)
        case ("tcp", "mqtt"): ("this port speaks MQTT: use mqtt://", false)
        case ("mqtt", "stomp"): ("the server speaks STOMP", false)
        case (_, "stomp"): ("this port speaks STOMP: use stomp://", false)
        case ("stomp", _), ("tcp", _), ("mqtt", "ws"), ("mqtt", "mqtt+ws"), ("mqtt", "stomp+ws"):
            ("the server speaks HTTP", false)
        case ("mqtt", _): ("the server speaks framed TCP", false)
        case (_, "mqtt+ws"): ("the server requires the subprotocol 'mqtt': use mqtt+ws://", false)
        case (_, "stomp+ws"): ("the server requires the subprotocol 'v12.stomp': use stomp+ws://", false)
        case ("mqtt+ws", "ws"), ("stomp+ws", "ws"): ("the scheme is ws://", false)
        case (_, "tcp"): ("this port speaks framed TCP: use tcp://", false)
        default: ("this port speaks MQTT: use mqtt://", false)
        }
    }

    @Test("A client gets an error that names the other protocol, and tries again only if the server can change")
    func everyPair() async throws {
        var rows: [MistakeRow] = []
        for server in Self.names {
            let served = try await serve(server)
            for client in Self.names where client != server {
                let outcome = try await MistakeOutcome.of(try endpoint(client, served.port))
                let (text, mustRetry) = expected(client, server)
                rows.append(
                    MistakeRow(
                        client: "`\(client)`",
                        server: "`\(server)`",
                        outcome: outcome,
                        expected: text,
                        mustRetry: mustRetry
                    )
                )
            }
            await served.server?.stop()
        }
        rows.sort { ($0.client, $0.server) < ($1.client, $1.server) }
        for row in rows { row.check() }
        try checkDocumented(rows)
    }

    private static let alert: [UInt8] = [0x15, 3, 3, 0, 2, 2, 70]

    @Test("A client recognizes TLS and HTTP")
    func foreignServers() async throws {
        var rows: [MistakeRow] = []
        let badRequest = Array("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
        for (server, answer) in [("TLS", Self.alert), ("HTTP", badRequest)] {
            let raw = try AnsweringServer(answer)
            defer { raw.stop() }
            for client in ["tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp"] {
                let isHTTP = client.hasSuffix("ws")
                let expected =
                    switch server {
                    case "TLS": "the server speaks TLS"
                    default: isHTTP ? "the server did not switch protocols: HTTP 400" : "the server speaks HTTP"
                    }
                rows.append(
                    MistakeRow(
                        client: "`\(client)`",
                        server: server,
                        outcome: try await .of(try endpoint(client, raw.port)),
                        expected: expected,
                        mustRetry: false
                    )
                )
            }
        }
        for row in rows { row.check() }
        try checkDocumented(rows)
    }

    /// The streams, each with the scheme of the same protocol with the other encryption.
    private static let streams = [
        ("tcp", "tls"), ("ws", "wss"), ("mqtt", "mqtts"), ("mqtt+ws", "mqtt+wss"), ("tls", "tcp"), ("wss", "ws"),
        ("mqtts", "mqtt"), ("mqtt+wss", "mqtt+ws"), ("stomp", "stomp+tls"), ("stomp+ws", "stomp+wss"),
        ("stomp+tls", "stomp"), ("stomp+wss", "stomp+ws"), ("xmpp", "xmpps"), ("xmpps", "xmpp"),
    ]

    @Test("After a reset, a client gets the same hint as after a close, and tries again", .enabled(if: hasOpenSSL))
    func withoutAnswer() async throws {
        var rows: [MistakeRow] = []
        for (server, resets) in [("closes at once", false), ("resets the connection", true)] {
            let raw = try AnsweringServer([], resets: resets)
            defer { raw.stop() }
            for (client, other) in Self.streams {
                let isEncrypted = try TransportRegistry.trial.transport(named: client).isEncrypted
                rows.append(
                    MistakeRow(
                        client: "`\(client)`",
                        server: server,
                        outcome: try await .of(try endpoint(client, raw.port)),
                        expected: "before the server sent anything: it may expect \(isEncrypted ? "no " : "")TLS "
                            + "(\(other)://) or another protocol at this port, so compare the scheme and the port",
                        mustRetry: true
                    )
                )
            }
        }
        for row in rows { row.check() }
        try checkDocumented(rows)
    }

    @Test(
        "Where one side or both are encrypted, the error names the right scheme, or what to compare",
        .enabled(if: hasOpenSSL)
    )
    func encryptedPairs() async throws {
        var rows: [MistakeRow] = []
        for (server, _) in Self.streams {
            let running = try await EmbeddedServer.start("\(server)://127.0.0.1:0", registry: .trial)
            let port = try #require(running.endpoint.port)
            let isEncrypted = try TransportRegistry.trial.transport(named: server).isEncrypted
            for (client, encrypted) in Self.streams where client != server {
                let outcome = try await MistakeOutcome.of(try endpoint(client, port))
                // The pairs of plain schemes have a table of their own.
                guard try isEncrypted || TransportRegistry.trial.transport(named: client).isEncrypted else { continue }
                // A plain client learns that the server speaks TLS, but not which protocol is inside, and the reverse.
                let isSameSide = try isEncrypted == TransportRegistry.trial.transport(named: client).isEncrypted
                // HTTP can be a WebSocket server with or without another protocol inside.
                let schemes = isSameSide ? [server, server.hasSuffix("wss") ? "wss" : server] : [encrypted]
                rows.append(
                    MistakeRow(
                        client: "`\(client)`",
                        server: "`\(server)`",
                        outcome: outcome,
                        expected: "",
                        mustRetry: outcome.error.isRetryable
                    )
                )
                let text = "\(outcome.error)"
                #expect(
                    schemes.contains { text.contains("\($0)://") } || text.contains("the URL's plain scheme"),
                    "\(client) at \(server): \(text)"
                )
            }
            await running.stop()
        }
        rows.sort { ($0.client, $0.server) < ($1.client, $1.server) }
        print("| client | server | error | supervisor |\n|---|---|---|---|")
        for row in rows { print(row.markdown) }
    }

    @Test("A client over UDP recognizes a server that returns its datagrams")
    func datagramEcho() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0?plain=on")
        var endpoint = server.endpoint
        endpoint.options = []
        let row = MistakeRow(
            client: "`udp`",
            server: "`udp` with `plain=on`",
            outcome: try await .of(endpoint),
            expected: "set plain=on",
            mustRetry: false
        )
        row.check()
        try checkDocumented([row])
        await server.stop()
    }

    @Test("Over UDP, only one side is encrypted, and the error names the scheme to use", .enabled(if: hasOpenSSL))
    func datagramEncryption() async throws {
        var rows: [MistakeRow] = []
        for (client, server, expected) in [("udp", "dtls", "use dtls://"), ("dtls", "udp", "use udp://")] {
            let running = try await EmbeddedServer.start("\(server)://127.0.0.1:0", registry: .trial)
            var endpoint = running.endpoint
            endpoint.scheme = client
            let row = MistakeRow(
                client: "`\(client)`",
                server: "`\(server)`",
                outcome: try await .of(endpoint),
                expected: expected,
                mustRetry: true
            )
            row.check()
            rows.append(row)
            await running.stop()
        }
        try checkDocumented(rows)
    }
}

/// Servers that take the connection and send nothing.
@Suite("Clients at the port of a server that sends nothing", .timeLimit(.minutes(5)), .ownThread)
struct SilentPortTests {
    @Test(
        "A client gets an error that names the possible mistake, and tries again",
        arguments: ["ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp"]
    )
    func silent(name: String) async throws {
        let raw = try RawServer(.silent)
        var endpoint = try Endpoint("\(name)://127.0.0.1:\(raw.port)")
        endpoint.options = try TransportRegistry.trial.transport(named: name).loopback("silent")
        let outcome = try await MistakeOutcome.of(endpoint, within: .seconds(5))
        #expect(
            outcome.isRetried && outcome.error.code == .timedOut && outcome.error.reason.contains("another protocol")
        )
        raw.stop()
    }
}

/// Clients of other protocols, as a server's observer sees them.
@Suite("Servers with a client of another protocol", .timeLimit(.minutes(5)), .ownThread)
struct ForeignClientTests {
    /// The record of a ClientHello, in part.
    private static let clientHello: [UInt8] =
        [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3] + [UInt8](repeating: 7, count: 60)

    @Test(
        "A server reports a client that speaks TLS, and answers with an alert",
        arguments: ["tcp", "ws", "mqtt", "mqtt+ws", "stomp", "stomp+ws", "xmpp"]
    )
    func tls(name: String) async throws {
        let events = ServerEvents()
        let server = try await EmbeddedServer.start(
            "\(name)://127.0.0.1:0",
            registry: .trial,
            observer: events.observer
        )
        #expect(try answer(of: server.endpoint.port, to: Self.clientHello).starts(with: [0x15, 3, 1]))
        let error = try #require(try await events.first().reason.error)
        #expect(error.code == .handshakeFailed)
        #expect(error.reason == "the client speaks TLS; this listener is plain: use \(name)://")
        await server.stop()
    }

    @Test(
        "A server reports a client that speaks HTTP, and answers with HTTP",
        arguments: ["tcp", "mqtt", "stomp", "xmpp"]
    )
    func http(name: String) async throws {
        let events = ServerEvents()
        let server = try await EmbeddedServer.start(
            "\(name)://127.0.0.1:0",
            registry: .trial,
            observer: events.observer
        )
        let request = Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        let response = String(decoding: try answer(of: server.endpoint.port, to: request), as: UTF8.self)
        #expect(response.hasPrefix("HTTP/1.1 400 this port speaks ") && response.hasSuffix("use \(name)://\n"))
        let error = try #require(try await events.first().reason.error)
        #expect(error.code == .handshakeFailed && error.reason.contains("speaks HTTP"))
        #expect(error.reason.hasSuffix("use \(name)://"))
        await server.stop()
    }

    @Test("A server reports a datagram that is not of its protocol")
    func datagram() async throws {
        let events = ServerEvents()
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", observer: events.observer)
        let client = try RawDatagramClient(port: server.endpoint.port)
        client.send(Array("hello".utf8))
        let error = try #require(try await events.first().reason.error)
        #expect(error.code == .protocolViolation && error.reason.contains("plain=on"))
        await server.stop()
    }
}
