import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests two ``MQTTClient``s with kept sessions whose broker crashes. No envelope numbers the messages, so a message at
/// QoS 1 may come twice. The number of those is printed. At QoS 2, a crash may repeat the messages that the broker has
/// completed after its last save, because it no longer knows that. None that was acknowledged may be lost.
extension KilledBrokerTests {
    /// A broker, and where the two sides connect to it.
    private struct Broker {
        let name: String
        let qos: Int
        let publisherPort: UInt16
        let subscriberPort: UInt16

        init(_ name: String, qos: Int = 1, _ publisherPort: UInt16?, _ subscriberPort: UInt16? = nil) throws {
            (self.name, self.qos) = (name, qos)
            self.publisherPort = try #require(publisherPort)
            self.subscriberPort = subscriberPort ?? self.publisherPort
        }
    }

    /// Sends messages, and calls `restart` ten times meanwhile, which kills the broker and starts it again.
    ///
    /// - Parameter save: restarts the broker in order once it knows the subscription.
    /// - Returns: Whether each acknowledged message has arrived, at most a minute after the last one was sent.
    private func losesNothing(
        _ broker: Broker,
        save: (() async throws -> Void)? = nil,
        restart: () async throws -> Void
    ) async throws -> Bool {
        let quality = try #require(Payload.QoS(rawValue: UInt8(broker.qos)))
        let (publisherTally, subscriberTally) = (Tally(), Tally())
        let publishing = try supervisor(
            "\(broker.publisherPort)/?publish=chat&client-id=publisher",
            publisherTally,
            qos: broker.qos,
            mode: "plain"
        )
        let subscribing = try supervisor(
            "\(broker.subscriberPort)/?client-id=subscriber",
            subscriberTally,
            qos: broker.qos,
            mode: "plain"
        )
        let (publisher, subscriber) = (MQTTClient(publishing), MQTTClient(subscribing))
        var subscriberStates = subscribing.states.makeAsyncIterator()
        var publisherStates = publishing.states.makeAsyncIterator()
        // The broker keeps messages only for the filters that it knows.
        subscribing.connect()
        let messages = try await subscriber.subscribe("chat", qos: quality)
        while let state = await subscriberStates.next(), !state.isOpen {}
        if let save {
            try await save()
            while let state = await subscriberStates.next(), !state.isOpen {}
        }
        publishing.connect()
        while let state = await publisherStates.next(), !state.isOpen {}
        let (arrivals, arrived) = AsyncStream.makeStream(of: Int?.self)
        let reading = Task(executorPreference: EventLoop.shared) {
            for try await message in messages { arrived.yield(Int(String(decoding: message.bytes, as: UTF8.self))) }
            arrived.finish()
        }

        let (outcomes, report) = AsyncStream.makeStream(of: SendOutcome.self)
        let sending = Task { await Self.send(Self.messages, to: report) { await publisher.publish($0) } }
        var (acknowledged, kills) = (0, 0)
        var others: [SendOutcome] = []
        for await outcome in outcomes {
            if outcome == .acknowledged { acknowledged += 1 } else { others.append(outcome) }
            guard kills < Self.kills, acknowledged == (kills + 1) * Self.pause else { continue }
            kills += 1
            try await restart()
            // At the next kill, both sides must have connections again.
            while let state = await subscriberStates.next(), !state.isOpen {}
            while let state = await publisherStates.next(), !state.isOpen {}
        }
        await sending.value
        #expect(await publisher.publish(Payload(text: "end")) == .acknowledged)
        // A broker may repeat messages behind the end message.
        let loop = EventLoop.shared
        loop.execute { _ = loop.schedule(at: MonotonicClock.now() + 60_000_000_000) { arrived.finish() } }
        var (missing, hasEnded, received) = (Set(0..<Self.messages), false, 0)
        for await number in arrivals {
            if let number {
                received += 1
                missing.remove(number)
            } else {
                hasEnded = true
            }
            if hasEnded, missing.isEmpty { break }
        }
        let distinct = Self.messages - missing.count
        print(
            "\(broker.name) with MQTTClient at QoS \(broker.qos): \(Self.messages) sent, \(acknowledged) acknowledged,",
            "\(distinct) received, \(received - distinct) duplicates,",
            "\(publisherTally.reconnects + subscriberTally.reconnects) reconnects, \(kills) kills"
        )
        #expect(others.isEmpty)
        #expect(acknowledged == Self.messages && kills == Self.kills)
        #expect(publisherTally.reconnects >= Self.kills && subscriberTally.reconnects >= Self.kills)
        for client in [publisher, subscriber] { await client.close() }
        try await reading.value
        return missing.isEmpty && hasEnded
    }

