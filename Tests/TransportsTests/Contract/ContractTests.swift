import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests the guarantees of every registered transport. A transport that is registered is tested here without another
/// change.
@Suite("Every transport", .timeLimit(.minutes(5)), .ownThread)
struct ContractTests {
    /// The transports, and those of their modes with further guarantees. The modes are given by client options.
    static let names = TransportRegistry.standard.transports.map(\.name) + ["udp?reliable=ordered"]
    var registry: TransportRegistry { .standard }

    /// A listening URL of a transport, on a port that the system chooses.
    static func url(_ name: String) -> String {
        "\(name.prefix { $0 != "?" })://127.0.0.1:0"
    }

    /// The options of a client whose messages return to it.
    static func loopback(_ name: String, _ client: String) throws -> [Endpoint.Option] {
        let scheme = String(name.prefix { $0 != "?" })
        let mode = try Endpoint("\(scheme)://host\(name.dropFirst(scheme.count))").options
        return try TransportRegistry.standard.transport(named: scheme).loopback(client) + mode
    }

    /// The two ends of one connection: the client's, and the server's from `accept`.
    struct Pair {
        let listener: any Listener
        let client: any Connection
        let server: any Connection

        init(_ name: String, options: [Endpoint.Option] = []) async throws {
            let registry = TransportRegistry.standard
            let listener = try await registry.listen(ContractTests.url(name))
            var endpoint = listener.endpoint
            endpoint.options = try ContractTests.loopback(name, "pair") + options
            async let accepted = listener.accept()
            client = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            server = try #require(try await accepted)
            self.listener = listener
        }

        func close() async {
            await client.close()
            await server.close()
            await listener.close()
        }
    }

    /// A message that a transport without topics carries unchanged.
    func message(_ text: String) -> Payload {
        Payload(Array(text.utf8))
    }

    @Test("Both ends have the keepalive interval of the descriptor, unless the URL sets another one", arguments: names)
    func keepaliveInterval(name: String) async throws {
        let scheme = String(name.prefix { $0 != "?" })
        let interval = try registry.transport(named: scheme).keepaliveInterval
        let pair = try await Pair(name)
        #expect(pair.client.capabilities.keepaliveInterval == interval)
        #expect(pair.server.capabilities.keepaliveInterval == interval)
        await pair.close()
        let other = try await Pair(name, options: [.init(name: "keepalive-interval", value: "7s")])
        #expect(other.client.capabilities.keepaliveInterval == .seconds(7))
        await other.close()
        var endpoint = try Endpoint(Self.url(name))
        endpoint.options.append(.init(name: "keepalive-interval", value: "7s"))
        let transport = try registry.transport(for: endpoint)
        #expect(transport.capabilities.keepaliveInterval == .seconds(7))
        endpoint.options[0].value = "0s"
        #expect(throws: TransportError.self) { try registry.transport(for: endpoint) }
    }

    @Test("The default keepalive intervals are shorter than the idle timeouts on typical paths")
    func keepaliveDefaults() throws {
        let expected = ["udp": 25, "ws": 30, "mqtt+ws": 30, "tcp": 60, "mqtt": 60]
        for (name, seconds) in expected {
            #expect(try registry.transport(named: name).keepaliveInterval == .seconds(seconds))
        }
    }

