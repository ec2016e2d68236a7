import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// What a real broker's restarts leave of QoS 2: no envelope and no numbers of our own, only what MQTT itself has.
///
/// mosquitto saves its database at SIGTERM, between two packets, and after its start knows how far each message had come; but
/// of those under way to a client, for no more than `max_inflight_messages`. The others it publishes anew, with the identifiers
/// they had, even where the client has had PUBREL and has forgotten them. 2.0.11 has more than that under way as soon as some
/// have waited for their turn (it takes the place of the one that is complete for the number of those under way), and with 0,
/// for no limit, it treats all of them so. Hence a limit here that is beyond all that can be under way.
@Suite("A broker that is restarted", .serialized, .timeLimit(.minutes(6)), .ownThread)
struct RestartedBrokerTests {
    static let messages = 20_000
    static let restarts = 10
    /// How many messages the publisher may be ahead of the subscriber, so that each restart finds both at work.
    static let lead = 1000

    @Test(
        "QoS 2 brings 20,000 messages once each while mosquitto is stopped and started again ten times",
        .enabled(if: Peers.mosquitto != nil)
    )
    func restarted() async throws {
        let broker = try await PersistentMosquitto(PersistentMosquitto.roomy)
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=2&clean-session=off"
        let subscriber = try Side("\(base)&subscribe=t&client-id=subscriber")
        let publisher = try Side("\(base)&publish=t&client-id=publisher")
        var subscriberConnections = subscriber.connections.makeAsyncIterator()
        var publisherConnections = publisher.connections.makeAsyncIterator()
        let (leave, granted) = AsyncStream.makeStream(of: Void.self)
        for _ in 0..<Self.lead { granted.yield() }
        let reading = Task { try await Self.read(subscriber, granting: granted) }
        // The broker keeps messages for those it knows.
        _ = await subscriberConnections.next()

        let (counts, report) = AsyncStream.makeStream(of: Int.self)
        let sending = Task { try await Self.send(over: publisher, leave, granted, to: report) }
        var restarts = 0
        for await count in counts where restarts < Self.restarts && count == (restarts + 1) * Self.messages / 12 {
            // Each restart finds both with connections.
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

    /// Reads numbers up to the word that ends them, over one connection after the other.
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

    /// Sends the numbers over one connection after the other, and then the word that ends them. What a connection has
    /// taken and not settled, the next one completes; what it has not taken, is sent again. Reports how many have been
    /// taken.
    private static func send(
        over side: Side,
        _ leave: AsyncStream<Void>,
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
            let (taken, unsettled, begun) = await send(left, over: connection, leave) { report.yield(before + $0) }
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

    /// Sends many at a time while the connection lives, each by leave; those that it has taken, how many of them it has
    /// not settled, and how many were begun.
    private static func send(
        _ numbers: [Int],
        over connection: any Connection,
        _ leave: AsyncStream<Void>,
        report: (Int) -> Void
    ) async -> (taken: Set<Int>, unsettled: Int, begun: Int) {
        await withTaskGroup(of: (Int, SendOutcome).self) { group in
            var (taken, unsettled, begun, isOver) = (Set<Int>(), 0, 0, false)
            var leave = leave.makeAsyncIterator()
            while true {
                while !isOver, begun < numbers.count, begun - taken.count < 200 {
                    guard await leave.next() != nil else { break }
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

/// One of the two clients: its connections hand the session on, from one to the next.
private struct Side: Sendable {
    private let transport: any Transport
    private let starts: AsyncStream<Void>
    /// A word for each connection, up to the last.
    let connections: AsyncStream<Void>
    let linked: AsyncStream<Void>.Continuation
    /// Is to be told each time when the broker is back, and when it will not go away any more.
    let started: AsyncStream<Void>.Continuation

    init(_ url: String) throws {
        transport = try TransportRegistry.standard.transport(for: Endpoint(url))
        (starts, started) = AsyncStream.makeStream(of: Void.self)
        (connections, linked) = AsyncStream.makeStream(of: Void.self)
    }

    /// The next connection. While the broker is away, it waits for its return; behind the last return, failing is a failure.
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
