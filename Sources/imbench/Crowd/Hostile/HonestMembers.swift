import Codecs
import Protocols
import SocketIO
import TransportAPI
import Transports

/// A few members of a chat room, or of a conversation over a broker. Each writes a message now and then, and waits
/// until the next member has it.
struct HonestMembers: HonestParty {
    /// Where they meet over a broker.
    static let topic = "imbench/honest"
    /// Nanoseconds from the arrival of a message to the next one.
    private static let interval: Int64 = 20_000_000

    private let supervisors: [Supervisor]
    private let heard: [Subscription<Payload>]
    private let loop: EventLoop

    /// Enters the room.
    init(to endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) {
        var endpoint = endpoint
        if try TransportRegistry.standard.transport(for: endpoint, on: loop).capabilities.routesByTopic {
            endpoint.options += ["publish", "subscribe"].map { Endpoint.Option(name: $0, value: Self.topic) }
            endpoint.options.append(Endpoint.Option(name: "qos", value: "1"))
        }
        var supervisors: [Supervisor] = []
        for _ in 0..<HonestClients.count { supervisors.append(try await Self.enter(endpoint, on: loop)) }
        self.supervisors = supervisors
        heard = supervisors.map(\.messages)
        self.loop = loop
    }

    /// A supervisor with a session. It is tried again for as long as ``HonestClients/patience``.
    static func enter(_ endpoint: Endpoint, on loop: EventLoop) async throws(TransportError) -> Supervisor {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.backoff = .fixed(.milliseconds(50))
        configuration.maximumElapsed = .nanoseconds(HonestClients.patience)
        let supervisor = try Supervisor(endpoint.description, configuration, on: loop)
        supervisor.connect()
        for await state in supervisor.states {
            if case .open = state { return supervisor }
            if case .closed(let reason) = state {
                throw reason.error ?? TransportError(.closedByPeer, .open, "\(reason)")
            }
        }
        throw TransportError(.connectionLost, .open, "an honest member was not let in")
    }

    func measure(until end: Int64) async -> HonestOutcome {
        await HonestClients.all(on: loop) { number, first in await measure(number, from: first, until: end) }
    }

    private func measure(_ number: Int, from start: Int64, until end: Int64) async -> HonestOutcome {
        let (writer, next) = (supervisors[number], (number + 1) % supervisors.count)
        var reader = heard[next].makeAsyncIterator()
        var times: [Int64] = []
        var message = ChatMessage()
        // No history is kept of it.
        message.kind = .typing
        let watchdog = Task(executorPreference: loop) {
            await pause(on: loop, until: end + HonestClients.patience)
            guard !Task.isCancelled else { return }
            for supervisor in [writer, supervisors[next]] { await supervisor.close() }
        }
        defer { watchdog.cancel() }
        await pause(on: loop, until: start)
        while Clocks.monotonic() < end {
            let start = Clocks.monotonic()
            message.id = "\(number)-\(start)"
            do {
                let bytes = try ProtobufCodec().encode(message)
                _ = try await writer.submit(Payload(bytes))
                while true {
                    guard let other = await reader.next() else { return (times, "an honest member lost its session") }
                    if other.bytes == bytes { break }
                }
            } catch {
                return (times, "a message of an honest member was not sent: \(error)")
            }
            let now = Clocks.monotonic()
            times.append(now - start)
            await pause(on: loop, until: now + Self.interval)
        }
        return (times, nil)
    }

    func close() async {
        for supervisor in supervisors { await supervisor.close() }
    }
}