    @Test("A transport carries messages both ways, in order", arguments: names, Caller.allCases)
    func bothWays(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for number in 0..<50 {
                #expect(await pair.client.send(message("to server \(number)")) == .written)
                #expect(try await pair.server.receive()?.bytes == Array("to server \(number)".utf8))
                #expect(await pair.server.send(message("to client \(number)")).isSuccess)
                #expect(try await pair.client.receive()?.bytes == Array("to client \(number)".utf8))
            }
            await pair.close()
        }
    }

    @Test("A transport keeps the order of a burst", arguments: names)
    func burst(name: String) async throws {
        let pair = try await Pair(name)
        for number in 0..<200 { #expect(await pair.client.send(message("\(number)")).isSuccess) }
        for number in 0..<200 { #expect(try await pair.server.receive()?.bytes == Array("\(number)".utf8)) }
        await pair.close()
    }

    @Test("A transport carries an empty message, one of every byte, and its largest", arguments: names)
    func sizes(name: String) async throws {
        let pair = try await Pair(name)
        let largest = min(pair.client.capabilities.maximumMessageSize, 3_000_000)
        for size in [0, 1, 256, largest] {
            let bytes = longBytes(size)
            async let outcome = pair.client.send(Payload(bytes))
            #expect(try await pair.server.receive()?.bytes == bytes)
            #expect(await outcome.isSuccess)
        }
        await pair.close()
    }

    @Test("A message beyond the limit is rejected with a typed error, and the connection stays open", arguments: names)
    func tooLarge(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "max-message", value: "1000")])
        guard case .rejected(let error) = await pair.client.send(Payload([UInt8](repeating: 1, count: 1001))) else {
            Issue.record("the message was not rejected")
            return
        }
        #expect(error.code == .messageTooLarge)
        #expect(await pair.client.send(message("still here")).isSuccess)
        #expect(try await pair.server.receive()?.bytes == Array("still here".utf8))
        await pair.close()
    }

    @Test("A message with a topic is rejected if the transport cannot carry the topic", arguments: names)
    func topics(name: String) async throws {
        let pair = try await Pair(name)
        let outcome = await pair.client.send(Payload([1], topic: "a/b"))
        if pair.client.capabilities.routesByTopic {
            #expect(outcome.isSuccess)
            #expect(try await pair.server.receive()?.topic == "a/b")
        } else {
            guard case .rejected(let error) = outcome else {
                Issue.record("the message was not rejected")
                return
            }
            #expect(error.code == .unsupported)
        }
        await pair.close()
    }

    @Test("A retained message is rejected if the transport cannot retain", arguments: names)
    func retained(name: String) async throws {
        let pair = try await Pair(name)
        let topic = pair.client.capabilities.routesByTopic ? "a/b" : nil
        let outcome = await pair.client.send(Payload([1], topic: topic, isRetained: true))
        if pair.client.capabilities.routesByTopic {
            #expect(outcome.isSuccess)
            #expect(try await pair.server.receive()?.isRetained == true)
        } else {
            guard case .rejected(let error) = outcome else {
                Issue.record("the message was not rejected")
                return
            }
            #expect(error.code == .unsupported)
        }
        await pair.close()
    }

    @Test(
        "A ping measures a round trip, or fails as unsupported on a transport without pings",
        arguments: names,
        Caller.allCases
    )
    func ping(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for connection in [pair.client, pair.server] {
                if connection.capabilities.hasNativePing {
                    #expect(try await connection.ping() > .zero)
                } else {
                    let error = await #expect(throws: TransportError.self) { _ = try await connection.ping() }
                    #expect(error?.code == .unsupported)
                }
            }
            await pair.close()
        }
    }

    @Test("A connection counts the messages and bytes that it sends and receives", arguments: names)
    func statistics(name: String) async throws {
        let pair = try await Pair(name)
        let payload = Payload([UInt8](repeating: 5, count: 100))
        for _ in 0..<10 {
            #expect(await pair.client.send(payload).isSuccess)
            _ = try await pair.server.receive()
        }
        let sent = await pair.client.statistics()
        let received = await pair.server.statistics()
        #expect(sent.messagesSent == 10 && received.messagesReceived == 10)
        // A stateless server cannot count the bytes that came before the session.
        #expect(received.bytesReceived >= 1000 && sent.bytesSent >= received.bytesReceived)
        #expect(sent.handshakeDuration > .zero)
        await pair.close()
    }
}

// Connecting, listening, and the servers that every transport has.

