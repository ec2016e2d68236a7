import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TransportContract
import TrialCertificates

@testable import Transports

/// A transport in a mode, and an executor from which it is called.
struct ContractCase: Sendable, CustomTestStringConvertible {
    var subject: ContractSubject
    var caller: Caller

    var testDescription: String { "\(subject), \(caller)" }
}

/// Tests the guarantees of every registered transport. A transport that is registered is tested here without another
/// change.
@Suite("Every transport", .timeLimit(.minutes(5)), .ownThread)
struct ContractTests {
    /// The transports, and those of their modes with further guarantees. The modes are given by client options.
    static let names = TransportRegistry.available.transports.map(\.name) + ["udp?reliable=ordered"]
    /// The same transports and one that uses only public API, each called from every executor.
    static let cases = {
        var subjects = TransportRegistry.available.transports.map { ContractSubject($0) }
        subjects.append(ContractSubject(.udp, options: [.init(name: "reliable", value: "ordered")]))
        subjects.append(ContractSubject(.mqtt, options: [.init(name: "early-publish", value: "on")]))
        let acknowledged = [("receipt", "on"), ("ack", "client-individual")]
        subjects.append(ContractSubject(.stomp, options: acknowledged.map { .init(name: $0.0, value: $0.1) }))
        subjects.append(ContractSubject(.xmpp, options: [.init(name: "sm", value: "off")]))
        for mode in ["long-poll", "poll"] {
            let interval = Endpoint.Option(name: "interval", value: "20ms")
            subjects.append(ContractSubject(.http, options: [.init(name: "mode", value: mode), interval]))
        }
        for dtls in TransportRegistry.available.transports where dtls.name == "dtls" {
            subjects.append(ContractSubject(dtls, options: [.init(name: "reliable", value: "ordered")]))
        }
        subjects.append(ContractSubject(.foreign))
        return subjects.flatMap { subject in Caller.allCases.map { ContractCase(subject: subject, caller: $0) } }
    }()
    var registry: TransportRegistry { .trial }

    @Test("A transport passes each check, called from any executor", arguments: cases, TransportContract.checks)
    func contract(place: ContractCase, check: ContractCheck) async throws {
        try await place.caller.run { try await check.run(place.subject) }
    }

    /// A listening URL of a transport, on a port that the system chooses.
    static func url(_ name: String) -> String {
        "\(name.prefix { $0 != "?" })://127.0.0.1:0"
    }

    /// The options of a client whose messages return to it.
    static func loopback(_ name: String, _ client: String) throws -> [Endpoint.Option] {
        let scheme = String(name.prefix { $0 != "?" })
        let mode = try Endpoint("\(scheme)://host\(name.dropFirst(scheme.count))").options
        return try TransportRegistry.trial.transport(named: scheme).loopback(client) + mode
    }

    /// The two ends of one connection: the client's, and the server's from `accept`.
    struct Pair {
        let listener: any Listener
        let client: any Connection
        let server: any Connection

        init(_ name: String, options: [Endpoint.Option] = []) async throws {
            let registry = TransportRegistry.trial
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
        let expected = [
            "udp": 25, "dtls": 25, "ws": 30, "mqtt+ws": 30, "stomp+ws": 30, "tcp": 60, "mqtt": 60, "stomp": 60,
            "xmpp": 60,
        ]
        for (name, seconds) in expected {
            #expect(try registry.transport(named: name).keepaliveInterval == .seconds(seconds))
        }
    }

    @Test("The error of an unknown option names the allowed ones", arguments: names)
    func unknownOption(name: String) async throws {
        var endpoint = try Endpoint(Self.url(name))
        endpoint.options = [.init(name: "colour", value: "red")]
        let error = #expect(throws: TransportError.self) { _ = try registry.transport(for: endpoint) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.reason.contains("colour") == true && error?.reason.contains("max-message") == true)
    }

    /// - Parameter jobs: The number of jobs in the loop's queue each time: none, or more than one tick processes.
    @Test("An actor on the loop of a connection is served without leaving the loop", arguments: names, [0, 5000])
    func resident(name: String, jobs: Int) async throws {
        let server = try await EmbeddedServer.start(Self.url(name), .echo, registry: .trial)
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

    /// Message number `number`, of `size` bytes.
    private static func numbered(_ number: Int, _ size: Int) -> Payload {
        let digits = Array("\(number)".utf8)
        return Payload(digits + [UInt8](repeating: 0x20, count: max(0, size - digits.count)))
    }

    @Test(
        "Messages that wait for their acknowledgement and for the window keep their order",
        arguments: [
            ("mqtt", "qos", "1"), ("mqtt+ws", "qos", "1"), ("stomp", "receipt", "on"), ("stomp+ws", "receipt", "on"),
            ("xmpp", "acks", "on"),
        ]
    )
    func window(name: String, option: String, value: String) async throws {
        let options = [(option, value), ("in-flight", "20")].map { Endpoint.Option(name: $0.0, value: $0.1) }
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
    private static let loop = try? EventLoop(name: "im-other")

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
