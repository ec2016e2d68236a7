import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests what remains of messages at QoS 1 when a real broker crashes.
///
/// mosquitto (2.0.11, according to its source) answers PUBLISH with PUBACK while it handles a round of events. It saves
/// its database only at the end of the round. With `autosave_on_changes`, three things count as changes: subscriptions,
/// messages that wait for the subscriber's window, and messages that the subscriber has acknowledged. Messages that go
/// to the subscriber at once do not count. So a crash may lose the messages that mosquitto acknowledged last, and no
/// client can detect that. mosquitto guarantees two things. The database is never half written, because it is renamed
/// into place. After SIGUSR1, every message that mosquitto has acknowledged is saved.
///
/// So before each kill, the test makes mosquitto save every acknowledgement that has reached the publisher. First the
/// test blocks the way back to the publisher, while messages still go to the broker. Then the broker saves, and then it
/// is killed. Of the messages that came after the way was blocked, the broker has acknowledged many without effect,
/// saved some and lost some. The publisher must send all of them again. The subscriber must drop those that it knows,
/// and also those whose acknowledgement the broker had not read yet.
///
/// `KilledBrokerClientTests.swift` has the tests without an envelope, and those with other brokers.
@Suite("A broker that is killed", .serialized, .timeLimit(.minutes(10)), .ownThread)
struct KilledBrokerTests {
    static let messages = 5000
    static let stoppedMessages = 20_000
    static let kills = 10
    /// The number of acknowledgements from one kill to the next.
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

        // The broker keeps messages only for the sessions that it knows.
        var subscriberStates = subscriber.states.makeAsyncIterator()
        var publisherStates = publisher.states.makeAsyncIterator()
        for side in [subscriber, control] { side.connect() }
        while let state = await subscriberStates.next(), !state.isOpen {}
        publisher.connect()
        while let state = await publisherStates.next(), !state.isOpen {}

        let (outcomes, report) = AsyncStream.makeStream(of: SendOutcome.self)
        let sending = Task { await Self.send(Self.messages, to: report) { await publisher.send($0) } }
        var (acknowledged, kills) = (0, 0)
        var others: [SendOutcome] = []
        for await outcome in outcomes {
            if outcome == .acknowledged { acknowledged += 1 } else { others.append(outcome) }
            guard kills < Self.kills, acknowledged == (kills + 1) * Self.pause else { continue }
            kills += 1
            try await Self.killAfterSave(broker, behind: proxy, control)
            // At the next kill, both sides must have connections again.
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

    /// mosquitto saves its database at SIGTERM (see ``RestartedBrokerTests``). The publisher's MQTT session completes
    /// the messages in flight, and the supervisor sends them again in its envelope. The subscriber drops one of the two
    /// by the number in the envelope.
    @Test(
        "QoS 2 with an envelope delivers 20,000 messages once each while mosquitto is stopped ten times",
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
        let sending = Task { await Self.send(Self.stoppedMessages, to: report) { await publisher.send($0) } }
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

    /// A supervisor for one side, with short intervals.
    func supervisor(
        _ address: String,
        _ tally: Tally,
        qos: Int = 1,
        mode: String = "session"
    ) throws -> Supervisor {
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(address)&qos=\(qos)&clean-session=off"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"},
              "keepalive": {"interval": "1s", "timeout": "5s"},
              "delivery": {"mode": "\(mode)"}
            }
            """
        return try Supervisor(TransportConfiguration(json: file.utf8)) { $0.observer = tally }
    }

    /// Sends the numbers in order, many of them concurrently.
    static func send(
        _ count: Int,
        to report: AsyncStream<SendOutcome>.Continuation,
        over send: @escaping @Sendable (Payload) async -> SendOutcome
    ) async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= 500 { await group.next() }
                group.addTask(executorPreference: EventLoop.shared) {
                    report.yield(await send(Payload(text: "\(number)")))
                }
            }
        }
        report.finish()
    }

    /// Returns the numbers that arrive before the end message.
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

    /// Kills the broker and starts it again. The broker has saved every message whose acknowledgement has come through
    /// the proxy.
    static func killAfterSave(
        _ broker: PersistentMosquitto,
        behind proxy: FaultProxy,
        _ control: Supervisor
    ) async throws {
        await roundTrip(control)
        await proxy.set(PathFaults(blackHoleToClient: true))
        broker.save()
        // The first answer may come in the round of the signal. The second answer comes after the save.
        for _ in 0..<2 { await roundTrip(control) }
        broker.kill()
        await proxy.cut(.reset)
        await proxy.set(.none)
        try await broker.start()
    }

    /// Waits for an answer of the broker.
    private static func roundTrip(_ control: Supervisor) async {
        while await control.send(Payload(text: "?")) != .acknowledged, !Task.isCancelled {}
    }
}

/// Counts events of a supervisor.
final class Tally: SupervisorObserver {
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
