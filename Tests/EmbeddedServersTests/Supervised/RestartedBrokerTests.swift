import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests what remains of QoS 2 when a real broker restarts. The test adds no envelope and no numbers, so only MQTT
/// itself prevents loss and repetition.
///
/// mosquitto saves its database at SIGTERM, between two packets. After its start it knows the state of each message.
/// But it knows this only for `max_inflight_messages` messages in flight to a client. It publishes the others again
/// with their old identifiers, even if the client has had PUBREL and has forgotten them. Version 2.0.11 exceeds that
/// number as soon as messages have waited, because it counts a completed message in place of the number in flight. With
/// 0, which means no limit, it publishes all of them again. So this test sets a limit that its messages in flight never
/// reach.
@Suite("A broker that is restarted", .serialized, .timeLimit(.minutes(6)), .ownThread)
struct RestartedBrokerTests {
    static let messages = 20_000
    static let restarts = 10
    /// How far the publisher may be ahead of the subscriber, so that both are at work at each restart.
    static let lead = 1000

    @Test(
        "QoS 2 delivers 20,000 messages once each while mosquitto is restarted ten times",
        .enabled(if: Peers.mosquitto != nil)
    )
    func restarted() async throws {
        let broker = try await PersistentMosquitto(PersistentMosquitto.roomy)
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=2&clean-session=off"
        let subscriber = try Side("\(base)&subscribe=t&client-id=subscriber")
        let publisher = try Side("\(base)&publish=t&client-id=publisher")
        var subscriberConnections = subscriber.connections.makeAsyncIterator()
        var publisherConnections = publisher.connections.makeAsyncIterator()
        let (permits, granted) = AsyncStream.makeStream(of: Void.self)
        for _ in 0..<Self.lead { granted.yield() }
        let reading = Task { try await Self.read(subscriber, granting: granted) }
        // The broker keeps messages only for the sessions that it knows.
        _ = await subscriberConnections.next()

        let (counts, report) = AsyncStream.makeStream(of: Int.self)
        let sending = Task { try await Self.send(over: publisher, permits, granted, to: report) }
        var restarts = 0
        for await count in counts where restarts < Self.restarts && count == (restarts + 1) * Self.messages / 12 {
            // Both sides have connections at each restart.
            if restarts > 0 { _ = await subscriberConnections.next() }
            _ = await publisherConnections.next()
            try broker.stop()
            try await broker.start()
            restarts += 1
            for side in [subscriber, publisher] { side.started.yield() }
        }
        for side in [subscriber, publisher] { side.started.finish() }
        let sent = try await sending.value
        let received = try await reading.value

        let different = Set(received.numbers)
        print(
            "mosquitto: \(Self.messages) sent, \(received.numbers.count) received,",
            "\(received.numbers.count - different.count) doubled, \(Self.messages - different.count) lost,",
            "\(restarts) restarts; \(sent.handedOn) left to the next connection, \(received.repeated) came again and were dropped,",
            "\(sent.connections) and \(received.connections) connections"
        )
        #expect(restarts == Self.restarts)
        #expect(received.numbers.count == Self.messages)
        #expect(different == Set(0..<Self.messages))
        #expect(sent.connections > Self.restarts && received.connections > Self.restarts)
    }

    /// Reads numbers up to the end message, over one connection after the other.
    private static func read(
        _ side: Side,
        granting granted: AsyncStream<Void>.Continuation
    ) async throws -> (numbers: [Int], repeated: UInt64, connections: Int) {
        defer { side.linked.finish() }
        var (numbers, repeated, connections, hasEnded) = ([Int](), UInt64(0), 0, false)
        while !hasEnded {
            let connection = try await side.connect()
            connections += 1
            while !hasEnded, let message = try? await connection.receive() {
                if let number = Int(String(decoding: message.bytes, as: UTF8.self)) {
                    numbers.append(number)
                    granted.yield()
                } else {
                    hasEnded = true
                }
            }
            await connection.close()
            repeated += await connection.statistics().duplicates
        }
        return (numbers, repeated, connections)
    }

    /// Sends the numbers over one connection after the other, and then the end message. The next connection completes
    /// the messages that one has sent and not settled. Messages that were not sent are sent again. Reports the number
    /// of sent messages.
    private static func send(
        over side: Side,
        _ permits: AsyncStream<Void>,
        _ granted: AsyncStream<Void>.Continuation,
        to report: AsyncStream<Int>.Continuation
    ) async throws -> (handedOn: Int, connections: Int) {
        defer {
            report.finish()
            side.linked.finish()
        }
        var (handedOn, connections) = (0, 0)
        var left = Array(0..<messages)
        while !left.isEmpty {
            let connection = try await side.connect()
            connections += 1
            let before = messages - left.count
            let (taken, unsettled, begun) = await send(left, over: connection, permits) { report.yield(before + $0) }
            left.removeAll { taken.contains($0) }
            for _ in taken.count..<begun { granted.yield() }
            handedOn += unsettled
            await connection.close()
        }
        var hasEnded = false
        while !hasEnded {
            let connection = try await side.connect()
            connections += 1
            hasEnded = await connection.send(Payload(text: "end")) == .acknowledged
            await connection.close()
        }
        return (handedOn, connections)
    }

    /// Sends many messages concurrently while the connection is open. Each message needs a permit from `permits`. Returns
    /// the numbers that were sent, how many of those are not settled, and how many sends were started.
    private static func send(
        _ numbers: [Int],
        over connection: any Connection,
        _ permits: AsyncStream<Void>,
        report: (Int) -> Void
    ) async -> (taken: Set<Int>, unsettled: Int, begun: Int) {
        await withTaskGroup(of: (Int, SendOutcome).self) { group in
            var (taken, unsettled, begun, isOver) = (Set<Int>(), 0, 0, false)
            var permits = permits.makeAsyncIterator()
            while true {
                while !isOver, begun < numbers.count, begun - taken.count < 200 {
                    guard await permits.next() != nil else { break }
                    let number = numbers[begun]
                    begun += 1
                    group.addTask(executorPreference: EventLoop.shared) {
                        (number, await connection.send(Payload(text: "\(number)")))
                    }
                }
                guard let (number, outcome) = await group.next() else { return (taken, unsettled, begun) }
                switch outcome {
                case .acknowledged: break
                case .unknown: unsettled += 1
                case .rejected, .expired, .written:
                    isOver = true
                    continue
                }
                taken.insert(number)
                report(taken.count)
            }
        }
    }
}

/// One of the two clients. Each connection continues the session of the last one.
private struct Side: Sendable {
    private let transport: any Transport
    private let starts: AsyncStream<Void>
    /// Has an element for each connection that opens, and ends after the last.
    let connections: AsyncStream<Void>
    let linked: AsyncStream<Void>.Continuation
    /// Gets an element when the broker is back, and ends when no further restart follows.
    let started: AsyncStream<Void>.Continuation

    init(_ url: String) throws {
        transport = try TransportRegistry.standard.transport(for: Endpoint(url))
        (starts, started) = AsyncStream.makeStream(of: Void.self)
        (connections, linked) = AsyncStream.makeStream(of: Void.self)
    }

    /// Returns the next connection. If the broker is away, it waits for a restart. After the last restart, a failure is
    /// thrown.
    func connect() async throws -> any Connection {
        var starts = starts.makeAsyncIterator()
        while true {
            do {
                let connection = try await transport.connect(timeout: .seconds(10))
                linked.yield()
                return connection
            } catch {
                guard await starts.next() != nil else { throw error }
            }
        }
    }
}
