import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests supervised clients at QoS 1 whose broker is restarted, over TLS. mosquitto saves its database at SIGTERM. The
/// publisher's outbox sends messages without an acknowledgement again. The subscriber drops those that come twice by
/// the number in their envelope. The broker's new process cannot read the TLS tickets of the old one, so every client
/// must fall back to a full handshake.
@Suite("A broker with TLS that is restarted", .serialized, .timeLimit(.minutes(6)), .ownThread)
struct RestartedBrokerTLSTests {
    static let messages = 5000
    static let restarts = 10

    @Test(
        "QoS 1 with an envelope delivers each message once while mosquitto is restarted ten times",
        .enabled(if: Peers.mosquitto != nil && hasOpenSSL),
        arguments: TLSVersion.allCases
    )
    func restarted(version: TLSVersion) async throws {
        let files = try CertificateFiles()
        let broker = try await MosquittoWithTLS(
            files,
            version,
            settings: PersistentMosquitto.roomy + ["max_queued_messages 0"]
        )
        let handshakes = Handshakes()
        let publisher = try supervisor(
            broker.url("mqtts", "publish=chat&client-id=publisher&\(files.client())"),
            handshakes
        )
        let subscriber = try supervisor(
            broker.url("mqtts", "subscribe=chat&client-id=subscriber&\(files.client())"),
            handshakes
        )
        let received = read(subscriber.messages)
        var subscriberStates = subscriber.states.makeAsyncIterator()
        var publisherStates = publisher.states.makeAsyncIterator()
        // The broker keeps messages only for the sessions that it knows.
        subscriber.connect()
        while let state = await subscriberStates.next(), !state.isOpen {}
        publisher.connect()
        while let state = await publisherStates.next(), !state.isOpen {}

        let (outcomes, report) = AsyncStream.makeStream(of: SendOutcome.self)
        let sending = Task { await send(over: publisher, to: report) }
        var (acknowledged, restarts) = (0, 0)
        var others: [SendOutcome] = []
        for await outcome in outcomes {
            if outcome == .acknowledged { acknowledged += 1 } else { others.append(outcome) }
            guard restarts < Self.restarts, acknowledged == (restarts + 1) * Self.messages / 12 else { continue }
            try broker.stop()
            try await broker.start()
            restarts += 1
            // At the next restart, both sides have connections again.
            while let state = await subscriberStates.next(), !state.isOpen {}
            while let state = await publisherStates.next(), !state.isOpen {}
        }
        await sending.value
        #expect(await publisher.send(Payload(text: "end")) == .acknowledged)
        let numbers = await received.value
        let seen = handshakes.seen
        print(
            "mosquitto with \(version.rawValue): \(Self.messages) sent, \(acknowledged) acknowledged,",
            "\(numbers.count) received, \(restarts) restarts, \(seen.count) TLS handshakes"
        )
        #expect(others.isEmpty)
        #expect(acknowledged == Self.messages && restarts == Self.restarts)
        #expect(numbers.count == Self.messages)
        #expect(Set(numbers) == Set(0..<Self.messages))
        #expect(seen.count >= 2 * (Self.restarts + 1))
        #expect(seen.allSatisfy { $0.version == version.rawValue && $0.isVerified })
        for side in [publisher, subscriber] { await side.close() }
    }

    /// A supervisor for one side, with short intervals.
    private func supervisor(_ url: String, _ handshakes: Handshakes) throws -> Supervisor {
        let file = """
            {
              "endpoints": ["\(url)&qos=1&clean-session=off"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"},
              "keepalive": {"interval": "1s", "timeout": "5s"},
              "delivery": {"mode": "session"}
            }
            """
        return try Supervisor(TransportConfiguration(json: file.utf8)) { setup in
            setup.factory = { (endpoint) throws(TransportError) in
                Observed(try TransportRegistry.standard.transport(for: endpoint), handshakes)
            }
        }
    }

    /// Sends the numbers in order, many of them concurrently.
    private func send(over publisher: Supervisor, to report: AsyncStream<SendOutcome>.Continuation) async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<Self.messages {
                if number >= 500 { await group.next() }
                group.addTask(executorPreference: EventLoop.shared) {
                    report.yield(await publisher.send(Payload(text: "\(number)")))
                }
            }
        }
        report.finish()
    }

    /// Returns the numbers that arrive before the end message.
    private func read(_ messages: Subscription<Payload>) -> Task<[Int], Never> {
        Task {
            var numbers: [Int] = []
            for await message in messages {
                guard let number = Int(String(decoding: message.bytes, as: UTF8.self)) else { break }
                numbers.append(number)
            }
            return numbers
        }
    }
}

/// The TLS handshakes of a test.
private final class Handshakes: Sendable {
    private let all = Locked<[TLSDescription]>([])

    var seen: [TLSDescription] { all.withLock { $0 } }

    func add(_ encryption: TLSDescription?) {
        if let encryption { all.withLock { $0.append(encryption) } }
    }
}

/// A transport that records the TLS handshakes of its connections.
private struct Observed: Transport {
    private let inner: any Transport
    private let handshakes: Handshakes

    init(_ inner: any Transport, _ handshakes: Handshakes) {
        (self.inner, self.handshakes) = (inner, handshakes)
    }

    var capabilities: Capabilities { inner.capabilities }
    var endpoint: Endpoint { inner.endpoint }

    nonisolated(nonsending) func connect(timeout: Duration) async throws(TransportError) -> any Connection {
        let connection = try await inner.connect(timeout: timeout)
        handshakes.add(connection.encryption)
        return connection
    }
}