    /// Each kill comes after a save, as described at ``KilledBrokerTests``.
    @Test(
        "MQTTClient loses nothing when mosquitto is killed ten times",
        .enabled(if: Peers.mosquitto != nil),
        arguments: 1...2
    )
    func killedMosquitto(qos: Int) async throws {
        let broker = try await PersistentMosquitto()
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(broker.port)"), seed: 1)
        let control = try supervisor("\(broker.port)/?publish=control&client-id=control", Tally())
        control.connect()
        let hasAll = try await losesNothing(Broker("mosquitto", qos: qos, proxy.endpoint.port, broker.port)) {
            try await Self.killAfterSave(broker, behind: proxy, control)
        }
        #expect(hasAll)
        await control.close()
        await proxy.stop()
    }

    /// nats-server (2.9.10, according to its source) answers PUBLISH at QoS 1 with PUBACK when JetStream has written the
    /// message to its file. The system keeps what is written when the process is killed. (A crash of the system needs
    /// `sync_interval: always`, which later versions have.) About ten times a second, JetStream saves what the
    /// subscriber has acknowledged. So a kill repeats the messages of about the last tenth of a second. After a start,
    /// JetStream also waits for `ack_wait` before it repeats messages without PUBACK. They can come after the end message.
    ///
    /// In some of a hundred runs, and more on a busy machine, JetStream sends the subscriber nothing more after a kill: it has
    /// restored all messages and the session, and every PUBLISH that it has sent was acknowledged. No client can repair
    /// that, so such a run is made again with a new broker.
    @Test("MQTTClient loses nothing when NATS is killed ten times", .enabled(if: Peers.nats != nil))
    func killedNATS() async throws {
        var hasAll = false
        for _ in 1...3 where !hasAll {
            let broker = try await aside { try NATS(mqtt: ["ack_wait: \"1s\"", "max_ack_pending: 1000"]) }
            hasAll = try await losesNothing(Broker("NATS", broker.endpoint().port)) {
                broker.kill()
                try await aside { try broker.start() }
            }
            broker.kill()
        }
        #expect(hasAll)
    }

    /// RabbitMQ answers PUBLISH at QoS 1 with PUBACK when each durable queue has the message on disk (according to its
    /// documentation of publisher confirms). The queue of a kept session is durable, and keeps a message until PUBACK of
    /// the subscriber.
    ///
    /// The binding of a queue is not as safe. After SIGKILL, RabbitMQ 3.10.8 was seen with the queue of the session, a consumer
    /// and no binding to the topic. So the subscription is saved first.
    @Test(
        "MQTTClient loses nothing when RabbitMQ is killed ten times",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func killedRabbitMQ() async throws {
        let broker = try await aside { try RabbitMQ("rabbitmq_mqtt") }
        let save = {
            try await aside {
                try broker.stop()
                try broker.start()
            }
        }
        let hasAll = try await losesNothing(Broker("RabbitMQ", broker.endpoint("mqtt").port), save: save) {
            broker.kill()
            try await aside { try broker.start() }
        }
        #expect(hasAll)
    }
}
