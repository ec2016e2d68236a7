import SocketIO
import TransportAPI
import Transports

/// A few clients that send a message now and then and wait for it to come back.
struct HonestClients: Sendable {
    /// How many they are.
    static let count = 8
    /// Nanoseconds from one answer to the next message.
    private static let interval: Int64 = 2_000_000
    /// How long a client waits for an answer beyond the end of the measurement, in nanoseconds.
    private static let patience: Int64 = 5_000_000_000

    /// The round trips of all in nanoseconds, and what an honest client lost, if anything.
    typealias Outcome = (times: [Int64], failure: String?)

    private let links: [any Link]
    private let loop: EventLoop

    /// Connects.
    init(to endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) {
        let descriptor = try TransportRegistry.standard.transport(named: endpoint.scheme)
        var links: [any Link] = []
        for number in 0..<Self.count {
            var own = endpoint
            own.options = descriptor.loopback("honest-\(number)")
            // So that a lost datagram is one that takes long, and not the end.
            if descriptor.isDatagram { own.options.append(.init(name: "reliable", value: "ordered")) }
            links.append(try await descriptor.make(own, loop).connect(timeout: .seconds(10)))
        }
        self.links = links
        self.loop = loop
    }

    /// The round trips of all until `end`; what one lost, if one did.
    func measure(until end: Int64) async -> Outcome {
        // The first message comes behind a pause as every other does, and not while tasks are made; one client's after the
        // other's, for eight at once would wait for each other.
        let start = Clocks.monotonic() + Self.interval
        return await withTaskGroup(of: Outcome.self) { group in
            for (number, link) in links.enumerated() {
                let first = start + Self.interval * Int64(number) / Int64(Self.count)
                group.addTask(executorPreference: loop) { await measure(link, from: first, until: end) }
            }
            var all: Outcome = ([], nil)
            for await outcome in group {
                all.times += outcome.times
                all.failure = all.failure ?? outcome.failure
            }
            return all
        }
    }

    private func measure(_ link: any Link, from start: Int64, until end: Int64) async -> Outcome {
        var times: [Int64] = []
        var bytes = [UInt8](repeating: 66, count: 64)
        let watchdog = Task(executorPreference: loop) {
            await pause(on: loop, until: end + Self.patience)
            if !Task.isCancelled { await link.close() }
        }
        defer { watchdog.cancel() }
        await pause(on: loop, until: start)
        while Clocks.monotonic() < end {
            let start = Clocks.monotonic()
            // Each differs from the one before, so that none is taken for another.
            bytes[0] &+= 1
            let outcome = await link.send(Payload(bytes))
            guard outcome.isSuccess else { return (times, "a message of an honest client was not sent: \(outcome)") }
            do throws(TransportError) {
                guard let answer = try await link.receive() else { return (times, "an honest client got no answer") }
                guard answer.bytes == bytes else { return (times, "an honest client got another message than its own") }
            } catch {
                return (times, "an honest client lost its link: \(error)")
            }
            let now = Clocks.monotonic()
            times.append(now - start)
            await pause(on: loop, until: now + Self.interval)
        }
        return (times, nil)
    }

    func close() async {
        for link in links { await link.close() }
    }
}

/// Waits on `loop` until `time`, in nanoseconds of the monotonic clock. To be called on the loop.
func pause(on loop: EventLoop, until time: Int64) async {
    await withUnsafeContinuation { continuation in
        loop.execute { _ = loop.schedule(at: time) { continuation.resume() } }
    }
}
