import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests messages beyond `max-message` in a kept session, which the broker would otherwise send again without end.
@Suite("Messages too large for a kept MQTT session", .timeLimit(.minutes(5)), .ownThread)
struct KeptOversizedTests {
    /// Passes on the discarded messages, and the errors that ended connections.
    private struct Observer: SupervisorObserver {
        let discarded: AsyncStream<DiscardedMessage>.Continuation
        let ended: AsyncStream<TransportError.Code?>.Continuation

        func note(_ note: SupervisorEvent, at time: Instant) {
            switch note {
            case .discarded(let message): discarded.yield(message)
            case .connectionEnded(_, let reason): ended.yield(reason.error?.code)
            default: break
            }
        }
    }

    @Test(
        "A message that is too large ends one connection and is then discarded, and later messages arrive",
        arguments: ["mqtt", "mqtt+ws"],
        [1, 2]
    )
    func embedded(scheme: String, qos: Int) async throws {
        let server = try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0")
        try await check("\(scheme)://127.0.0.1:\(try #require(server.endpoint.port))", qos)
        await server.stop()
    }

    @Test(
        "A message from mosquitto that is too large ends one connection and is then discarded",
        .enabled(if: Peers.mosquitto != nil),
        arguments: ["mqtt", "mqtt+ws"],
        [1, 2]
    )
    func mosquitto(scheme: String, qos: Int) async throws {
        let broker = try await PersistentMosquitto()
        try await check("\(scheme)://127.0.0.1:\(scheme == "mqtt" ? broker.port : broker.webSocketPort)", qos)
    }

    private func check(_ broker: String, _ qos: Int) async throws {
        let (discarded, discards) = AsyncStream.makeStream(of: DiscardedMessage.self)
        let (ended, ends) = AsyncStream.makeStream(of: TransportError.Code?.self)
        let url = "\(broker)/?qos=\(qos)&subscribe=t&client-id=ann&clean-session=off&max-message=1000"
        var configuration = SupervisorConfiguration()
        configuration.backoff = .fixed(.milliseconds(20))
        let whole = TransportConfiguration(endpoints: [try Endpoint(url)], supervisor: configuration)
        let supervisor = try Supervisor(whole) { $0.observer = Observer(discarded: discards, ended: ends) }
        var states = supervisor.states.makeAsyncIterator()
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}
        // The first message goes to a connected client, and the second to one that was away.
        for size in [5000, 200_000] {
            let publisher = try await TransportRegistry.standard.connect("\(broker)/?qos=\(qos)")
            #expect(await publisher.send(Payload(longBytes(size), topic: "t")) == .acknowledged)
            #expect(await publisher.send(Payload(text: "\(size)", topic: "t")) == .acknowledged)
            await publisher.close()
            if size > 5000 { supervisor.resume() }
            #expect(await messages.next()?.bytes == Array("\(size)".utf8))
            var reports = discarded.makeAsyncIterator()
            #expect(await reports.next() == DiscardedMessage(topic: "t", size: size))
            // The broker may have sent the second message to the connection that was just ended. Then it is a repetition, which
            // is discarded without another end.
            guard size == 5000 else { continue }
            var reasons = ended.makeAsyncIterator()
            while let code = await reasons.next(), code != .messageTooLarge {}
            supervisor.suspend()
            while let state = await states.next(), state != .suspended {}
        }
        await supervisor.close()
    }
}
