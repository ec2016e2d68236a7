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

    /// One mode of acknowledging, with a queue of its own, and what became of its messages.
    private struct Flow {
        let mode: String
        let publisher: Supervisor
        let subscriber: Supervisor
        let tallies: [Tally]
        var states: [Subscription<SupervisorState>.Iterator]
        let arrivals: AsyncStream<Int>
        let arrived: AsyncStream<Int>.Continuation
        let reading: Task<Void, Never>
        var acknowledged: Set<Int> = []
        var unknown = 0
        var others: [SendOutcome] = []

        init(_ mode: String, at url: String) throws {
            self.mode = mode
            let queue = "/queue/killed.\(mode)"
            tallies = [Tally(), Tally()]
            publisher = try Self.supervisor(
                "\(url)&receipt=on&send-header=persistent:true&publish=\(queue)",
                tallies[0]
            )
            let subscriber = try Self.supervisor("\(url)&ack=\(mode)&subscribe=\(queue)", tallies[1])
            self.subscriber = subscriber
            states = [subscriber.states.makeAsyncIterator(), publisher.states.makeAsyncIterator()]
            let (arrivals, arrived) = AsyncStream.makeStream(of: Int.self)
            (self.arrivals, self.arrived) = (arrivals, arrived)
            let deliveries = subscriber.deliveries
            reading = Task(executorPreference: EventLoop.shared) {
                for await message in deliveries {
                    arrived.yield(Int(String(decoding: message.payload.bytes, as: UTF8.self)) ?? -1)
                    message.acknowledge()
                }
                arrived.finish()
            }
        }

        private static func supervisor(_ url: String, _ tally: Tally) throws -> Supervisor {
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

        /// Waits until both sides report an open connection: the subscriber first, so that its queue exists.
        mutating func waitForConnections() async {
            for index in states.indices {
                while let state = await states[index].next(), !state.isOpen {}
            }
        }

        mutating func count(_ outcome: SendOutcome, of number: Int) {
            switch outcome {
            case .acknowledged: acknowledged.insert(number)
            case .unknown: unknown += 1
            default: others.append(outcome)
            }
        }
    }

    /// Sends messages to a queue for each mode, whose subscriber acknowledges them after processing, and calls `restart`
    /// ten times meanwhile, which kills the broker and starts it again. Then it expects that each acknowledged message has
    /// arrived a minute after the last one was sent.
    private func expectNothingLost(by name: String, at url: String, restart: () async throws -> Void) async throws {
        var flows = try ["client", "client-individual"].map { try Flow($0, at: url) }
        for index in flows.indices {
            flows[index].subscriber.connect()
            flows[index].publisher.connect()
            await flows[index].waitForConnections()
        }
        let count = Self.messages
        let (outcomes, report) = AsyncStream.makeStream(of: (flow: Int, number: Int, outcome: SendOutcome).self)
        let publishers = flows.map(\.publisher)
        let sending = Task {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    for (flow, publisher) in publishers.enumerated() {
                        if number >= 200 { await group.next() }
                        group.addTask(executorPreference: EventLoop.shared) {
                            report.yield((flow, number, await publisher.send(Payload(text: "\(number)"))))
                        }
                    }
                }
            }
            report.finish()
        }
        var kills = 0
        for await (flow, number, outcome) in outcomes {
            flows[flow].count(outcome, of: number)
            let enough = (kills + 1) * Self.pause * 4 / 5
            guard kills < Self.kills, flows.allSatisfy({ $0.acknowledged.count >= enough }) else { continue }
            kills += 1
            try await restart()
            for index in flows.indices { await flows[index].waitForConnections() }
        }
        await sending.value
        #expect(kills == Self.kills)
        // A broker may repeat messages after the last one.
        let (loop, ends) = (EventLoop.shared, flows.map(\.arrived))
        loop.execute {
            _ = loop.schedule(at: MonotonicClock.now() + 60_000_000_000) { for end in ends { end.finish() } }
        }
        for flow in flows {
            var (missing, seen, received) = (flow.acknowledged, Set<Int>(), 0)
            if !missing.isEmpty {
                for await number in flow.arrivals {
                    received += 1
                    seen.insert(number)
                    missing.remove(number)
                    if missing.isEmpty { break }
                }
            }
            print(
                "\(name) over STOMP with ack=\(flow.mode): \(count) sent, \(flow.acknowledged.count) acknowledged,",
                "\(flow.unknown) unknown, \(seen.count) received, \(received - seen.count) duplicates,",
                "\(flow.tallies.map(\.reconnects).reduce(0, +)) reconnects, \(kills) kills"
            )
            #expect(missing.sorted() == [])
            #expect(flow.others.isEmpty, "\(flow.others.prefix(3))")
            #expect(flow.acknowledged.count + flow.unknown == count)
            #expect(flow.tallies.allSatisfy { $0.reconnects >= Self.kills })
            for side in [flow.publisher, flow.subscriber] { await side.close() }
            await flow.reading.value
        }
    }

    /// RabbitMQ sends RECEIPT when the queue has the message on disk, because its STOMP plugin uses publisher confirms
    /// then. A destination `/queue/…` is a durable queue.
    @Test(
        "A durable queue of RabbitMQ over STOMP loses nothing that was acknowledged when it is killed ten times",
        .enabled(if: Peers.rabbitmq != nil && Peers.epmd != nil)
    )
    func killedRabbitMQOverSTOMP() async throws {
        let broker = try await aside { try RabbitMQ("rabbitmq_stomp") }
        try await expectNothingLost(by: "RabbitMQ", at: broker.stomp("stomp")) {
            broker.kill()
            try await aside { try broker.start() }
        }
    }

    /// ActiveMQ sends RECEIPT when the journal of KahaDB has the message on disk (`enableJournalDiskSyncs`, by default).
    @Test(
        "A durable queue of ActiveMQ over STOMP loses nothing that was acknowledged when it is killed ten times",
        .peer(Peers.activemq)
    )
    func killedActiveMQ() async throws {
        let broker = try await aside { try ActiveMQ() }
        try await expectNothingLost(by: "ActiveMQ", at: broker.url) {
            broker.kill()
            try await aside { try broker.start() }
        }
    }
}
