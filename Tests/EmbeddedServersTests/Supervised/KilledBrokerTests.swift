import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// What a real broker's crashes leave of a conversation at QoS 1.
///
/// mosquitto (2.0.11, from its source) answers PUBLISH with PUBACK while it handles a round of events, and saves its database
/// at the end of the round, if at all: with `autosave_on_changes` it counts subscriptions, messages that have to wait for the
/// subscriber's window and messages that the subscriber has acknowledged, but not those that go out to the subscriber at
/// once. A crash may therefore lose what it has acknowledged last, and no client can know. What it guarantees is that the
/// database is never half written (it is renamed into its place), and that after SIGUSR1 all that it has acknowledged is saved.
///
/// So each kill here waits for such a save of all acknowledgements that have reached the publisher: first the way back to the
/// publisher is closed, with messages going on to the broker, then the broker saves, and then it is killed. Of what it took
/// since the way was closed it has acknowledged much in vain, has saved some and has lost some; the publisher must send all of
/// that again, and the subscriber must drop what it knows: that, and what it acknowledged and the broker had not read of yet.
@Suite("A broker that is killed", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct KilledBrokerTests {
    static let messages = 5000
    static let stoppedMessages = 20_000
    static let kills = 10
    /// How many acknowledgements there are from one kill to the next.
    static let pause = 450

    @Test(
        "QoS 1 loses nothing and repeats nothing when mosquitto is killed ten times",
        .enabled(if: Peers.mosquitto != nil)
    )
    func killed() async throws {
        let broker = try await PersistentMosquitto()
        let proxy = try await FaultProxy.start(to: Endpoint("mqtt://127.0.0.1:\(broker.port)"), seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let (publisherTally, subscriberTally) = (Tally(), Tally())
        let publisher = try supervisor("\(proxied)/?publish=chat&client-id=publisher", publisherTally)
        let subscriber = try supervisor("\(broker.port)/?subscribe=chat&client-id=subscriber", subscriberTally)
        let received = Self.read(subscriber.messages)
        let control = try supervisor("\(broker.port)/?publish=control&client-id=control", Tally())

        // The broker keeps messages for those it knows.
        var subscriberStates = subscriber.states.makeAsyncIterator()
        var publisherStates = publisher.states.makeAsyncIterator()
        for side in [subscriber, control] { side.connect() }
        while let state = await subscriberStates.next(), !state.isOpen {}
        publisher.connect()
        while let state = await publisherStates.next(), !state.isOpen {}

        let (outcomes, report) = AsyncStream.makeStream(of: SendOutcome.self)
        let sending = Task { await Self.send(Self.messages, over: publisher, to: report) }
        var (acknowledged, kills) = (0, 0)
        var others: [SendOutcome] = []
        for await outcome in outcomes {
            if outcome == .acknowledged { acknowledged += 1 } else { others.append(outcome) }
            guard kills < Self.kills, acknowledged == (kills + 1) * Self.pause else { continue }
            kills += 1
            await Self.roundTrip(control)
            await proxy.set(PathFaults(blackHoleToClient: true))
            broker.save()
            // The first answer may come in the round of the signal; the second one comes after the save.
            for _ in 0..<2 { await Self.roundTrip(control) }
            broker.kill()
            await proxy.cut(.reset)
            await proxy.set(.none)
            try await broker.start()
            // The next kill is to find both with connections again.
            while let state = await subscriberStates.next(), !state.isOpen {}
            while let state = await publisherStates.next(), !state.isOpen {}
        }
        await sending.value
        #expect(await publisher.send(Payload(text: "end")) == .acknowledged)
        let numbers = await received.value

        print(
            "mosquitto: \(Self.messages) sent, \(acknowledged) acknowledged, \(numbers.count) received,",
            "\(subscriberTally.duplicates) duplicates dropped,",
            "\(publisherTally.reconnects + subscriberTally.reconnects) reconnects, \(kills) kills"
        )
        #expect(others.isEmpty)
        #expect(acknowledged == Self.messages && kills == Self.kills)
        #expect(Set(0..<Self.messages).subtracting(numbers).sorted() == [])
        #expect(numbers == Array(0..<Self.messages))
        #expect(publisherTally.reconnects >= Self.kills && subscriberTally.reconnects >= Self.kills)
        for side in [publisher, subscriber, control] { await side.close() }
        await proxy.stop()
    }

    /// mosquitto saves its database at SIGTERM (``RestartedBrokerTests`` tells more). What is under way then, the
    /// publisher's session of MQTT completes, and the supervisor sends it again in its envelope; the envelope's number
    /// drops one of the two.
    @Test(
        "QoS 2 in an envelope brings 20,000 messages once each while mosquitto is stopped ten times",
        .enabled(if: Peers.mosquitto != nil)
    )
    func stopped() async throws {
        let broker = try await PersistentMosquitto(PersistentMosquitto.roomy)
        let (publisherTally, subscriberTally) = (Tally(), Tally())
        let publisher = try supervisor("\(broker.port)/?publish=chat&client-id=publisher", publisherTally, qos: 2)
        let subscriber = try supervisor("\(broker.port)/?subscribe=chat&client-id=subscriber", subscriberTally, qos: 2)
        let received = Self.read(subscriber.messages)
        var subscriberStates = subscriber.states.makeAsyncIterator()
        var publisherStates = publisher.states.makeAsyncIterator()
        subscriber.connect()
        while let state = await subscriberStates.next(), !state.isOpen {}
        publisher.connect()
        while let state = await publisherStates.next(), !state.isOpen {}

        let (outcomes, report) = AsyncStream.makeStream(of: SendOutcome.self)
        let sending = Task { await Self.send(Self.stoppedMessages, over: publisher, to: report) }
        var (acknowledged, stops) = (0, 0)
        for await outcome in outcomes where outcome == .acknowledged {
            acknowledged += 1
            guard stops < Self.kills, acknowledged == (stops + 1) * Self.stoppedMessages / 11 else { continue }
            stops += 1
            try broker.stop()
            try await broker.start()
            while let state = await subscriberStates.next(), !state.isOpen {}
            while let state = await publisherStates.next(), !state.isOpen {}
        }
        await sending.value
        #expect(await publisher.send(Payload(text: "end")) == .acknowledged)
        let numbers = await received.value
        print(
            "mosquitto: \(Self.stoppedMessages) of QoS 2 sent, \(acknowledged) acknowledged, \(numbers.count) received,",
            "\(subscriberTally.duplicates) duplicates dropped,",
            "\(publisherTally.reconnects + subscriberTally.reconnects) reconnects, \(stops) stops"
        )
        #expect(acknowledged == Self.stoppedMessages && stops == Self.kills)
        #expect(numbers.count == Self.stoppedMessages)
        #expect(Set(numbers) == Set(0..<Self.stoppedMessages))
        for side in [publisher, subscriber] { await side.close() }
    }

    /// A supervisor for one side, with everything that is waited for made short.
    private func supervisor(_ address: String, _ tally: Tally, qos: Int = 1) throws -> Supervisor {
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(address)&qos=\(qos)&clean-session=off"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"},
              "keepalive": {"interval": "1s", "timeout": "5s"},
              "delivery": {"mode": "session"}
            }
            """
        return try Supervisor(TransportConfiguration(json: file.utf8)) { $0.observer = tally }
    }

    /// Sends the numbers in their order, many at a time.
    private static func send(
        _ count: Int,
        over publisher: Supervisor,
        to report: AsyncStream<SendOutcome>.Continuation
    ) async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= 500 { await group.next() }
                group.addTask(executorPreference: EventLoop.shared) {
                    report.yield(await publisher.send(Payload(text: "\(number)")))
                }
            }
        }
        report.finish()
    }

    /// The numbers that arrive before the end.
    private static func read(_ messages: Subscription<Payload>) -> Task<[Int], Never> {
        Task {
            var numbers: [Int] = []
            for await message in messages {
                guard let number = Int(String(decoding: message.bytes, as: UTF8.self)) else { break }
                numbers.append(number)
            }
            return numbers
        }
    }

    /// Waits until the broker has answered.
    private static func roundTrip(_ control: Supervisor) async {
        while await control.send(Payload(text: "?")) != .acknowledged {}
    }
}

/// Counts what a supervisor tells.
private final class Tally: SupervisorObserver {
    private let counts = Locked((opens: 0, duplicates: 0))

    var reconnects: Int { max(0, counts.withLock { $0.opens } - 1) }
    var duplicates: Int { counts.withLock { $0.duplicates } }

    func note(_ note: SupervisorEvent, at _: Instant) {
        counts.withLock {
            switch note {
            case .state(let state) where state.isOpen: $0.opens += 1
            case .duplicate: $0.duplicates += 1
            default: break
            }
        }
    }
}