extension ContractTests {
    @Test("An attempt without a listener is refused", arguments: names)
    func refused(name: String) async throws {
        let scheme = String(name.prefix { $0 != "?" })
        let port = try ReservedPort.serving(scheme)
        let listener = try await registry.listen("\(scheme)://127.0.0.1:\(port?.port ?? 0)")
        let transport = try registry.transport(for: listener.endpoint)
        await listener.close()
        let error = await #expect(throws: TransportError.self) {
            _ = try await transport.connect(timeout: .seconds(20))
        }
        #expect(error?.code == .refused)
        #expect(error?.isRetryable == true)
        withExtendedLifetime(port) {}
    }

    @Test("An attempt ends at once when its task is cancelled", arguments: names)
    func cancelConnect(name: String) async throws {
        let transport = try registry.transport(for: Endpoint(Self.url(name).replacing(":0", with: ":9")))
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await transport.connect(timeout: .seconds(600))
        }
        let error = await #expect(throws: TransportError.self) { _ = try await task.value }
        #expect(error?.code == .cancelled || error?.code == .refused)
    }

    @Test("A closed listener stops accepting, and accepted connections stay open", arguments: names)
    func listenerCloses(name: String) async throws {
        let pair = try await Pair(name)
        let waiting = Task { try await pair.listener.accept() }
        await pair.listener.close()
        #expect(try await waiting.value == nil)
        #expect(await pair.client.send(message("after")).isSuccess)
        #expect(try await pair.server.receive()?.bytes == Array("after".utf8))
        await pair.close()
    }

    @Test("The error of an unknown option names the allowed ones", arguments: names)
    func unknownOption(name: String) async throws {
        var endpoint = try Endpoint(Self.url(name))
        endpoint.options = [.init(name: "colour", value: "red")]
        let error = #expect(throws: TransportError.self) { _ = try registry.transport(for: endpoint) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.reason.contains("colour") == true && error?.reason.contains("max-message") == true)
    }

    @Test("An embedded echo server returns every message", arguments: names, Caller.allCases)
    func echo(name: String, caller: Caller) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        try await caller.run {
            var endpoint = server.endpoint
            endpoint.options = try ContractTests.loopback(name, "echo")
            let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
            for number in 0..<20 {
                #expect(await connection.send(message("\(number)")).isSuccess)
                #expect(try await connection.receive()?.bytes == Array("\(number)".utf8))
            }
            await connection.close()
        }
        await server.stop()
    }

    /// - Parameter jobs: The number of jobs in the loop's queue each time: none, or more than one tick processes.
    @Test("An actor on the loop of a connection is served without leaving the loop", arguments: names, [0, 5000])
    func resident(name: String, jobs: Int) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "resident")
        let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        let resident = Resident()
        for number in 0..<20 {
            for _ in 0..<jobs { EventLoop.shared.execute {} }
            let echo = try await resident.echo(connection, message("\(number)"))
            #expect(echo?.bytes == Array("\(number)".utf8))
        }
        await connection.close()
        await server.stop()
    }

    @Test("A fan-out server sends a message to all clients", arguments: names)
    func fanOut(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .fanOut)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "room")
        var connections: [any Connection] = []
        for _ in 0..<5 {
            connections.append(try await registry.transport(for: endpoint).connect(timeout: .seconds(10)))
        }
        // The server may register the last client after that client's handshake has ended, but before its first
        // message.
        for connection in connections.reversed() {
            #expect(await connection.send(message("hello")).isSuccess)
            #expect(try await connection.receive()?.bytes == Array("hello".utf8))
        }
        await server.stop()
        for connection in connections { await connection.close() }
    }

    @Test("A client's `receive` ends when an embedded server stops", arguments: names)
    func serverStops(name: String) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo)
        var endpoint = server.endpoint
        endpoint.options = try ContractTests.loopback(name, "stop")
        let connection = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        await server.stop()
        #expect(try await connection.receive() == nil)
        await connection.close()
    }
}

// Many messages that wait for room or for their acknowledgement.

extension ContractTests {
    /// Message number `number` with `size` bytes.
    private static func numbered(_ number: Int, _ size: Int) -> Payload {
        let digits = Array("\(number)".utf8)
        return Payload(digits + [UInt8](repeating: 0x20, count: max(0, size - digits.count)))
    }

