import Codecs
import CommandSupport
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import TrialCertificates

/// The round trips of honest clients in nanoseconds, and the first failure.
typealias HonestOutcome = (times: [Int64], failure: String?)

/// The clients that are measured beside hostile ones.
protocol HonestParty: Sendable {
    /// Nanoseconds from the end of one round trip to the next one.
    static var interval: Int64 { get }
    var loop: EventLoop { get }

    /// Makes one round trip of a client. Returns why it failed, or `nil`.
    func trip(_ number: Int) async -> String?
    /// Ends the round trip of a client, because it takes too long.
    func interrupt(_ number: Int) async
    func close() async
}

extension HonestParty {
    /// Measures all clients until `end`, in nanoseconds of the monotonic clock.
    func measure(until end: Int64) async -> HonestOutcome {
        // The first message follows a pause, like every other one. The clients start one after the other, because
        // simultaneous clients would delay each other.
        let (start, count) = (Clocks.monotonic() + HonestClients.interval, HonestClients.count)
        return await withTaskGroup(of: HonestOutcome.self) { group in
            for number in 0..<count {
                let first = start + HonestClients.interval * Int64(number) / Int64(count)
                group.addTask(executorPreference: loop) { await measure(number, from: first, until: end) }
            }
            var all: HonestOutcome = ([], nil)
            for await outcome in group {
                all.times += outcome.times
                all.failure = all.failure ?? outcome.failure
            }
            return all
        }
    }

    private func measure(_ number: Int, from start: Int64, until end: Int64) async -> HonestOutcome {
        var times: [Int64] = []
        let watchdog = Task(executorPreference: loop) {
            await pause(on: loop, until: end + HonestClients.answerTimeout)
            if !Task.isCancelled { await interrupt(number) }
        }
        defer { watchdog.cancel() }
        await pause(on: loop, until: start)
        while Clocks.monotonic() < end {
            let start = Clocks.monotonic()
            if let failure = await trip(number) { return (times, failure) }
            let now = Clocks.monotonic()
            times.append(now - start)
            await pause(on: loop, until: now + Self.interval)
        }
        return (times, nil)
    }
}

/// A few clients that send a message at intervals and wait for its echo.
struct HonestClients: HonestParty {
    static let count = 8
    static let interval: Int64 = 2_000_000
    /// How long a client waits for an answer beyond the end of the measurement, in nanoseconds.
    static let answerTimeout: Int64 = 5_000_000_000

    let loop: EventLoop
    private let connections: [any Connection]

    /// Connects.
    init(to endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) {
        let descriptor = try TransportRegistry.trial.transport(named: endpoint.scheme)
        var connections: [any Connection] = []
        for number in 0..<Self.count {
            var own = endpoint
            own.options = descriptor.loopback("honest-\(number)")
            // A lost datagram then costs time, and does not end the measurement.
            if descriptor.isDatagram { own.options.append(.init(name: "reliable", value: "ordered")) }
            connections.append(
                try await descriptor.make(own, ConnectionContext(on: loop)).connect(timeout: .seconds(10))
            )
        }
        (self.connections, self.loop) = (connections, loop)
        // With TLS 1.3 a client is connected before the server has completed the handshake, and may still be refused in favor
        // of attackers.
        for number in 0..<Self.count {
            if let failure = await trip(number) { throw TransportError(.connectionLost, .open, failure) }
        }
    }

    func trip(_ number: Int) async -> String? {
        // Messages differ, so that they cannot be confused.
        let bytes = withUnsafeBytes(of: Clocks.monotonic(), Array.init) + [UInt8](repeating: 66, count: 56)
        let outcome = await connections[number].send(Payload(bytes))
        guard outcome.isSuccess else { return "a message of an honest client was not sent: \(outcome)" }
        do throws(TransportError) {
            guard let answer = try await connections[number].receive() else { return "an honest client got no answer" }
            return answer.bytes == bytes ? nil : "an honest client got another message than its own"
        } catch {
            return "an honest client lost its connection: \(sentence(of: error))"
        }
    }

    func interrupt(_ number: Int) async {
        await connections[number].close()
    }

    func close() async {
        for connection in connections { await connection.close() }
    }
}

/// A few members of a chat room, or of a conversation over a broker. Each sends a message at intervals, and waits until the
/// next member has received it.
struct HonestMembers: HonestParty {
    /// Their topic at a broker.
    static let topic = "imbench/honest"
    static let interval: Int64 = 20_000_000

    let loop: EventLoop
    private let supervisors: [Supervisor]
    private let received: [Subscription<Payload>]

    /// Enters the room.
    init(to endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) {
        var endpoint = endpoint
        if try TransportRegistry.trial.transport(for: endpoint, on: loop).capabilities.routesByTopic {
            endpoint.options += ["publish", "subscribe"].map { Endpoint.Option(name: $0, value: Self.topic) }
            endpoint.options += TransportRegistry.acknowledging(endpoint.scheme)
        }
        var supervisors: [Supervisor] = []
        for _ in 0..<HonestClients.count { supervisors.append(try await Self.enter(endpoint, on: loop)) }
        self.supervisors = supervisors
        received = supervisors.map(\.messages)
        self.loop = loop
    }

    /// A supervisor with a session. It retries for ``HonestClients/answerTimeout``.
    static func enter(_ endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) -> Supervisor {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.backoff = .fixed(.milliseconds(50))
        configuration.maximumElapsed = .nanoseconds(HonestClients.answerTimeout)
        let supervisor = try Supervisor(endpoint.description, configuration, registry: .trial, on: loop)
        supervisor.connect()
        for await state in supervisor.states {
            if case .open = state { return supervisor }
            if case .closed(let reason) = state {
                throw reason.error ?? TransportError(.closedByPeer, .open, "\(reason)")
            }
        }
        throw TransportError(.connectionLost, .open, "an honest member was rejected")
    }

    func trip(_ number: Int) async -> String? {
        var reader = received[next(number)].makeAsyncIterator()
        var message = ChatMessage()
        // A room keeps no history of this kind.
        message.kind = .typing
        message.id = "\(number)-\(Clocks.monotonic())"
        do {
            let bytes = try ProtobufCodec().encode(message)
            _ = try await supervisors[number].submit(Payload(bytes))
            while let other = await reader.next() {
                if other.bytes == bytes { return nil }
            }
            return "an honest member lost its session"
        } catch {
            return "a message of an honest member was not sent: \(sentence(of: error))"
        }
    }

    func interrupt(_ number: Int) async {
        for supervisor in [supervisors[number], supervisors[next(number)]] { await supervisor.close() }
    }

    private func next(_ number: Int) -> Int { (number + 1) % supervisors.count }

    func close() async {
        for supervisor in supervisors { await supervisor.close() }
    }
}
