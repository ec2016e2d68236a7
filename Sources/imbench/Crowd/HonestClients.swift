import Protocols
import SocketIO
import TransportAPI
import Transports

/// The round trips of honest clients in nanoseconds, and what one of them lost, if anything.
typealias HonestOutcome = (times: [Int64], failure: String?)

/// Those that are measured beside hostile clients.
protocol HonestParty: Sendable {
    /// The round trips of all until `end`, in nanoseconds of the monotonic clock; what one lost, if one did.
    func measure(until end: Int64) async -> HonestOutcome
    func close() async
}

/// A few clients that send a message now and then and wait for it to come back.
struct HonestClients: HonestParty {
    /// How many they are.
    static let count = 8
    /// Nanoseconds from one answer to the next message.
    static let interval: Int64 = 2_000_000
    /// How long a client waits for an answer beyond the end of the measurement, in nanoseconds.
    static let patience: Int64 = 5_000_000_000

    private let connections: [any Connection]
    private let loop: EventLoop

    /// Connects.
    init(to endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) {
        let descriptor = try TransportRegistry.standard.transport(named: endpoint.scheme)
        var connections: [any Connection] = []
        for number in 0..<Self.count {
            var own = endpoint
            own.options = descriptor.loopback("honest-\(number)")
            // So that a lost datagram is one that takes long, and not the end.
            if descriptor.isDatagram { own.options.append(.init(name: "reliable", value: "ordered")) }
            connections.append(try await descriptor.make(own, loop).connect(timeout: .seconds(10)))
        }
        self.connections = connections
        self.loop = loop
    }

    func measure(until end: Int64) async -> HonestOutcome {
        await Self.all(on: loop) { number, first in await measure(connections[number], from: first, until: end) }
    }

    /// What all clients measure, each from the time that it is given.
    static func all(
        on loop: EventLoop,
        _ measure: @escaping @Sendable (_ number: Int, _ first: Int64) async -> HonestOutcome
    ) async -> HonestOutcome {
        // The first message comes behind a pause as every other does, and not while tasks are made; one client's after the
        // other's, for eight at once would wait for each other.
        let start = Clocks.monotonic() + interval
        return await withTaskGroup(of: HonestOutcome.self) { group in
            for number in 0..<count {
                let first = start + interval * Int64(number) / Int64(count)
                group.addTask(executorPreference: loop) { await measure(number, first) }
            }
            var all: HonestOutcome = ([], nil)
            for await outcome in group {
                all.times += outcome.times
                all.failure = all.failure ?? outcome.failure
            }
            return all
        }
    }

    private func measure(_ connection: any Connection, from start: Int64, until end: Int64) async -> HonestOutcome {
        var times: [Int64] = []
        var bytes = [UInt8](repeating: 66, count: 64)
        let watchdog = Task(executorPreference: loop) {
            await pause(on: loop, until: end + Self.patience)
            if !Task.isCancelled { await connection.close() }
        }
        defer { watchdog.cancel() }
        await pause(on: loop, until: start)
        while Clocks.monotonic() < end {
            let start = Clocks.monotonic()
            // Each differs from the one before, so that none is taken for another.
            bytes[0] &+= 1
            let outcome = await connection.send(Payload(bytes))
            guard outcome.isSuccess else { return (times, "a message of an honest client was not sent: \(outcome)") }
            do throws(TransportError) {
                guard let answer = try await connection.receive() else {
                    return (times, "an honest client got no answer")
                }
                guard answer.bytes == bytes else { return (times, "an honest client got another message than its own") }
            } catch {
                return (times, "an honest client lost its connection: \(error)")
            }
            let now = Clocks.monotonic()
            times.append(now - start)
            await pause(on: loop, until: now + Self.interval)
        }
        return (times, nil)
    }

    func close() async {
        for connection in connections { await connection.close() }
    }
}

/// Waits on `loop` until `time`, in nanoseconds of the monotonic clock. To be called on the loop.
func pause(on loop: EventLoop, until time: Int64) async {
    await withUnsafeContinuation { continuation in
        loop.execute { _ = loop.schedule(at: time) { continuation.resume() } }
    }
}