    @Test(
        "A connection makes senders wait at its limit and keeps the order of the messages",
        arguments: names,
        Caller.allCases
    )
    func backpressure(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name, options: [.init(name: "write-buffer", value: "10000")])
            // Plain datagrams may be lost.
            let count = pair.client.capabilities.isReliable ? 2000 : 0
            let sending = Task {
                var outcomes: [SendOutcome] = []
                for number in 0..<count { outcomes.append(await pair.client.send(Self.numbered(number, 1000))) }
                return outcomes
            }
            for number in 0..<count {
                #expect(try await pair.server.receive()?.bytes == Self.numbered(number, 1000).bytes)
            }
            #expect(await sending.value.allSatisfy(\.isSuccess))
            await pair.close()
        }
    }

    @Test(
        "Messages that wait for their acknowledgement and for the window keep their order",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func window(name: String) async throws {
        let options = [("qos", "1"), ("in-flight", "20")].map { Endpoint.Option(name: $0.0, value: $0.1) }
        let pair = try await Pair(name, options: options)
        let count = 1000
        let sending = Task {
            await withTaskGroup(of: SendOutcome.self) { group in
                for number in 0..<count {
                    // Tasks of one loop start in their order.
                    group.addTask(executorPreference: EventLoop.shared) {
                        await pair.client.send(Self.numbered(number, 0))
                    }
                }
                return await group.allSatisfy { $0 == .acknowledged }
            }
        }
        for number in 0..<count { #expect(try await pair.server.receive()?.bytes == Self.numbered(number, 0).bytes) }
        #expect(await sending.value)
        await pair.close()
    }

    /// More bytes than all buffers on the way take.
    private static let (muchCount, muchSize) = (1500, 20_000)

    @Test(
        "A cancelled message that waits for room is rejected, earlier ones are sent, and the connection stays open",
        arguments: names,
        Caller.allCases
    )
    func cancelSend(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            guard pair.client.capabilities.isReliable else { return await pair.close() }
            let sending = Task { () -> (sent: Int, failure: SendOutcome?) in
                for number in 0..<Self.muchCount {
                    let outcome = await pair.client.send(Self.numbered(number, Self.muchSize))
                    guard outcome.isSuccess else { return (number, outcome) }
                }
                return (Self.muchCount, nil)
            }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, Self.muchSize).bytes)
            sending.cancel()
            let (sent, failure) = await sending.value
            var mayHaveLeft = false
            switch failure {
            case .rejected(let error): #expect(error.code == .cancelled)
            // The message waited for its acknowledgement and not for room.
            case .unknown(let error):
                #expect(error.code == .cancelled)
                mayHaveLeft = true
            default: Issue.record("outcome after \(sent) sent messages: \(failure as Any)")
            }
            let next = Task { await pair.client.send(self.message("next")) }
            var taken = 1
            while let payload = try await pair.server.receive(), payload.bytes != Array("next".utf8) {
                #expect(payload.bytes == Self.numbered(taken, Self.muchSize).bytes)
                taken += 1
            }
            #expect(taken == sent || mayHaveLeft && taken == sent + 1)
            #expect(await next.value.isSuccess)
            await pair.close()
        }
    }

    @Test("Each message gets its outcome when the connection ends", arguments: names, Caller.allCases)
    func endWhileSending(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let senders = (0..<8).map { _ in
                Task {
                    while true {
                        let outcome = await pair.client.send(Self.numbered(0, 1000))
                        if !outcome.isSuccess { return outcome }
                    }
                }
            }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, 1000).bytes)
            await pair.server.close()
            for sender in senders {
                switch await sender.value {
                case .rejected, .unknown: break
                case let outcome: Issue.record("outcome of a message: \(outcome)")
                }
            }
            await pair.close()
        }
    }
}

// The end of a connection and the calls that wait for it.

extension ContractTests {
    @Test("`receive` returns nil on both sides after a close, and later messages are rejected", arguments: names)
    func closing(name: String) async throws {
        let pair = try await Pair(name)
        #expect(await pair.client.send(message("last message")).isSuccess)
        await pair.client.close()
        #expect(try await pair.client.receive() == nil)
        #expect(await pair.client.closed().initiator == .user)
        #expect(try await pair.server.receive()?.bytes == Array("last message".utf8))
        #expect(try await pair.server.receive() == nil)
        #expect(await pair.server.closed().initiator == .peer)
        for connection in [pair.client, pair.server] {
            guard case .rejected = await connection.send(message("too late")) else {
                Issue.record("the message was not rejected")
                return
            }
            let error = await #expect(throws: TransportError.self) { _ = try await connection.ping() }
            #expect(error != nil)
        }
        await pair.close()
    }

