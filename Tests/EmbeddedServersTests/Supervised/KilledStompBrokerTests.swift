import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests durable queues over STOMP whose broker crashes. STOMP has no sessions, so a message without its receipt ends as
/// unknown and is not sent again. A message with its receipt must arrive, and may come twice, because the broker sends what the
/// subscriber has not acknowledged again. The number of repetitions is printed.
@Suite("A broker of STOMP that is killed", .serialized, .timeLimit(.minutes(10)), .ownThread)
struct KilledStompBrokerTests {
    private static let messages = KilledBrokerTests.messages
    private static let kills = KilledBrokerTests.kills
    private static let pause = KilledBrokerTests.pause

    /// Sends messages to a queue, whose subscriber acknowledges them after processing, and calls `restart` ten times
    /// meanwhile, which kills the broker and starts it again.
    ///
    /// - Returns: The acknowledged messages that have not arrived a minute after the last one was sent.
    private func lostMessages(
        of name: String,
        at url: String,
        _ mode: String,
        restart: () async throws -> Void
    ) async throws -> Set<Int> {
        let queue = "/queue/killed.\(mode)"
        let (publisherTally, subscriberTally) = (Tally(), Tally())
        let publisher = try stomp("\(url)&receipt=on&send-header=persistent:true&publish=\(queue)", publisherTally)
        let subscriber = try stomp("\(url)&ack=\(mode)&subscribe=\(queue)", subscriberTally)
        var subscriberStates = subscriber.states.makeAsyncIterator()
        var publisherStates = publisher.states.makeAsyncIterator()
        let (arrivals, arrived) = AsyncStream.makeStream(of: Int.self)
        let deliveries = subscriber.deliveries
        let reading = Task(executorPreference: EventLoop.shared) {
            for await message in deliveries {
                arrived.yield(Int(String(decoding: message.payload.bytes, as: UTF8.self)) ?? -1)
                message.acknowledge()
            }
            arrived.finish()
        }
        subscriber.connect()
        while let state = await subscriberStates.next(), !state.isOpen {}
        publisher.connect()
        while let state = await publisherStates.next(), !state.isOpen {}

        let count = Self.messages
        let (outcomes, report) = AsyncStream.makeStream(of: (Int, SendOutcome).self)
        let sending = Task {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    if number >= 200 { await group.next() }
                    group.addTask(executorPreference: EventLoop.shared) {
                        report.yield((number, await publisher.send(Payload(text: "\(number)"))))
                    }
                }
            }
            report.finish()
        }
        var (acknowledged, unknown, kills) = (Set<Int>(), 0, 0)
        var others: [SendOutcome] = []
        for await (number, outcome) in outcomes {
            switch outcome {
            case .acknowledged: acknowledged.insert(number)
            case .unknown: unknown += 1
            default: others.append(outcome)
            }
            guard kills < Self.kills, acknowledged.count >= (kills + 1) * Self.pause * 4 / 5 else { continue }
            kills += 1
            try await restart()
            while let state = await subscriberStates.next(), !state.isOpen {}
            while let state = await publisherStates.next(), !state.isOpen {}
        }
        await sending.value
        // A broker may repeat messages after the last one.
        let loop = EventLoop.shared
        loop.execute { _ = loop.schedule(at: MonotonicClock.now() + 60_000_000_000) { arrived.finish() } }
        var (missing, seen, received) = (acknowledged, Set<Int>(), 0)
        if !missing.isEmpty {
            for await number in arrivals {
                received += 1
                seen.insert(number)
                missing.remove(number)
                if missing.isEmpty { break }
            }
        }
        print(
            "\(name) over STOMP with ack=\(mode): \(count) sent, \(acknowledged.count) acknowledged, \(unknown) unknown,",
            "\(seen.count) received, \(received - seen.count) duplicates,",
            "\(publisherTally.reconnects + subscriberTally.reconnects) reconnects, \(kills) kills"
        )
        #expect(others.isEmpty, "\(others.prefix(3))")
        #expect(kills == Self.kills && acknowledged.count + unknown == count)
        #expect(publisherTally.reconnects >= Self.kills && subscriberTally.reconnects >= Self.kills)
        for side in [publisher, subscriber] { await side.close() }
        await reading.value
        return missing
    }

    private func stomp(_ url: String, _ tally: Tally) throws -> Supervisor {
        let file = """
            {
              "endpoints": ["\(url)"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"},
              "keepalive": {"interval": "5s"},
              "delivery": {"mode": "plain"}
            }
            """
        return try Supervisor(TransportConfiguration(json: file.utf8)) { $0.observer = tally }
    }

    /// RabbitMQ sends RECEIPT when the queue has the message on disk, because its STOMP plugin uses publisher confirms
    /// then. A destination `/queue/…` is a durable queue.
    @Test(
        "A durable queue of RabbitMQ over STOMP loses nothing that was acknowledged when it is killed ten times",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil),
        arguments: ["client", "client-individual"]
    )
    func killedRabbitMQOverSTOMP(mode: String) async throws {
        let broker = try await aside { try RabbitMQ("rabbitmq_stomp") }
        let lost = try await lostMessages(of: "RabbitMQ", at: broker.stomp("stomp"), mode) {
            broker.kill()
            try await aside { try broker.start() }
        }
        #expect(lost.sorted() == [])
    }

    /// ActiveMQ sends RECEIPT when the journal of KahaDB has the message on disk (`enableJournalDiskSyncs`, by default).
    @Test(
        "A durable queue of ActiveMQ over STOMP loses nothing that was acknowledged when it is killed ten times",
        .peer(Peers.activemq),
        arguments: ["client", "client-individual"]
    )
    func killedActiveMQ(mode: String) async throws {
        let broker = try await aside { try ActiveMQ() }
        let lost = try await lostMessages(of: "ActiveMQ", at: broker.url, mode) {
            broker.kill()
            try await aside { try broker.start() }
        }
        #expect(lost.sorted() == [])
    }
}
