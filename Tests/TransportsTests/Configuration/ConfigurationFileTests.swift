import EmbeddedServers
import Foundation
import Protocols
import SocketIO
import Testing
import TransportAPI

@testable import Transports

@Suite("Configuration files")
struct ConfigurationFileTests {
    @Test("A complete file sets every value")
    func complete() throws {
        let configuration = try configuration(completeFile)
        var supervisor = SupervisorConfiguration()
        supervisor.connectTimeout = .seconds(5)
        supervisor.stableAfter = .seconds(60)
        supervisor.maximumAttempts = 8
        supervisor.maximumElapsed = .seconds(600)
        supervisor.backoff = .exponential(
            initial: .milliseconds(250),
            maximum: .seconds(30),
            multiplier: 1.5,
            jitter: .equal
        )
        supervisor.keepalive.interval = .seconds(240)
        supervisor.keepalive.timeout = .seconds(15)
        supervisor.keepalive.isIdleOnly = false
        supervisor.keepalive.probe = .payload(Payload(text: "heart"), answer: Payload(text: "heart-ack"))
        var adaptive = AdaptiveKeepaliveConfiguration()
        adaptive.minimum = .seconds(60)
        adaptive.maximum = .seconds(1200)
        adaptive.resolution = .seconds(30)
        supervisor.keepalive.adaptive = adaptive
        supervisor.outbox.maximumCount = 50
        supervisor.outbox.maximumBytes = 65_536
        supervisor.outbox.maximumAge = .seconds(3600)
        supervisor.outbox.whenFull = .dropOldest
        supervisor.outbox.store = StoreLocation(.file, path: "a b/c", sync: .interval(.seconds(5)))
        supervisor.messageBuffer = 64
        supervisor.delivery.window = 16
        let expected = TransportConfiguration(
            endpoints: [try Endpoint("ws://chat.example/socket"), try Endpoint("tcp://chat.example:7000?framing=u16")],
            codec: .protobuf,
            headers: [try HTTPHeader("Authorization", "Bearer x"), try HTTPHeader("X-Client", "cafe \"1\"")],
            greeting: ["login ann", "{\"join\": 7}\0"],
            supervisor: supervisor
        )
        #expect(configuration == expected)
    }

    @Test(
        "A missing key has its default",
        arguments: [
            "\"codec\": \"json\"", "\"backoff\": {}", "\"keepalive\": {}", "\"outbox\": {}", "\"delivery\": {}",
            "\"headers\": {}", "\"keepalive\": {\"adaptive\": false}", "\"maximum-attempts\": null",
            "\"maximum-elapsed\": null", "\"backoff\": {\"policy\": \"exponential\"}",
        ]
    )
    func defaults(keys: String) throws {
        let expected = TransportConfiguration(endpoints: [try Endpoint("tcp://host")])
        #expect(try configuration(with: keys) == expected)
        #expect(expected.codec == .json && expected.headers.isEmpty && expected.greeting.isEmpty)
        #expect(expected.supervisor == SupervisorConfiguration())
    }

