import EmbeddedServers
import Foundation
import SocketIO
import Testing
import TransportAPI
import Transports

/// What mosquitto keeps over a restart, and what it makes of WebSockets and of a client that is killed.
@Suite("mosquitto with persistence", .serialized, .timeLimit(.minutes(2)), .enabled(if: Peers.mosquitto != nil))
struct BrokerMosquittoTests {
    private let registry = TransportRegistry.standard

    private func text(_ link: any Link) async throws -> String? {
        try await link.receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test("a session that is away, and what is retained, are there after a restart", arguments: 1...2)
    func restart(qos: Int) async throws {
        let broker = try PersistentMosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=\(qos)"
        let session = "\(base)&client-id=ann&clean-session=off"
        await (try await registry.connect("\(session)&subscribe=t")).close()
        let publisher = try await registry.connect("\(base)&publish=t")
        for number in 0..<50 { #expect(await publisher.send(Payload(text: "\(number)")) == .acknowledged) }
        #expect(await publisher.send(Payload(Array("kept".utf8), topic: "r", isRetained: true)) == .acknowledged)
        try broker.stop()
        #expect(await publisher.closed().initiator != .user)
        try broker.start()
        // It does not ask for its subscription again.
        let back = try await registry.connect(session)
        for number in 0..<50 { #expect(try await text(back) == "\(number)") }
        let late = try await registry.connect("\(base)&subscribe=r")
        #expect(try await late.receive() == Payload(Array("kept".utf8), topic: "r", isRetained: true))
        for link in [back, late] { await link.close() }
    }

    @Test("MQTT over WebSocket brings messages back in order at each QoS, and meets clients of TCP", arguments: 0...2)
    func webSocket(qos: Int) async throws {
        let broker = try PersistentMosquitto()
        let url = "mqtt+ws://127.0.0.1:\(broker.webSocketPort)/mqtt?publish=a/b&subscribe=a/%2B&qos=\(qos)"
        let link = try await registry.connect(url)
        let other = try await registry.connect("mqtt://127.0.0.1:\(broker.port)/?subscribe=a/%23&qos=\(qos)")
        for number in 0..<200 { #expect(await link.send(Payload(text: "\(number)")).isSuccess) }
        for reader in [link, other] {
            for number in 0..<200 { #expect(try await text(reader) == "\(number)") }
        }
        let large = Payload((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }, topic: "a/large")
        async let outcome = link.send(large)
        for reader in [link, other] { #expect(try await reader.receive() == large) }
        #expect(await outcome.isSuccess)
        #expect(try await link.ping() > .zero)
        for reader in [link, other] { await reader.close() }
    }

    @Test("over WebSocket too, what is retained is given to who comes later, and a cut link leaves its will")
    func webSocketWill() async throws {
        let broker = try PersistentMosquitto()
        let base = "mqtt+ws://127.0.0.1:\(broker.webSocketPort)/?qos=1"
        let target = try Endpoint("mqtt+ws://127.0.0.1:\(broker.webSocketPort)")
        let proxy = try await FaultProxy.start(to: target, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let watcher = try await registry.connect("\(base)&subscribe=gone&publish=kept")
        #expect(await watcher.send(Payload(Array("kept".utf8), isRetained: true)) == .acknowledged)
        let will = "will-topic=gone&will-message=ann&will-qos=1&subscribe=kept"
        let cut = try await registry.connect("mqtt+ws://127.0.0.1:\(proxied)/?\(will)")
        #expect(try await cut.receive()?.isRetained == true)
        await proxy.cut(.reset)
        #expect(try await text(watcher) == "ann")
        for link in [watcher, cut] { await link.close() }
        await proxy.stop()
    }

    /// The program that is built beside the tests.
    private static let imbench: String? = {
        let tests = URL(fileURLWithPath: CommandLine.arguments.first ?? "").deletingLastPathComponent()
        let path = tests.appendingPathComponent("imbench").path
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }()

    @Test("mosquitto publishes the will of our client whose process is killed", .enabled(if: imbench != nil))
    func killedClient() async throws {
        let broker = try PersistentMosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=1"
        let watcher = try await registry.connect("\(base)&subscribe=gone&subscribe=said")
        let url = "\(base)&publish=said&subscribe=said&will-topic=gone&will-message=killed&will-qos=1"
        let client = try Peer(try #require(Self.imbench), ["chat", url, "--name", "ann"])
        try client.write("hello\n")
        while let message = try await watcher.receive(), !message.bytes.contains(Array("hello".utf8)) {}
        client.destroy()
        var last: Payload?
        while last?.topic != "gone", let message = try await watcher.receive() { last = message }
        #expect(last == Payload(Array("killed".utf8), topic: "gone"))
        await watcher.close()
    }
}

/// QoS 2 and nothing else: no envelope, no numbers of our own.
@Suite("Exactly once over a broker's restarts", .serialized, .timeLimit(.minutes(3)))
struct BrokerRestartTests {
    static let messages = 20_000
    static let restarts = 10

    @Test(
        "20,000 messages of QoS 2 arrive exactly once while mosquitto is stopped by SIGTERM and started again ten times",
        .enabled(if: Peers.mosquitto != nil)
    )
    func restarted() async throws {
        let broker = try PersistentMosquitto()
        let base = "mqtt://127.0.0.1:\(broker.port)/?qos=2&clean-session=off"
        let subscriber = try Self.transport("\(base)&subscribe=t&client-id=subscriber")
        let publisher = try Self.transport("\(base)&publish=t&client-id=publisher")
        // The broker keeps messages for those it knows.
        await (try await subscriber.connect(timeout: .seconds(10))).close()

        let (counts, report) = AsyncStream.makeStream(of: Int.self)
        let reading = Task { await Self.read(subscriber, to: report) }
        let sending = Task { await Self.send(over: publisher) }
        var restarts = 0
        for await count in counts where restarts < Self.restarts && count == (restarts + 1) * Self.messages / 12 {
            try broker.stop()
            try broker.start()
            restarts += 1
        }
        let sent = await sending.value
        let received = await reading.value
        let distinct = Set(received.numbers)
        print(
            "mosquitto: \(Self.messages) of QoS 2, \(sent.acknowledged) acknowledged, \(sent.handedOn) left to the next link,",
            "\(received.numbers.count) received, \(distinct.count) different, \(restarts) restarts,",
            "\(sent.links) and \(received.links) links"
        )
        #expect(restarts == Self.restarts)
        #expect(received.numbers.count == Self.messages)
        #expect(distinct == Set(0..<Self.messages))
        #expect(sent.acknowledged + sent.handedOn == Self.messages)
    }

    private static func transport(_ url: String) throws -> any Transport {
        try TransportRegistry.standard.transport(for: Endpoint(url))
    }

    /// Connects until somebody listens.
    private static func connect(_ transport: any Transport) async -> any Link {
        while true {
            if let link = try? await transport.connect(timeout: .seconds(10)) { return link }
            await Task.yield()
        }
    }

    /// Reads numbers up to the word that ends them, from one link after the other; reports how many there are.
    private static func read(
        _ transport: any Transport,
        to report: AsyncStream<Int>.Continuation
    ) async -> (numbers: [Int], links: Int) {
        var (numbers, links, hasEnded) = ([Int](), 0, false)
        while !hasEnded {
            let link = await connect(transport)
            links += 1
            while !hasEnded, let message = try? await link.receive() {
                guard let number = Int(String(decoding: message.bytes, as: UTF8.self)) else {
                    hasEnded = true
                    continue
                }
                numbers.append(number)
                report.yield(numbers.count)
            }
            await link.close()
        }
        report.finish()
        return (numbers, links)
    }

    /// Sends all numbers, many at a time, over one link after the other. What a link has taken and not settled, the next
    /// one's core completes; what it has not taken, is sent again.
    private static func send(over transport: any Transport) async -> (acknowledged: Int, handedOn: Int, links: Int) {
        var (acknowledged, handedOn, links) = (0, 0, 0)
        var left = Array(0..<messages)
        while !left.isEmpty {
            let link = await connect(transport)
            links += 1
            var again: [Int] = []
            await withTaskGroup(of: (Int, SendOutcome).self) { group in
                var (started, settled) = (0, 0)
                while settled < left.count {
                    while started < left.count, started - settled < 200 {
                        let number = left[started]
                        started += 1
                        group.addTask(executorPreference: EventLoop.shared) {
                            (number, await link.send(Payload(text: "\(number)")))
                        }
                    }
                    guard let (number, outcome) = await group.next() else { break }
                    settled += 1
                    switch outcome {
                    case .acknowledged: acknowledged += 1
                    case .unknown: handedOn += 1
                    case .rejected, .expired, .written: again.append(number)
                    }
                }
            }
            left = again
            await link.close()
        }
        var hasEnded = false
        while !hasEnded {
            let last = await connect(transport)
            hasEnded = await last.send(Payload(text: "end")) == .acknowledged
            await last.close()
        }
        return (acknowledged, handedOn, links)
    }
}
