import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

/// Tests sends of a supervisor whose connection breaks before the broker's answer, in a kept session.
@Suite("Sends in a kept MQTT session", .timeLimit(.minutes(5)), .ownThread)
struct KeptSendTests {
    private static let schemes = ["mqtt", "mqtt+ws"]
    private static let kept = "client-id=ann&clean-session=off"

    @Test("A send ends as acknowledged when the next connection completes it", arguments: schemes, [1, 2])
    func completed(scheme: String, qos: Int) async throws {
        let rig = try await SubscriberRig(scheme, Self.kept, qos: qos)
        await rig.connect()
        var messages = try await rig.client.subscribe("t", qos: .exactlyOnce).makeAsyncIterator()
        let outcome = try await sendAndCut(rig.supervisor, rig.proxy)
        #expect(outcome == .acknowledged)
        // At QoS 2 the message comes once, so the next message is another one.
        if qos == 2 {
            #expect(try await messages.next()?.bytes == Array("soup".utf8))
            #expect(await rig.supervisor.send(Payload(text: "salad", topic: "t")) == .acknowledged)
            #expect(try await messages.next()?.bytes == Array("salad".utf8))
        }
        await rig.stop()
    }

    @Test(
        "A send ends as acknowledged when the next connection to mosquitto completes it",
        .enabled(if: Peers.mosquitto != nil),
        arguments: schemes,
        [1, 2]
    )
    func mosquitto(scheme: String, qos: Int) async throws {
        let broker = try await PersistentMosquitto()
        let port = scheme == "mqtt" ? broker.port : broker.webSocketPort
        let proxy = try await FaultProxy.start(to: Endpoint("\(scheme)://127.0.0.1:\(port)"), seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let supervisor = try Supervisor("\(scheme)://127.0.0.1:\(proxied)/?qos=\(qos)&\(Self.kept)")
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
        #expect(try await sendAndCut(supervisor, proxy) == .acknowledged)
        await supervisor.close()
        await proxy.stop()
    }

    /// Sends a message and cuts the connection while the broker's answer is in flight. Returns the outcome.
    private func sendAndCut(_ supervisor: Supervisor, _ proxy: FaultProxy) async throws -> SendOutcome {
        await proxy.set(PathFaults(blackHoleToClient: true))
        let sending = Task { await supervisor.send(Payload(text: "soup", topic: "t")) }
        await proxy.wait { $0.bufferedBytes > 0 }
        await proxy.cut(.reset)
        await proxy.set(.none)
        return await sending.value
    }
}
