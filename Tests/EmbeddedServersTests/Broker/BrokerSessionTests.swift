import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

/// Tests the retained messages, wills and sessions that the broker keeps.
@Suite("State of the embedded broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokerSessionTests {
    private func connect(_ server: EmbeddedServer, _ options: String) async throws -> any Connection {
        let port = try #require(server.endpoint.port)
        return try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?\(options)")
    }

    private func text(_ connection: any Connection) async throws -> String? {
        try await connection.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test("A message at QoS 2 arrives once at a subscriber, in order")
    func exactlyOnce() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let connection = try await connect(server, "publish=t&subscribe=t&qos=2")
        for number in 0..<200 { #expect(await connection.send(Payload(text: "\(number)")) == .acknowledged) }
        for number in 0..<200 { #expect(try await text(connection) == "\(number)") }
        await connection.close()
        await server.stop()
    }

    @Test(
        "A later subscriber receives the retained message, marked as such, until an empty one deletes it",
        arguments: 0...2
    )
    func retained(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let publisher = try await connect(server, "publish=a/b&qos=\(qos)")
        let early = try await connect(server, "subscribe=a/%23&qos=\(qos)")
        for word in ["old", "new"] {
            #expect(await publisher.send(Payload(Array(word.utf8), isRetained: true)).isSuccess)
            let message = try await early.receive()
            #expect(message?.content == Payload(Array(word.utf8), topic: "a/b"))
        }
        for filter in ["a/b", "a/%2B", "%23"] {
            let late = try await connect(server, "subscribe=\(filter)&qos=\(qos)")
            #expect(try await late.receive()?.content == Payload(Array("new".utf8), topic: "a/b", isRetained: true))
            await late.close()
        }
        #expect(await publisher.send(Payload([], isRetained: true)).isSuccess)
        #expect(try await early.receive()?.content == Payload([], topic: "a/b"))
        let last = try await connect(server, "subscribe=a/%23&qos=\(qos)")
        #expect(await publisher.send(Payload(text: "plain")).isSuccess)
        #expect(try await last.receive()?.isRetained == false)
        for connection in [publisher, early, last] { await connection.close() }
        await server.stop()
    }

    @Test("A wildcard at the first level does not match topics that begin with $ (MQTT-4.7.2-1)")
    func systemTopics() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let publisher = try await connect(server, "publish=%24SYS/x&qos=1")
        #expect(await publisher.send(Payload(Array("1".utf8), isRetained: true)).isSuccess)
        let all = try await connect(server, "subscribe=%23&subscribe=%2B/x")
        let own = try await connect(server, "subscribe=%24SYS/%23")
        #expect(try await text(own) == "1")
        #expect(await publisher.send(Payload(text: "2")).isSuccess)
        #expect(try await text(own) == "2")
        #expect(await publisher.send(Payload(text: "3", topic: "x")).isSuccess)
        #expect(try await text(all) == "3")
        for connection in [publisher, all, own] { await connection.close() }
        await server.stop()
    }

    private static let will = "will-topic=gone&will-message=ann&will-qos=1&will-retain=on"

    @Test("DISCONNECT deletes the will, and a cut connection publishes it, retained if CONNECT says so")
    func will() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let watcher = try await connect(server, "subscribe=gone&publish=gone&qos=1")
        let disconnected = try await connect(server, "client-id=ann&\(Self.will)")
        await disconnected.close()
        let port = try #require(proxy.endpoint.port)
        let url = "mqtt://127.0.0.1:\(port)/?client-id=ann&\(Self.will)"
        let cut = try await TransportRegistry.standard.connect(url)
        // A will of the first connection would come before this message.
        #expect(await watcher.send(Payload(text: "before")).isSuccess)
        #expect(try await text(watcher) == "before")
        await proxy.cut(.reset)
        #expect(try await text(watcher) == "ann")
        let late = try await connect(server, "subscribe=gone")
        #expect(try await late.receive()?.content == Payload(Array("ann".utf8), topic: "gone", isRetained: true))
        for connection in [watcher, late, cut] { await connection.close() }
        await proxy.stop()
        await server.stop()
    }

    @Test("A client whose identifier is taken over leaves a will")
    func willOfTakenOver() async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let watcher = try await connect(server, "subscribe=gone")
        let first = try await connect(server, "client-id=ann&\(Self.will)")
        let second = try await connect(server, "client-id=ann")
        #expect(try await text(watcher) == "ann")
        #expect(await first.closed().initiator == .peer)
        for connection in [watcher, second] { await connection.close() }
        await server.stop()
    }

    @Test(
        "A kept session receives what was published while its client was away, and a clean session ends it",
        arguments: 1...2
    )
    func away(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let name = "client-id=ann&clean-session=off&qos=\(qos)"
        let publisher = try await connect(server, "publish=t&qos=\(qos)")
        await (try await connect(server, "\(name)&subscribe=t")).close()
        for number in 0..<100 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        // The client does not subscribe again.
        let back = try await connect(server, name)
        for number in 0..<100 { #expect(try await text(back) == "\(number)") }
        await back.close()
        await (try await connect(server, "client-id=ann")).close()
        #expect(await publisher.send(Payload(text: "lost")).isSuccess)
        let fresh = try await connect(server, "\(name)&subscribe=t")
        #expect(await publisher.send(Payload(text: "first")).isSuccess)
        #expect(try await text(fresh) == "first")
        for connection in [publisher, fresh] { await connection.close() }
        await server.stop()
    }

    @Test("The queue of an absent session has limits")
    func bounded() {
        let quota = QueuedBytesQuota()
        var outbox = MQTTOutbox(maximumCount: 3, maximumBytes: 400, quota: quota)
        func message(_ size: Int) -> MQTTPublish {
            MQTTPublish(topic: "t", payload: [UInt8](repeating: 1, count: size - 65))
        }
        #expect((0..<4).map { _ in outbox.append(message(100)) } == [true, true, true, false])
        #expect(quota.bytes == 300)
        for _ in 0..<3 { outbox.removeFirst() }
        #expect(outbox.append(message(200)) && !outbox.append(message(201)))
        #expect(outbox.append(message(200)) && !outbox.append(message(65)))
        for _ in 0..<2 { outbox.removeFirst() }
        // A message larger than the limit is accepted only if it can be sent at once.
        #expect(!outbox.append(message(401)) && outbox.append(message(401), mayPass: true))
        #expect(!outbox.append(message(65)) && quota.bytes == 401)
        #expect(!outbox.replaceOldest(by: message(500)) && outbox.count == 1)
        #expect(outbox.replaceOldest(by: message(100)) && quota.bytes == 100)
        // One message waits in two queues.
        var other = MQTTOutbox(quota: quota)
        let shared = message(200)
        #expect(outbox.append(shared) && other.append(shared) && quota.bytes == 100 + 200 + 64)
        #expect(other.append(MQTTPublish(topic: "t", payload: [])) && quota.bytes == 364 + 65)
        outbox.removeAll()
        #expect(quota.bytes == 265)
        other.removeAll()
        #expect(quota.bytes == 0)
    }

    @Test("At the limit, the session that has been absent longest is discarded, and never one with a connection")
    func tooMany() throws {
        let sessions = MQTTSessions(maximumKept: 2)
        func open(_ name: String) -> (session: MQTTSession, isPresent: Bool)? {
            var connect = MQTTConnect(clientID: name)
            connect.cleanSession = false
            return sessions.open(connect, now: .zero)
        }
        let a = try #require(open("a")).session
        let b = try #require(open("b"))
        #expect(!b.isPresent && open("c") == nil)
        for session in [b.session, a] { sessions.left(session, now: .zero) }
        #expect(open("b")?.isPresent == true)
        sessions.left(b.session, now: .zero)
        #expect(open("c")?.isPresent == false)
        #expect(sessions.takeForgotten() == [a.id])
        #expect(open("b")?.isPresent == true)
        #expect(open("a") == nil)
    }

    @Test("A session expires after its time without a connection, and not earlier")
    func expiry() throws {
        let sessions = MQTTSessions(expiry: .seconds(10))
        func open(_ name: String, at seconds: Int) -> MQTTSession? {
            var connect = MQTTConnect(clientID: name)
            connect.cleanSession = false
            return sessions.open(connect, now: Instant.zero.advanced(by: .seconds(seconds)))?.session
        }
        let a = try #require(open("a", at: 0))
        let b = try #require(open("b", at: 0))
        sessions.left(a, now: .zero)
        sessions.left(b, now: .zero.advanced(by: .seconds(5)))
        #expect(open("a", at: 9) === a)
        // One client has come back, and the other session has not expired yet.
        #expect(open("x", at: 14) != nil && sessions.takeForgotten().isEmpty)
        #expect(open("b", at: 15) !== b)
        #expect(sessions.takeForgotten() == [b.id])
        sessions.left(a, now: .zero.advanced(by: .seconds(20)))
        sessions.expire(.zero.advanced(by: .seconds(30)))
        #expect(sessions.takeForgotten() == [a.id])
    }

    @Test("A broker accepts the clients that its owner accepts, and answers the others with the owner's code")
    func authentication() async throws {
        let server = try await EmbeddedServer.startBroker(
            "mqtt://127.0.0.1:0",
            authenticate: { credentials in
                guard credentials.user == "ann", credentials.peer?.hasPrefix("127.0.0.1:") == true else {
                    return .forbid
                }
                return credentials.match(user: "ann", password: "secret") ? .accept : .wrongCredentials
            }
        )
        let port = try #require(server.endpoint.port)
        for (user, number) in [("ann:wrong@", 4), ("bob:secret@", 5), ("", 5)] {
            let error = await #expect(throws: TransportError.self) {
                _ = try await TransportRegistry.standard.connect("mqtt://\(user)127.0.0.1:\(port)")
            }
            #expect(error?.detail == number)
        }
        await (try await TransportRegistry.standard.connect("mqtt://ann:secret@127.0.0.1:\(port)")).close()
        await server.stop()
    }
}