    @Test("A connection closes although its inbox is full and unread", arguments: names)
    func closesUnread(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "inbox", value: "2")])
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<20 { #expect(await pair.server.send(message("\(number)")).isSuccess) }
        // The answers to these pings come behind all those messages.
        if pair.client.capabilities.hasNativePing, !pair.client.capabilities.isReliable {
            _ = try await pair.client.ping()
        }
        await pair.client.close()
        #expect(await pair.client.closed().initiator == .user)
        await pair.close()
    }

    @Test("A waiting `receive` ends on both sides when one of them closes", arguments: names, Caller.allCases)
    func closeWhileReceiving(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let waiting = [pair.client, pair.server].map { connection in
                Task(executorPreference: EventLoop.shared) { try await connection.receive() }
            }
            await pair.client.close()
            for task in waiting { #expect(try await task.value == nil) }
            await pair.close()
        }
    }

    @Test(
        "A waiting `receive` ends at once when its task is cancelled, and the connection stays open",
        arguments: names,
        Caller.allCases
    )
    func cancelReceive(name: String, caller: Caller) async throws {
        let pair = try await Pair(name)
        let error = try await caller.run {
            let task = Task { try await pair.client.receive() }
            task.cancel()
            return await #expect(throws: TransportError.self) { _ = try await task.value }
        }
        #expect(error?.code == .cancelled)
        // A message of the client gives an MQTT server the topic for its answers.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        #expect(await pair.server.send(message("alive")).isSuccess)
        #expect(try await pair.client.receive()?.bytes == Array("alive".utf8))
        await pair.close()
    }

    @Test("One task can receive at a time, and a second one gets an error", arguments: names)
    func busy(name: String) async throws {
        let pair = try await Pair(name)
        try await Caller.onLoop.run {
            let first = Task(executorPreference: EventLoop.shared) { try await pair.client.receive() }
            await Task.yield()
            let error = await #expect(throws: TransportError.self) { _ = try await pair.client.receive() }
            #expect(error?.code == .busy)
            first.cancel()
            _ = try? await first.value
        }
        await pair.close()
    }
}

// Callers outside the connections' loop, whose operations may run inline while the loop is idle.

extension ContractTests {
    @Test("Each message of many tasks outside the loop arrives once, in the order of its task", arguments: names)
    func manySendersElsewhere(name: String) async throws {
        let pair = try await Pair(name)
        let senders = (0..<4).map { sender in
            Task.detached {
                var successes = 0
                for number in 0..<50 {
                    let outcome = await pair.client.send(message("\(sender * 1000 + number)"))
                    if outcome.isSuccess { successes += 1 }
                }
                return successes
            }
        }
        var seen: [Int] = []
        for _ in 0..<200 {
            let bytes = try #require(try await pair.server.receive()).bytes
            seen.append(try #require(Int(String(decoding: bytes, as: UTF8.self))))
        }
        for sender in 0..<4 {
            #expect(seen.filter { $0 / 1000 == sender } == (0..<50).map { sender * 1000 + $0 })
        }
        for sender in senders { #expect(await sender.value == 50) }
        #expect(await pair.client.statistics().messagesSent == 200)
        #expect(await pair.server.statistics().messagesReceived == 200)
        await pair.close()
    }

    @Test("The second of two receivers is refused, and the first one gets the message", arguments: names)
    func secondReceiver(name: String) async throws {
        let pair = try await Pair(name)
        // A message of the client gives an MQTT server the topic for its answers.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<50 {
            await withTaskGroup(of: Result<Payload?, any Error>.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        do { return .success(try await pair.client.receive()) } catch { return .failure(error) }
                    }
                }
                // Chance decides which task is the second one.
                guard case .failure(let error)? = await group.next() else {
                    Issue.record("a receiver ended before there was a message")
                    return
                }
                #expect((error as? TransportError)?.code == .busy)
                #expect(await pair.server.send(message("\(number)")).isSuccess)
                #expect((try? await group.next()?.get())?.bytes == message("\(number)").bytes)
            }
        }
        await pair.close()
    }

    @Test(
        "A message goes to the task that waits outside the loop, or to the next one if that wait was cancelled",
        arguments: names
    )
    func cancelReceiveElsewhere(name: String) async throws {
        let pair = try await Pair(name)
        // A message of the client gives an MQTT server the topic for its answers.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<50 {
            let payload = message("\(number)")
            let waiting = Task.detached { try await pair.client.receive() }
            let sending = Task.detached { await pair.server.send(payload) }
            waiting.cancel()
            #expect(await sending.value.isSuccess)
            let received: Payload?
            do {
                received = try await waiting.value
            } catch {
                #expect((error as? TransportError)?.code == .cancelled)
                received = try await pair.client.receive()
            }
            #expect(received?.bytes == payload.bytes)
        }
        await pair.close()
    }
}