    @Test(
        "Each backoff policy has its keys",
        arguments: [
            (#"{"policy": "fixed", "delay": "5s"}"#, .fixed(.seconds(5))),
            (#"{"policy": "immediate"}"#, .immediate),
            (
                #"{"gives-up": true, "delays": ["0s", "2s", "10s", "30s"], "policy": "schedule"}"#,
                .schedule([.zero, .seconds(2), .seconds(10), .seconds(30)], givesUp: true)
            ),
            (#"{"policy": "schedule", "delays": ["1h"]}"#, .schedule([.seconds(3600)], givesUp: false)),
            (
                #"{"multiplier": 3}"#,
                .exponential(initial: .milliseconds(500), maximum: .seconds(20), multiplier: 3, jitter: .full)
            ),
        ] as [(String, BackoffPolicy)]
    )
    func policies(json: String, policy: BackoffPolicy) throws {
        #expect(try configuration(with: "\"backoff\": \(json)").supervisor.backoff == policy)
    }

    @Test("Keepalive and age can be off, and adaptive keepalive can be on")
    func offAndOn() throws {
        let off = try configuration(with: #""keepalive": {"interval": "off"}, "outbox": {"age": "off"}"#).supervisor
        #expect(off.keepalive.interval == .off && off.outbox.maximumAge == nil)
        let fitting = try configuration(with: #""keepalive": {"interval": "automatic"}"#).supervisor
        #expect(fitting.keepalive.interval == .automatic && fitting == SupervisorConfiguration())
        let on = try configuration(with: #""keepalive": {"adaptive": true, "payload": "heart"}"#).supervisor
        #expect(on.keepalive.adaptive == AdaptiveKeepaliveConfiguration())
        #expect(on.keepalive.probe == .payload(Payload(text: "heart"), answer: nil))
    }

    @Test(
        "Whole numbers may have any form that JSON allows, and the bounds are allowed",
        arguments: [("1", 1), ("1024", 1024), ("64.0", 64), ("1e3", 1000), ("0.5e1", 5), ("1.0E+2", 100)]
    )
    func numbers(text: String, number: Int) throws {
        #expect(try configuration(with: "\"delivery\": {\"window\": \(text)}").supervisor.delivery.window == number)
    }

    @Test("The transports are those of the endpoints, and their descriptions show no header")
    func transports() throws {
        let configuration = try configuration(completeFile)
        #expect(try configuration.transports().map(\.endpoint) == configuration.endpoints)
        #expect(throws: TransportError.self) { try TransportConfiguration(endpoints: []).transports() }
    }

    @Test("WebSocket sends the headers, and other transports work beside it", .timeLimit(.minutes(5)))
    func headers() async throws {
        let seen = Locked<[String?]>([])
        let servers = [
            try await EmbeddedServer.start(
                "ws://127.0.0.1:0",
                decide: { request in
                    seen.withLock { $0.append(request.header("Authorization")) }
                    return .accept
                }
            ),
            try await EmbeddedServer.start("tcp://127.0.0.1:0"),
        ]
        let header = try HTTPHeader("Authorization", "Bearer x")
        let configuration = TransportConfiguration(endpoints: servers.map(\.endpoint), headers: [header])
        for transport in try configuration.transports() {
            #expect(transport.endpoint.options.isEmpty)
            let connection = try await transport.connect(timeout: .seconds(10))
            #expect(await connection.send(Payload(text: "hello")).isSuccess)
            #expect(try await connection.receive()?.bytes == Array("hello".utf8))
            await connection.close()
        }
        #expect(seen.withLock { $0 } == ["Bearer x"])
        for server in servers { await server.stop() }
    }

    @Test("Neither printing nor dumping shows the value of a header")
    func reflection() throws {
        var text = ""
        dump(try configuration(completeFile), to: &text)
        text += "\(try configuration(completeFile))"
        #expect(text.contains("Authorization") && !text.contains("Bearer"))
    }

    @Test("The documentation shows a file that works, and its table of keys is correct")
    func documentation() throws {
        let root = URL(fileURLWithPath: #filePath).pathComponents.dropLast(4).joined(separator: "/")
        let text = try String(contentsOfFile: "\(root)/Docs/reference/configuration.md", encoding: .utf8)
        let blocks = text.components(separatedBy: "```")
        let example = try #require(blocks.first { $0.hasPrefix("json\n") }).dropFirst(5)
        #expect(try configuration(String(example)).endpoints.count == 2)
        let table = try #require(blocks.first { $0.hasPrefix("text\nkey ") }).dropFirst(5)
        #expect(String(table) == TransportConfiguration.keyReference)
    }

    @Test(
        "A store has a kind, a path and perhaps its syncs",
        arguments: [
            ("sqlite:chat.db", StoreLocation(.sqlite, path: "chat.db")),
            ("file:/tmp/a?b?sync=always", StoreLocation(.file, path: "/tmp/a?b", sync: .always)),
            ("file:a?sync=none", StoreLocation(.file, path: "a", sync: .none)),
            ("file:a:b?sync=100ms", StoreLocation(.file, path: "a:b", sync: .interval(.milliseconds(100)))),
        ]
    )
    func store(text: String, location: StoreLocation) throws {
        #expect(try SettingFormat.store.read(text, key: "store") == location)
        #expect(SettingFormat.store.text(location) == text)
    }

    @Test(
        "A store without a path, of an unknown kind or with a wrong sync is refused",
        arguments: [
            "", "file", "file:", "database:a", "file:a?sync=", "file:a?sync=sometimes", "file:a?sync=0s", "file:a\0b",
            "sqlite:?sync=always",
        ]
    )
    func refusedStore(text: String) {
        #expect(throws: TransportError.self) { _ = try SettingFormat.store.read(text, key: "store") }
    }
}
