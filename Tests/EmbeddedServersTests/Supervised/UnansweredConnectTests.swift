import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@Suite("A broker whose answer to CONNECT is lost", .timeLimit(.minutes(5)), .ownThread)
struct UnansweredConnectTests {
    /// The broker restarts without its sessions. It answers the next CONNECT with an empty session, but the answer does
    /// not arrive. The CONNECT after that continues the empty session.
    @Test("A client subscribes again if an unanswered CONNECT may have begun the session that the broker continues")
    func subscribesAgain() async throws {
        let first = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0")
        let port = try #require(first.endpoint.port)
        let proxy = try await FaultProxy.start(to: first.endpoint, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(proxied)/?client-id=ann&clean-session=off&qos=1"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        var states = supervisor.states.makeAsyncIterator()
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var messages = try await client.subscribe("rooms/+").makeAsyncIterator()
        while let state = await states.next(), !state.isOpen {}

        await first.stop()
        await proxy.set(PathFaults(blackHoleToClient: true))
        let second = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:\(port)")
        // CONNACK.
        await proxy.wait { $0.bufferedBytes > 0 }
        await proxy.cut(.reset)
        await proxy.set(.none)
        while let state = await states.next(), !state.isOpen {}

        // SUBSCRIBE leaves before this message.
        #expect(await client.publish(Payload(text: "hello", topic: "rooms/lunch")) == .acknowledged)
        #expect(try await messages.next()?.bytes == Array("hello".utf8))
        await client.close()
        await proxy.stop()
        await second.stop()
    }

    /// The broker restarts without its sessions, and answers the next CONNECT with an empty one. That attempt fails after
    /// CONNACK, so the subscriptions are not made on it. The next CONNECT continues the empty session.
    @Test(
        "A client subscribes again if an attempt that failed after CONNACK has begun the session that the broker continues"
    )
    func subscribesAfterFailedAttempt() async throws {
        let first = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:0")
        let port = try #require(first.endpoint.port)
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(port)/?client-id=ann&clean-session=off&qos=1"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let attempts = Locked(0)
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8)) {
            $0.greeting = { _, _ in
                let number = attempts.withLock {
                    $0 += 1
                    return $0
                }
                if number == 2 { throw TransportError(.serverUnavailable, .handshake, "not now") }
            }
        }
        var states = supervisor.states.makeAsyncIterator()
        let client = MQTTClient(supervisor)
        supervisor.connect()
        var messages = try await client.subscribe("rooms/+").makeAsyncIterator()
        while let state = await states.next(), !state.isOpen {}

        await first.stop()
        let second = try await EmbeddedServer.startBroker("mqtt://127.0.0.1:\(port)")
        while let state = await states.next(), !state.isOpen {}
        #expect(attempts.withLock { $0 } == 3)

        // SUBSCRIBE leaves before this message.
        #expect(await client.publish(Payload(text: "hello", topic: "rooms/lunch")) == .acknowledged)
        #expect(try await messages.next()?.bytes == Array("hello".utf8))
        await client.close()
        await second.stop()
    }
}