extension ContractTests {
    @Test("An actor on another loop is served and always stays on its own loop", arguments: names)
    func otherLoop(name: String) async throws {
        let pair = try await Pair(name)
        try await OtherLoopActor().exchange(pair)
        await pair.close()
    }
}

/// An actor whose executor is another loop than the connections'.
private actor OtherLoopActor {
    private static let loop = try? EventLoop(name: "strange")

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        (Self.loop ?? .shared).serialExecutor.asUnownedSerialExecutor()
    }

    private var isOnOwnLoop: Bool { Self.loop?.isCurrent ?? false }

    func exchange(_ pair: ContractTests.Pair) async throws {
        for number in 0..<50 as Range<UInt8> {
            #expect(await pair.client.send(Payload([number])).isSuccess && isOnOwnLoop)
            #expect(try await pair.server.receive()?.bytes == [number])
            #expect(isOnOwnLoop)
            #expect(await pair.client.statistics().messagesSent == UInt64(number) + 1)
            #expect(isOnOwnLoop)
        }
        await pair.client.close()
        #expect(try await pair.server.receive() == nil)
        #expect(isOnOwnLoop)
    }
}

// Tests of an actor that lives on the loop and is called by a task that prefers another executor. At each suspension,
// the actor goes through the queue of the loop again, so jobs that are already queued run first.
extension ContractTests {
    @Test("An actor on the loop can wait for an event that comes just before its wait", arguments: names)
    func waitBehindTheEnd(name: String) async throws {
        let pair = try await Pair(name)
        let connection = try #require(pair.client as? CoreConnection)
        let resident = Resident()
        #expect(try await resident.receive(connection) { connection.driver.value.abandon(.user) } == nil)
        let second = try await Pair(name)
        let other = try #require(second.client as? CoreConnection)
        #expect(await resident.closed(other) { other.driver.value.abandon(.user) }.initiator == .user)
        for pair in [pair, second] { await pair.close() }
    }

    @Test("A wait of an actor on the loop ends if its task was cancelled before", arguments: names)
    func cancelledBefore(name: String) async throws {
        let pair = try await Pair(name)
        let connection = try #require(pair.client as? CoreConnection)
        let (resident, aside) = (Resident(), try EventLoop(name: "im-aside"))
        let waits: [@Sendable () async throws -> Void] = [
            { _ = try await resident.receive(connection) {} },
            { _ = try await pair.listener.accept() },
        ]
        for wait in waits {
            let task = Task(executorPreference: aside) {
                withUnsafeCurrentTask { $0?.cancel() }
                try await wait()
            }
            let error = await #expect(throws: TransportError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        await pair.close()
    }

    @Test("An `accept` of an actor on the loop ends if the listener closes just before", arguments: names)
    func acceptBehind(name: String) async throws {
        let listener = try await registry.listen(Self.url(name))
        let core = try #require(listener as? CoreListener)
        #expect(try await Resident().accept(core).map { _ in 0 } == nil)
    }
}

extension Resident {
    fileprivate func receive(_ connection: CoreConnection, behind job: @escaping @Sendable () -> Void) async throws
        -> Payload?
    {
        EventLoop.shared.execute(job)
        return try await connection.receive()
    }

    fileprivate func accept(_ listener: CoreListener) async throws -> (any Connection)? {
        EventLoop.shared.execute { _ = Task.immediate { await listener.close() } }
        return try await listener.accept()
    }

    fileprivate func closed(_ connection: CoreConnection, behind job: @escaping @Sendable () -> Void) async
        -> CloseReason
    {
        EventLoop.shared.execute(job)
        return await connection.closed()
    }
}
