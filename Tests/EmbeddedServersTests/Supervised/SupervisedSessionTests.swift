import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests an MQTT session of a supervisor.
@Suite("A supervised MQTT session", .timeLimit(.minutes(5)), .ownThread)
struct SupervisedSessionTests {
    @Test(
        "The next connection completes the messages of a cut connection, and at QoS 2 they arrive once",
        arguments: 1...2
    )
    func handedOn(qos: Int) async throws {
        let server = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let port = try #require(server.endpoint.port)
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let reader = try await TransportRegistry.standard.connect("mqtt://127.0.0.1:\(port)/?subscribe=t&qos=\(qos)")
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(proxied)/?publish=t&client-id=ann&clean-session=off&qos=\(qos)"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let publisher = try Supervisor(TransportConfiguration(json: file.utf8))
        var states = publisher.states.makeAsyncIterator()
        publisher.connect()
        while let state = await states.next(), !state.isOpen {}

        await proxy.set(PathFaults(blackHoleToClient: true))
        let sends = (0..<10).map { number in
            Task(executorPreference: EventLoop.shared) { await publisher.send(Payload(text: "\(number)")) }
        }
        // The broker's first answer and all later ones are lost.
        await proxy.wait { $0.bufferedBytes > 0 }
        await proxy.cut(.reset)
        await proxy.set(.none)
        for send in sends {
            if case .rejected(let error) = await send.value { Issue.record(error) }
        }
        while await publisher.send(Payload(text: "end")) != .acknowledged, !Task.isCancelled {}

        var numbers: [Int] = []
        while let message = try await reader.receive(), let number = Int(String(decoding: message.bytes, as: UTF8.self))
        {
            numbers.append(number)
        }
        #expect(Set(numbers) == Set(0..<10))
        #expect(qos == 1 || numbers.count == 10)
        await publisher.close()
        await reader.close()
        await proxy.stop()
        await server.stop()
    }
}
